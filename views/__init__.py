"""Questions: relations in SQL, views in polars, and the state at any cursor."""
