"""Commands that change what a session is called, close it, and put references to outside facts on record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from models.errors import Conflict, NotFound
from models.event import Correlation
from models.payload import Payload
from models.payloads.evidence import EvidenceChanged
from models.payloads.session import SessionUpdated
from models.payloads.thread import ThreadUpdated
from models.shape import JsonMap
from models.values import VerificationOutcome
from runtime.control.command import Answer, Mutation, command
from runtime.control.turn_commands import Id
from runtime.kernel import Draft

if TYPE_CHECKING:
    from runtime.runtime import Runtime


class UpdateSession(Mutation):
    """What is to change of a session; fields left out stay as they are."""

    session_id: Id
    title: str | None = Field(default=None, min_length=1, max_length=500)
    metadata: JsonMap | None = None
    close: bool = False
    """Whether the session ends; refused while work is open."""


class UpdateThread(Mutation):
    """What is to change of a thread."""

    session_id: Id
    thread_id: Id
    metadata: JsonMap
    reason: str | None = Field(default=None, max_length=2_000)


class RecordEvidence(Mutation):
    """A reference to a proof that somebody else keeps; the runtime judges nothing and changes no verdict."""

    session_id: Id
    thread_id: Id | None = None
    turn_id: Id | None = None
    """The turn that the proof is about; its thread and task are taken from it."""

    task_id: Id | None = None
    evidence_id: Id
    evidence_kind: Literal["pack", "trace", "replay", "verification", "review"]
    ref: str = Field(min_length=1, max_length=2_000)
    """Where it is kept."""

    verification_outcomes: tuple[VerificationOutcome, ...] = Field(default=(), max_length=1_000)


class Recorded(Answer):
    """What is on record now."""

    session_id: str
    sequence: int
    """The number of the session's last fact."""

    repeated: bool = False


@command(UpdateSession, Recorded, effect="writes")
async def update_session(runtime: Runtime, asked: UpdateSession) -> Recorded:
    """Rename a session, change its metadata, or close it."""
    changed = [name for name in ("title", "metadata") if getattr(asked, name) is not None]
    if not changed and not asked.close:
        raise Conflict("the command changes nothing", next_step="name at least one field")
    state = runtime.kernel.state(asked.session_id)
    if asked.close and (state.open_keys("turns") or state.open_keys("tasks")):
        raise Conflict("turns or tasks of the session are still open", next_step="end them first")
    payload = SessionUpdated(
        title=asked.title, metadata=asked.metadata, changed_fields=(*changed, *(["closed_at"] if asked.close else [])),
        closed_at=runtime.kernel.clock() if asked.close else None, status="completed" if asked.close else None,
    )  # fmt: skip
    return await _record(runtime, "update_session", asked, asked.session_id, payload, Correlation())


@command(UpdateThread, Recorded, effect="writes")
async def update_thread(runtime: Runtime, asked: UpdateThread) -> Recorded:
    """Change the metadata of a thread."""
    if asked.thread_id not in runtime.kernel.state(asked.session_id).threads:
        raise NotFound("thread", asked.thread_id)
    payload = ThreadUpdated(metadata=asked.metadata, changed_fields=("metadata",), reason=asked.reason)
    ids = Correlation(thread_id=asked.thread_id)
    return await _record(runtime, "update_thread", asked, asked.session_id, payload, ids)


@command(RecordEvidence, Recorded, effect="writes")
async def record_evidence(runtime: Runtime, asked: RecordEvidence) -> Recorded:
    """Put a reference to a trace, replay, verification or review on record; completion of a task may rest on it."""
    state = runtime.kernel.state(asked.session_id)
    if asked.task_id is not None and asked.task_id not in state.tasks:
        raise NotFound("task", asked.task_id)
    turn = state.turns.get(asked.turn_id or "")
    if asked.turn_id is not None and turn is None:
        raise NotFound("turn", asked.turn_id)
    place = {"verification": "pack_ref"}.get(asked.evidence_kind, f"{asked.evidence_kind}_ref")
    payload = EvidenceChanged.model_validate(
        {
            "change": "observed",
            "evidence_kind": asked.evidence_kind,
            place: asked.ref,
            "verification_outcomes": asked.verification_outcomes or None,
            "status": "available",
        }
    )
    ids = Correlation(
        thread_id=asked.thread_id or (turn.thread_id if turn else None),
        turn_id=asked.turn_id,
        task_id=asked.task_id or (turn.task_id if turn else None),
        evidence_id=asked.evidence_id,
    )
    known = state.evidence.get(asked.evidence_id)
    verdict = known.verification_outcomes if known else None
    if verdict and asked.verification_outcomes and verdict != asked.verification_outcomes:
        raise Conflict(
            f"the verdict of {asked.evidence_id} is on record, and only its owner changes it",
            next_step="record another verification under an id of its own",
        )
    return await _record(runtime, "record_evidence", asked, asked.session_id, payload, ids)


async def _record(
    runtime: Runtime, name: str, asked: Mutation, session_id: str, payload: Payload, ids: Correlation
) -> Recorded:
    kernel = runtime.kernel
    async with kernel.writing(session_id) as state:
        request = runtime.request(name, asked)
        repeated = kernel.repeated(state, request)
        if not repeated:
            await kernel.commit(session_id, [Draft(payload, ids)], request=request)
    return Recorded(session_id=session_id, sequence=kernel.state(session_id).sequence or 0, repeated=repeated)
