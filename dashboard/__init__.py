"""The dashboard: Streamlit pages that show what is recorded; they read through `store.open` and change nothing."""
