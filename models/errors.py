"""Expected failures: one class for each thing that can go wrong and that a caller can act on."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar


class TachographError(Exception):
    """A failure we foresaw: one sentence, what to do next, and the code a script sees when the program ends."""

    exit_code: ClassVar[int] = 1
    """The exit code of the program when this error reaches the command line."""

    def __init__(self, message: str, *, next_step: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


class UsageError(TachographError):
    """The request itself makes no sense: a wrong option, a wrong combination, an unknown name."""

    exit_code = 2


class CheckFailed(TachographError):
    """A check was made and did not pass; `findings` says what was wrong, one line each."""

    exit_code = 3

    def __init__(self, message: str, findings: Sequence[str] = (), *, next_step: str | None = None) -> None:
        super().__init__(message, next_step=next_step)
        self.findings = tuple(findings)


class NotAuthorised(TachographError):
    """No token, a wrong, expired or revoked one (status 401), or one without the needed `scope` (403)."""

    exit_code = 4

    def __init__(
        self, message: str, scope: str | None = None, *, status: int = 401, next_step: str | None = None
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.scope = scope
        self.status = status


class Locked(TachographError):
    """Another process holds what we need; `path` is the thing held and `holder` who holds it, where known."""

    exit_code = 5

    def __init__(self, path: Path, holder: str | None = None, *, next_step: str | None = None) -> None:
        super().__init__(f"{path} is in use by {holder or 'another process'}", next_step=next_step)
        self.path = path
        self.holder = holder


class SchemaTooNew(TachographError):
    """The data was written by a newer program; we do not touch what we may not understand."""

    exit_code = 6

    def __init__(self, path: Path, found: int, supported: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, this program knows up to {supported}",
            next_step="upgrade tachograph",
        )
        self.path = path
        self.found = found
        self.supported = supported


class MalformedInput(TachographError):
    """The input is not what it claims to be; `reason` says why and `source` where it came from."""

    exit_code = 7

    def __init__(self, reason: str, source: str | None = None, *, next_step: str | None = None) -> None:
        super().__init__(f"{source}: {reason}" if source else reason, next_step=next_step)
        self.reason = reason
        self.source = source


class InvalidEvent(MalformedInput):
    """An event that may not be emitted or is not valid for its declared type; `problems` names each fault."""

    def __init__(self, event_type: str | None, problems: Iterable[str]) -> None:
        self.event_type = event_type
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems), source=event_type or "event without a type")


class CommandRefused(TachographError):
    """A command to the runtime that was not carried out; nothing was written. `status` is that of HTTP."""

    kind: ClassVar[str] = "refused"
    """What sort of thing is wrong, for programs."""

    status: ClassVar[int] = 400


class IllegalTransition(CommandRefused):
    """A lifecycle event that may not follow the present state; `allowed` lists the events that may."""

    kind = "illegal_transition"
    status = 409

    def __init__(self, state: str, event_type: str, allowed: Iterable[str]) -> None:
        self.state = state
        self.event_type = event_type
        self.allowed = tuple(sorted(allowed))
        may = ", ".join(self.allowed) if self.allowed else "nothing: the state is closed"
        super().__init__(f"{event_type} cannot follow state {state}; allowed: {may}")


class LimitHit(TachographError):
    """A bound was reached; `limit` names it, `maximum` is its value in the unit the name tells."""

    exit_code = 8

    def __init__(self, limit: str, maximum: float | None = None, *, next_step: str | None = None) -> None:
        told = "" if maximum is None else f" ({maximum:g})"
        super().__init__(f"limit {limit}{told} was reached", next_step=next_step)
        self.limit = limit
        self.maximum = maximum


class Unreachable(TachographError):
    """A service did not answer; `address` is where we looked."""

    exit_code = 9

    def __init__(self, address: str, reason: str, *, next_step: str | None = None) -> None:
        super().__init__(f"{address} cannot be reached: {reason}", next_step=next_step)
        self.address = address
        self.reason = reason


class JournalBusy(TachographError):
    """More bytes wait for the disk than the journal queues; nothing was written, so the same call may be made again."""

    exit_code = 5

    def __init__(self, path: Path, queued_bytes: int) -> None:
        super().__init__(f"the journal {path} has {queued_bytes} bytes waiting for the disk", next_step="try again")
        self.path = path
        self.queued_bytes = queued_bytes


class JournalUnwritable(TachographError):
    """The journal cannot take records (disk full, no rights, damaged file); nothing of the call was kept."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"the journal {path} cannot be written: {reason}",
            next_step="free disk room or correct the rights of the folder, then try again",
        )
        self.path = path
        self.reason = reason


class NoIndex(TachographError):
    """There is nothing to read yet: the home folder has no database."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"nothing is recorded yet: {path} does not exist",
            next_step="run `tachograph up` and send something, or `tachograph demo`",
        )
        self.path = path


class QueryFailed(TachographError):
    """A question could not be answered; `reason` is what the database said about it."""

    def __init__(self, reason: str, *, next_step: str | None = None) -> None:
        super().__init__(reason, next_step=next_step)
        self.reason = reason


class QueryLimit(QueryFailed):
    """A question took more time, memory or rows than it may."""

    exit_code = 8


class InvalidCommand(CommandRefused):
    """The command is not understood: a field is missing, of the wrong type or too large; `problems` names each."""

    kind = "invalid"
    exit_code = 2

    def __init__(self, command: str, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(f"{command}: {'; '.join(self.problems)}", next_step="see `tachograph control --list`")


class NotFound(CommandRefused):
    """There is no such session, thread, turn, task or action."""

    kind = "not_found"
    status = 404

    def __init__(self, what: str, name: str | None) -> None:
        super().__init__(f"there is no {what} {name}" if name else f"there is no {what}")
        self.what = what
        self.name = name


class Conflict(CommandRefused):
    """The command does not fit the present state, or its key was used for something else."""

    kind = "conflict"
    status = 409


class NotSupported(CommandRefused):
    """The command has its place in the table, and this runtime does not carry it out yet."""

    kind = "not_supported"
    status = 501

    def __init__(self, command: str) -> None:
        super().__init__(f"{command} is not supported by this runtime yet")
        self.command = command
