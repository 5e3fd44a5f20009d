"""Values that several payloads and read models share: usage, cost, limits, routing, permission, sandbox, tasks."""

from typing import Annotated

from pydantic import Field, JsonValue

from models.shape import JsonMap, Known, Shape, Timestamp

Count = Annotated[int, Field(ge=0)]
"""A whole number of things, zero or more."""

Amount = Annotated[float, Field(ge=0)]
"""A measured quantity, zero or more."""


Name = Annotated[str, Field(min_length=1)]
"""The id of a thing; an empty one names nothing."""


class OutputRef(Shape):
    """A stored output: where it is, how large, and what may be shown of it without fetching it."""

    ref: str | None = None
    """Where the whole content is kept."""

    owner: str | None = None
    """Who keeps it."""

    media_type: str | None = None
    """The MIME type of the content."""

    encoding: str | None = None
    """The character or byte encoding, such as `utf-8` or `base64`."""

    size_bytes: Count | None = None
    """Size of the whole content in bytes."""

    sha256: str | None = None
    """Digest of the whole content, as lower-case hex."""

    offset_bytes: Count | None = None
    """How far the output had been written, or read, at this moment, in bytes from its start."""

    preview: str | None = None
    """A short beginning or summary that is safe to show."""

    truncated: bool | None = None
    """Whether the kept content is shorter than what was produced."""

    redacted: bool | None = None
    """Whether anything was masked in it."""

    expires_at: Timestamp | None = None
    """When the content may be deleted."""


Ref = str | OutputRef
"""A reference: the address alone, or the address with what is known about the content."""

Refs = tuple[Ref, ...]


class StructuredResult(Shape):
    """A result in its parts, each kept apart so that a reader fetches only what it needs."""

    structured_content_ref: str | None = None
    """Where the machine-readable result is kept."""

    display_preview: str | None = None
    """A short form for people."""

    raw_output_ref: str | None = None
    """Where the unprocessed output is kept."""

    artifact_refs: Refs | None = None
    """Deliverables that came out of it."""

    error_ref: str | None = None
    """Where the details of an error are kept."""


class Party(Shape):
    """A person, agent, service or policy that asks, owns or does something."""

    kind: str | None = None
    """What it is: user, agent, service, policy, worker."""

    id: str | None = None
    """Its stable name."""

    name: str | None = None
    """Its name for people."""


Who = str | Party
"""A party: its name alone, or its record."""


class Fault(Shape):
    """What went wrong, in a form that can be counted and acted on."""

    category: str | None = None
    """The class of failure, such as `timeout`, `permission_denied`, `rate_limited`, `tool_failed`."""

    message: str | None = None
    """One sentence for people, without content or secrets."""

    code: str | None = None
    """The code of the source: an HTTP status, an errno, a provider's error type."""

    retryable: bool | None = None
    """Whether the same work may be tried again."""

    error_ref: str | None = None
    """Where the details are kept."""


class Usage(Shape):
    """Tokens of one model call; the three input counts do not overlap, so their sum is the whole input."""

    uncached_input_tokens: Count | None = None
    """Input tokens that were neither read from nor written to a cache."""

    cache_read_tokens: Count | None = None
    """Input tokens read from the provider's cache."""

    cache_write_tokens: Count | None = None
    """Input tokens written to the provider's cache, all lifetimes together."""

    cache_write_5m_tokens: Count | None = None
    """The part of the cache writes that lives five minutes."""

    cache_write_1h_tokens: Count | None = None
    """The part of the cache writes that lives one hour."""

    output_tokens: Count | None = None
    """Tokens produced, reasoning included."""

    reasoning_tokens: Count | None = None
    """The part of the output tokens that was spent on reasoning."""

    total_tokens: Count | None = None
    """The sum as the source reports it; never computed by us."""


class Price(Shape):
    """The line of a price table that a cost was computed with."""

    table_version: str | None = None
    """Version of the price table."""

    entry: str | None = None
    """The entry that matched: provider and model as the table names them."""

    input_usd_per_mtok: Amount | None = None
    """US dollars per million uncached input tokens."""

    cache_read_usd_per_mtok: Amount | None = None
    """US dollars per million tokens read from a cache."""

    cache_write_usd_per_mtok: Amount | None = None
    """US dollars per million tokens written to a cache."""

    output_usd_per_mtok: Amount | None = None
    """US dollars per million output tokens."""


class Cost(Shape):
    """What something cost, and how we know."""

    cost_usd: Amount | None = None
    """US dollars; None unless `cost_state` is reported or priced."""

    cost_state: Annotated[str, Known("reported", "priced", "unknown")] | None = None
    """Whether the source told the cost, we computed it from a price table, or nobody knows."""

    price: Price | None = None
    """The price entry used, where the cost was computed."""


class LimitState(Shape):
    """Where one limit stands."""

    kind: Annotated[str, Known("cost", "quota", "rate_limit", "budget", "policy")] | None = None
    """What sort of limit it is."""

    name: str | None = None
    """The limit's own name, such as `tokens_per_minute`."""

    scope: str | None = None
    """Whom it binds: an account, a provider, a session, a task."""

    status: Annotated[str, Known("ok", "low", "hit", "blocked", "unknown")] | None = None
    """How near the limit is."""

    unit: str | None = None
    """The unit of the numbers, such as `usd`, `tokens`, `requests`."""

    used: Amount | None = None
    """How much was used, in `unit`."""

    maximum: Amount | None = None
    """How much may be used, in `unit`."""

    remaining: float | None = None
    """How much is left, in `unit`; negative when overdrawn."""

    window_s: Amount | None = None
    """The length of the window the limit counts in, in seconds."""

    resets_at: Timestamp | None = None
    """When the window begins anew."""


class TaskProfile(Shape):
    """What a piece of work needs of a model, and where that was decided."""

    kind: str | None = None
    """The sort of work, such as `coding` or `summarise`."""

    source: str | None = None
    """Where the profile came from: the caller, a classifier, a default."""

    required_capabilities: tuple[str, ...] | None = None
    """What the model must be able to do, such as `tools` or `vision`."""

    latency_target: JsonValue = None
    """How fast the answer should be: a class name or milliseconds."""

    budget_class: str | None = None
    """How much the work may cost, as a class."""

    fallback_policy: JsonValue = None
    """What to do if the chosen model fails: a policy's name or its rules."""

    settings_source: str | None = None
    """Which settings the profile was read from."""


class CandidateModel(Shape):
    """A model that could be chosen, or the reason why it could not."""

    provider_name: str | None = None
    """Who serves it."""

    model_name: str | None = None
    """The model's name as its provider spells it."""

    capabilities: tuple[str, ...] | None = None
    """What it can do."""

    context_window_tokens: Count | None = None
    """How many tokens fit into one call."""

    cost_class: str | None = None
    """How dear it is, as a class."""

    price: Price | None = None
    """What it costs, where known."""

    excluded_reason: str | None = None
    """Why it was left out; None for one that could be chosen."""


class CandidateModelSet(Shape):
    """The real choice there was."""

    count: Count | None = None
    """How many models could be chosen."""

    candidates: tuple[CandidateModel, ...] | None = None
    """Those that could be chosen, in order of preference."""

    excluded: tuple[CandidateModel, ...] | None = None
    """Those left out, each with its reason."""

    hard_constraints: JsonMap | None = None
    """What a candidate must fulfil."""

    preferences: JsonMap | None = None
    """What was preferred among those that fulfil it."""

    single: bool | None = None
    """Whether there was exactly one, so no choice."""

    credential_gaps: tuple[str, ...] | None = None
    """Providers left out for want of a credential."""

    quota_gaps: tuple[str, ...] | None = None
    """Providers left out for want of quota."""

    network_gaps: tuple[str, ...] | None = None
    """Providers left out because they cannot be reached."""


class RoutingDecision(Shape):
    """Which model was chosen, by whom and why."""

    routing_mode: str | None = None
    """How choices are made: fixed, automatic, by policy."""

    decision_source: str | None = None
    """Who decided: the user, a default, a policy, a router."""

    decision_reason: str | None = None
    """Why, in a sentence."""

    selected_provider: str | None = None
    """The provider chosen."""

    selected_model: str | None = None
    """The model chosen."""

    requested_provider: str | None = None
    """The provider asked for."""

    requested_model: str | None = None
    """The model asked for."""

    candidate_count: Count | None = None
    """How many models could be chosen."""

    fallback_chain: tuple[str, ...] | None = None
    """The models to try next, in order."""

    capability_gap: str | None = None
    """What the chosen model lacks of what was needed; `none` where it lacks nothing."""

    requires_user_override: bool | None = None
    """Whether only the user may lift what stands in the way."""

    limit_state_snapshot: tuple[LimitState, ...] | None = None
    """Where the limits stood at the decision."""


class QueuedTurn(Shape):
    """A turn that waits."""

    queued_turn_id: str | None = None
    """The waiting turn."""

    position: Count | None = None
    """Its place, the next to run being 0."""

    source: str | None = None
    """Who submitted it."""

    status: str | None = None
    """How it waits."""

    policy: str | None = None
    """When it may run."""

    queued_at: Timestamp | None = None
    """Since when it waits."""


class VerificationOutcome(Shape):
    """The result of one check."""

    name: str | None = None
    """What was checked."""

    status: str | None = None
    """How it ended, such as `passed` or `failed`."""

    detail: str | None = None
    """A sentence on the result."""

    evidence_ref: str | None = None
    """Where the proof is kept."""
