"""How what a turn left open is closed: after an interrupt, after a fault, and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from models.payloads.action import ActionResolved
from models.payloads.context import ContextCompactionFailed
from models.payloads.model import ModelFailed
from models.payloads.permission import PermissionResolved
from models.payloads.tool import ToolFailed
from runtime.kernel import Draft
from runtime.loop.permission import REFUSALS
from runtime.loop.tool_call import decision_name
from views.state import State
from views.state.talk_records import ActionState, ModelCall, ToolCall

if TYPE_CHECKING:
    from runtime.loop.work import Work

INTERRUPTED = "interrupted"
AGAIN = "The runtime was restarted while this call ran; it is made again."
UNKNOWN = (
    "The runtime was restarted while this call ran. Whether it had its effect is not known: "
    "look at the file before you go on."
)


def after_interrupt(work: Work, state: State, reason: str) -> list[Draft]:
    """Facts that end everything the turn has open, since the turn itself ends."""
    drafts = [_model_failed(work, call, reason, "cancelled") for call in _model_calls(state, work.turn_id)]
    ended: set[str] = set()
    for action in state.open_actions(work.turn_id):
        drafts += _called_off(work, state, action, reason)
        call = state.tool_calls.get(action.tool_call_id or "")
        if call is not None and call.ended_at is None:
            ended.add(call.tool_call_id)
            drafts.append(_tool_failed(work, call, REFUSALS["cancelled"], cancelled=True))
    for call in _tool_calls(state, work.turn_id):
        if call.tool_call_id not in ended:
            drafts.append(_tool_failed(work, call, f"The turn was stopped: {reason}", cancelled=True))
    return [*drafts, *_compactions(work, state, reason)]


def after_restart(work: Work, state: State) -> list[Draft]:
    """Facts that end what nobody works at any more. Decisions stay open, and so do the calls that wait for them."""
    reason = "the runtime was restarted"
    drafts = [_model_failed(work, call, reason, "failed") for call in _model_calls(state, work.turn_id)]
    for call in _tool_calls(state, work.turn_id):
        if decision_name(call.tool_call_id) in state.actions and call.is_read_only:
            continue  # a question to a person: the answer may have come, or may yet come
        drafts.append(_tool_failed(work, call, AGAIN if call.is_read_only else UNKNOWN, cancelled=False))
    return [*drafts, *_compactions(work, state, reason)]


def _model_calls(state: State, turn_id: str) -> Iterator[ModelCall]:
    for key in state.open_keys("model_calls"):
        if (call := state.model_calls[str(key)]).turn_id == turn_id:
            yield call


def _tool_calls(state: State, turn_id: str) -> Iterator[ToolCall]:
    for key in state.open_keys("tool_calls"):
        if (call := state.tool_calls[str(key)]).turn_id == turn_id:
            yield call


def _model_failed(work: Work, call: ModelCall, reason: str, status: str) -> Draft:
    payload = ModelFailed(
        provider_name=call.provider_name or "unknown",
        model_name=call.model_name or "unknown",
        failure_category=INTERRUPTED,
        message=reason,
        retryable=True,
        status=status,
        duration_ms=work.elapsed_ms(call.started_at),
    )
    return work.draft(payload, model_request_id=call.model_request_id, step_id=call.step_id)


def _tool_failed(work: Work, call: ToolCall, message: str, *, cancelled: bool) -> Draft:
    decision = work.state.permissions.get(decision_name(call.tool_call_id))
    kept = work.runtime.contents.stage(message)
    payload = ToolFailed(
        tool_call_id=call.tool_call_id,
        tool_name=call.tool_name or (decision.tool_name if decision else None) or "unknown",
        item_kind=call.item_kind,
        failure_category=INTERRUPTED,
        message=kept.preview or message,
        retryable=bool(call.is_read_only),
        cancelled=cancelled or None,
        result_ref=kept.ref,
        preview=kept.preview,
        duration_ms=work.elapsed_ms(call.started_at),
        status="cancelled" if cancelled else "failed",
    )
    step_id = call.step_id or f"{call.tool_call_id}.step"
    return work.draft(payload, tool_call_id=call.tool_call_id, step_id=step_id)


def _called_off(work: Work, state: State, action: ActionState, reason: str) -> list[Draft]:
    ids = {"action_id": action.action_id, "tool_call_id": action.tool_call_id}
    waited = work.elapsed_ms(action.requested_at)
    resolved = ActionResolved(
        action_id=action.action_id,
        decision="cancelled",
        confirmed=False,
        decided_by="runtime",
        reason=reason,
        wait_ms=waited,
        status="cancelled",
    )
    drafts = [work.draft(resolved, **ids)]
    decision = state.permissions.get(action.action_id)
    if decision is not None and decision.status == "requested":
        payload = PermissionResolved(
            decision_id=decision.decision_id,
            decision="deny",
            decision_source="rule",
            decision_reason=reason,
            approval_action_id=action.action_id,
            outcome="cancelled",
            wait_ms=waited,
            status="resolved",
        )
        drafts.append(work.draft(payload, **ids))
    return drafts


def _compactions(work: Work, state: State, reason: str) -> Iterator[Draft]:
    context = state.contexts.get(work.thread_id)
    compaction = state.compactions.get(context.last_compaction_id or "") if context else None
    if context is None or compaction is None or compaction.ended_at is not None or compaction.turn_id != work.turn_id:
        return
    payload = ContextCompactionFailed(
        compaction_id=compaction.compaction_id,
        trigger=compaction.trigger or "auto",
        failure_category=INTERRUPTED,
        message=reason,
        retryable=True,
        consecutive_failures=context.consecutive_failures,  # being cut off says nothing about compaction
        status="failed",
        duration_ms=work.elapsed_ms(compaction.started_at),
    )
    yield work.draft(payload)
