"""Facts about evidence: traces, replays, verifications and reviews."""

from typing import Annotated

from models.parts import Stated
from models.payload import Payload
from models.shape import JsonMap, Known
from models.values import VerificationOutcome


class EvidenceChanged(Stated, Payload, event_type="evidence.changed"):
    """A reference to evidence, a replay or a review was observed or exported."""

    required_on_emission = frozenset({"change", "evidence_kind"})

    change: Annotated[str, Known("created", "updated", "exported", "observed", "verified", "expired")] | None = None
    """What happened to it."""

    evidence_kind: Annotated[str, Known("pack", "trace", "replay", "verification", "review")] | None = None
    """What it is."""

    pack_ref: str | None = None
    """Where the evidence pack is kept."""

    trace_ref: str | None = None
    """Where the trace is kept."""

    replay_ref: str | None = None
    """Where the replay is kept."""

    review_ref: str | None = None
    """Where the review is kept."""

    scope: JsonMap | None = None
    """What it covers, by id."""

    verification_outcomes: tuple[VerificationOutcome, ...] | None = None
    """The results of the checks."""

    signals: JsonMap | None = None
    """By signal: exported, not_applicable, unsupported or missing_correlation."""

    known_gaps: tuple[str, ...] | None = None
    """What is missing of what would apply."""

    sha256: str | None = None
    """Digest of the evidence, as lower-case hex."""
