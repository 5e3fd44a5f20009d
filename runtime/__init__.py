"""The agent runtime: does the work and records every fact of it."""
