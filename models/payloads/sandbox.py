"""Facts about execution boundaries."""

from typing import Annotated

from models.governance_values import SandboxProfile
from models.parts import Stated
from models.payload import Payload
from models.shape import Known


class SandboxApplied(SandboxProfile, Stated, Payload, event_type="sandbox.applied"):
    """A tool or process got its actual execution boundary."""

    required_on_emission = frozenset({"mode", "enforced"})

    mechanism: str | None = None
    """What enforces it, such as `bubblewrap` or `landlock`."""

    enforced: bool | None = None
    """Whether it is really enforced, as opposed to asked for."""

    requested_mode: str | None = None
    """The boundary asked for, if another was applied."""

    reason: str | None = None
    """Why another was applied."""


class SandboxViolation(Stated, Payload, event_type="sandbox.violation"):
    """A boundary of files, network or permission was crossed or was about to be."""

    required_on_emission = frozenset({"boundary", "blocked"})

    boundary: Annotated[str, Known("filesystem", "network", "permission", "process")] | None = None
    """Which boundary."""

    operation: str | None = None
    """What was tried, such as `write` or `connect`."""

    target: str | None = None
    """What it was tried on: a path, an address."""

    blocked: bool | None = None
    """Whether it was prevented."""

    violation_ref: str | None = None
    """Where the details are kept."""

    message: str | None = None
    """One sentence for people."""
