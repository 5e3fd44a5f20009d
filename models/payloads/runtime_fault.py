"""Facts about trouble in the runtime itself."""

from models.payload import Payload
from models.shape import JsonMap, Shape


class Trouble(Shape):
    """What happened in the runtime."""

    code: str | None = None
    """The class of trouble, stable enough to be counted."""

    message: str | None = None
    """One sentence for people, without content or secrets."""

    component: str | None = None
    """The part of the runtime it happened in."""

    failure_category: str | None = None
    """The class of failure, in the words the other failures use."""

    detail_ref: str | None = None
    """Where the details are kept."""

    metadata: JsonMap | None = None
    """Further metadata by the author's own keys."""


class RuntimeWarned(Trouble, Payload, event_type="runtime.warning"):
    """Something in the runtime went wrong and work goes on."""

    required_on_emission = frozenset({"code", "message"})

    repaired: bool | None = None
    """Whether the runtime put it right."""


class RuntimeErred(Trouble, Payload, event_type="runtime.error"):
    """Something in the runtime went wrong and work cannot go on."""

    required_on_emission = frozenset({"code", "message"})

    fatal: bool | None = None
    """Whether the runtime itself ends."""

    retryable: bool | None = None
    """Whether the same work may be tried again."""
