"""Facts about cost, rate limits and quotas."""

from typing import Annotated

from models.parts import ModelNamed
from models.payload import Payload
from models.shape import Known
from models.values import Amount, Cost, Count, LimitState, Usage


class CostEstimated(ModelNamed, Cost, Payload, event_type="cost.estimated"):
    """The cost was estimated before the work was handed out."""

    required_on_emission = frozenset({"cost_state"})

    estimated_cost_class: str | None = None
    """The cost as a class, where no amount is known."""

    estimated_input_tokens: Count | None = None
    """Input tokens that the estimate rests on."""

    estimated_output_tokens: Count | None = None
    """Output tokens that the estimate rests on."""

    maximum_usd: Amount | None = None
    """The most it can cost, in US dollars."""


class CostRecorded(ModelNamed, Cost, Payload, event_type="cost.recorded"):
    """What was really used is known."""

    required_on_emission = frozenset({"cost_state", "usage"})

    usage: Usage | None = None
    """Tokens used."""

    scope: Annotated[str, Known("model_call", "tool_call", "turn", "task", "session")] | None = None
    """What the cost is of; a wider scope contains the narrower ones."""

    source: str | None = None
    """Who told it."""


class RateLimitHit(LimitState, ModelNamed, Payload, event_type="rate_limit.hit"):
    """A provider, the host or a local limiter held a call back."""

    required_on_emission = frozenset({"limiter"})

    limiter: Annotated[str, Known("provider", "host", "local")] | None = None
    """Who held it back."""

    retry_after_ms: Amount | None = None
    """How long to wait, in milliseconds."""

    http_status: Count | None = None
    """The HTTP status of the answer."""


class QuotaLow(LimitState, ModelNamed, Payload, event_type="quota.low"):
    """A quota passed its warning threshold."""

    required_on_emission = frozenset({"name", "used", "maximum"})

    threshold: Amount | None = None
    """Where the warning begins, in `unit`."""


class QuotaBlocked(LimitState, ModelNamed, Payload, event_type="quota.blocked"):
    """A quota stopped work."""

    required_on_emission = frozenset({"name"})

    blocked: str | None = None
    """What was stopped: a model call, a turn, a task."""

    message: str | None = None
    """One sentence for people."""

    requires_user_override: bool | None = None
    """Whether only the user may lift it."""
