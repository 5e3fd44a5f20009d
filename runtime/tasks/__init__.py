"""Tasks: what each command does to them, as pure decisions on the state."""
