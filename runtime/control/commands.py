"""Every command: importing this module fills the table."""

from runtime.control import (  # noqa: F401 - each enters its commands
    action_commands,
    history_commands,
    limit_commands,
    places,
    read_commands,
    record_commands,
    task_commands,
    turn_commands,
)
