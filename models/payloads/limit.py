"""Facts about limits on cost, quota, rate, budget and policy."""

from models.payload import Payload
from models.values import Amount, LimitState


class LimitChanged(LimitState, Payload, event_type="limit.changed"):
    """A cost, quota, rate, budget or policy limit changed."""

    required_on_emission = frozenset({"kind", "status"})

    limit_status: str | None = None
    """The state of the limit, as other emitters name it."""

    previous_status: str | None = None
    """The state before."""

    previous_maximum: float | None = None
    """How much might be used before, in `unit`."""

    threshold: Amount | None = None
    """Where the warning begins, in `unit`."""

    single_candidate_only: bool | None = None
    """Whether the limit leaves only one model to choose."""

    provider_name: str | None = None
    """The provider it is about."""

    model_name: str | None = None
    """The model it is about."""

    reason: str | None = None
    """Why it changed."""
