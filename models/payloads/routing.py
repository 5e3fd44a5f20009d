"""Facts about the choice of a model."""

from models.parts import Stated
from models.payload import Payload
from models.shape import Shape
from models.values import CandidateModelSet, LimitState, RoutingDecision, TaskProfile


class Chosen(Shape):
    """Names that other emitters use for the choice."""

    task_kind: str | None = None
    """The sort of work, such as `coding`."""

    service_model_slot: str | None = None
    """The place in the settings that the model was taken from."""


class TaskProfileResolved(Chosen, TaskProfile, Payload, event_type="task.profile.resolved"):
    """What the work of a turn needs of a model was determined."""

    required_on_emission = frozenset({"kind", "source"})

    routing_mode: str | None = None
    """How the model will be chosen."""


class RoutingCandidatesResolved(Chosen, CandidateModelSet, Payload, event_type="routing.candidates.resolved"):
    """The real choice of models is known."""

    required_on_emission = frozenset({"count"})

    candidate_count: int | None = None
    """How many models could be chosen, as other emitters name it."""


class RoutingDecided(Chosen, RoutingDecision, Payload, event_type="routing.decided"):
    """A model was selected."""

    required_on_emission = frozenset({"selected_model", "decision_source", "decision_reason", "candidate_count"})


class RoutingFallbackApplied(Chosen, RoutingDecision, Stated, Payload, event_type="routing.fallback.applied"):
    """Another model was taken because the first did not do."""

    required_on_emission = frozenset({"from_model", "selected_model", "decision_reason"})

    from_provider: str | None = None
    """The provider that was given up."""

    from_model: str | None = None
    """The model that was given up."""

    failure_category: str | None = None
    """The class of failure that led to it."""

    fallback_index: int | None = None
    """Which fallback it is, the first being 1."""


class RoutingNotPossible(Chosen, Stated, Payload, event_type="routing.not_possible"):
    """There is no model to choose, or a hard constraint forbids all."""

    required_on_emission = frozenset({"reason"})

    reason: str | None = None
    """Why there is none."""

    candidates: CandidateModelSet | None = None
    """What was considered, each with the reason why it was left out."""

    requested_provider: str | None = None
    """The provider asked for."""

    requested_model: str | None = None
    """The model asked for."""

    candidate_count: int | None = None
    """How many models could be chosen, before the constraint that forbade them."""

    capability_gap: str | None = None
    """What no model could do."""

    requires_user_override: bool | None = None
    """Whether only the user may lift what stands in the way."""

    limits: tuple[LimitState, ...] | None = None
    """The limits that stand in the way."""


class RoutingSingleCandidate(Chosen, RoutingDecision, Payload, event_type="routing.single_candidate"):
    """There was exactly one model, so no choice."""

    required_on_emission = frozenset({"selected_model", "candidate_count"})
