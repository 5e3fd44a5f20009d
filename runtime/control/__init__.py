"""The control plane: one table of commands, and the ways to send one."""
