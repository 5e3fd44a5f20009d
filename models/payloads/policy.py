"""Facts about policies."""

from typing import Annotated

from models.governance_values import PermissionMode
from models.parts import Stated
from models.payload import Payload
from models.shape import JsonMap, Known


class PolicyChanged(Stated, Payload, event_type="policy.changed"):
    """Policy of the host, the workspace or the session changed."""

    required_on_emission = frozenset({"policy_scope"})

    policy_scope: Annotated[str, Known("host", "workspace", "session")] | None = None
    """Whose policy it is."""

    policy_id: str | None = None
    """Which policy it is."""

    policy_ref: str | None = None
    """Where the policy is kept."""

    previous_policy_ref: str | None = None
    """Where the policy before is kept."""

    version: str | None = None
    """Its version."""

    permission_mode: PermissionMode | None = None
    """The permission mode it sets."""

    changed_rules: JsonMap | None = None
    """The rules that changed, by their own names."""

    changed_by: str | None = None
    """Who changed it."""

    reason: str | None = None
    """Why it was changed."""
