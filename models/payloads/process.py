"""Facts about commands, terminals and long-lived processes."""

from typing import Annotated

from models.governance_values import PermissionDecision, SandboxProfile
from models.parts import Failed, Outputs, ProcessNamed, Stated, Stream, Timed
from models.payload import Payload
from models.shape import Known
from models.values import Amount, Count


class ProcessStarted(ProcessNamed, Stated, Payload, event_type="process.started"):
    """A command, terminal or long-lived process started."""

    required_on_emission = frozenset({"command_summary", "cwd"})

    process_kind: Annotated[str, Known("command", "pty", "long_lived")] | None = None
    """What sort of process it is."""

    command_summary: str | None = None
    """The command in a form that is safe to show."""

    command_ref: str | None = None
    """Where the whole command is kept."""

    subcommands: tuple[str, ...] | None = None
    """The commands it consists of, as parsed."""

    destructive: bool | None = None
    """Whether it may destroy or overwrite something."""

    cwd: str | None = None
    """The working directory."""

    shell: str | None = None
    """The shell it runs in."""

    env_ref: str | None = None
    """The environment variables, by reference since they may hold secrets."""

    timeout_ms: Amount | None = None
    """How long it may take, in milliseconds."""

    sandbox: SandboxProfile | None = None
    """The boundary it runs in."""

    permission: PermissionDecision | None = None
    """Why it was allowed."""


class ProcessOutput(ProcessNamed, Payload, event_type="process.output"):
    """Output of a process arrived."""

    required_on_emission = frozenset({"stream", "size_bytes"})

    stream: Stream | None = None
    """Which stream it came on."""

    preview: str | None = None
    """A short beginning, safe to show."""

    output_ref: str | None = None
    """Where the output is kept."""

    offset_bytes: Count | None = None
    """Where this piece begins in the stream, in bytes."""

    size_bytes: Count | None = None
    """Size of this piece in bytes."""

    truncated: bool | None = None
    """Whether part of it was not kept."""


class ProcessInput(ProcessNamed, Payload, event_type="process.input"):
    """The runtime wrote to the process's standard input."""

    required_on_emission = frozenset({"size_bytes"})

    input_ref: str | None = None
    """Where the input is kept."""

    preview: str | None = None
    """A short form, safe to show."""

    size_bytes: Count | None = None
    """Size of the input in bytes."""

    source: str | None = None
    """Who wrote: the model, a user, the runtime."""

    closed: bool | None = None
    """Whether the input was closed after it."""


class ProcessCompleted(ProcessNamed, Stated, Timed, Outputs, Payload, event_type="process.completed"):
    """A process exited."""

    required_on_emission = frozenset({"exit_code", "duration_ms"})

    exit_code: int | None = None
    """The exit code; negative: the number of the signal that ended it."""

    stdout_ref: str | None = None
    """Where the standard output is kept."""

    stderr_ref: str | None = None
    """Where the standard error is kept."""

    stdout_bytes: Count | None = None
    """Size of the standard output in bytes."""

    stderr_bytes: Count | None = None
    """Size of the standard error in bytes."""


class ProcessFailed(ProcessNamed, Failed, Timed, Outputs, Payload, event_type="process.failed"):
    """A process could not be started or was broken off by a failure."""

    required_on_emission = frozenset({"failure_kind", "message"})

    failure_kind: Annotated[str, Known("spawn", "sandbox", "permission", "timeout", "transport", "lost")] | None = None
    """What failed."""

    exit_code: int | None = None
    """The exit code, where there is one."""


class ProcessTerminated(ProcessNamed, Stated, Timed, Outputs, Payload, event_type="process.terminated"):
    """A user, a policy, the parent's cancellation or a shutdown ended a process."""

    required_on_emission = frozenset({"cause"})

    cause: Annotated[str, Known("user", "policy", "parent_cancelled", "shutdown")] | None = None
    """Who or what ended it."""

    reason: str | None = None
    """Why, in a sentence."""

    signal: str | None = None
    """The signal that was sent, such as `SIGTERM`."""

    exit_code: int | None = None
    """The exit code, where there is one."""
