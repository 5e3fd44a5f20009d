"""How events change the calls of models and tools, and what is known of stored outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from models.values import OutputRef
from views.state.step import Step
from views.state.talk import add_item
from views.state.talk_records import Item, ModelCall, StoredOutput, ToolCall

WHERE = ("thread_id", "turn_id", "task_id", "run_id", "step_id")


def where(step: Step) -> dict[str, Any]:
    """The identities of the envelope that calls remember."""
    return {name: getattr(step.event, name) for name in WHERE}


def model_requested(step: Step) -> None:
    """A model was called."""
    if (call_id := _model_call(step)) is None:
        return
    names = ("provider_name", "model_name", "operation", "request_ref", "attempt_index")
    status, _, _ = step.told_status("running")
    step.put(ModelCall, call_id, status=status, started_at=step.at, **where(step), **step.pick(*names))
    step.set_open(ModelCall, call_id, True)


def model_delta(step: Step) -> None:
    """A piece of the answer came; the text itself stays in the event."""
    if (call_id := _model_call(step)) is None:
        return
    call = step.put(ModelCall, call_id, **where(step))
    chars = step.told("chars")
    if chars is None and step.told("text") is not None:
        chars = len(step.told("text"))
    if chars is not None:
        step.put(ModelCall, call_id, streamed_chars=(call.streamed_chars or 0) + chars)
    step.put(ModelCall, call_id, deltas=call.deltas + 1, output_ref=step.told("output_ref"))
    if call.status in ("running", "unknown", "stale"):
        step.put(ModelCall, call_id, status="streaming")


def model_completed(step: Step) -> None:
    """A model answered to the end."""
    if (call_id := _model_call(step)) is None:
        return
    names = ("provider_name", "model_name", "response_model", "response_id", "stop_reason", "usage", "cost")
    more = ("duration_ms", "time_to_first_token_ms", "output_ref", "output_chars", "tool_call_count")
    told = {**where(step), **step.pick(*names, *more)}
    step.put(ModelCall, call_id, status="completed", ended_at=step.at, **told)
    step.set_open(ModelCall, call_id, False)
    if step.told("output_ref") is not None or step.told("output_chars"):
        add_item(step, "assistant_output", ref=step.told("output_ref"), model_request_id=call_id)


def model_failed(step: Step) -> None:
    """A call of a model failed; what it cost is known only if the event tells."""
    if (call_id := _model_call(step)) is None:
        return
    names = ("provider_name", "model_name", "duration_ms", "usage", "cost", "http_status", "retry_after_ms")
    told = {"error": step.fault(), "ended_at": step.at, **where(step), **step.pick(*names)}
    step.put(ModelCall, call_id, status=_end(step, "failed"), **told)
    step.set_open(ModelCall, call_id, False)


def reasoning_delta(step: Step) -> None:
    """The model reasoned; a step apart from the answer."""
    if (call_id := step.event.model_request_id) is not None:
        call = step.put(ModelCall, call_id, model_request_id=call_id, **where(step))
        step.put(ModelCall, call_id, reasoning_deltas=call.reasoning_deltas + 1)


def reasoning_summary(step: Step) -> None:
    """A summary of the reasoning is kept."""
    if (call_id := step.event.model_request_id) is not None:
        ref = step.told("summary_ref")
        step.put(ModelCall, call_id, model_request_id=call_id, reasoning_summary_ref=ref, **where(step))


def tool_started(step: Step) -> None:
    """A call of a tool started."""
    if (call_id := _tool_call(step)) is None:
        return
    names = ("tool_name", "item_kind", "runtime_owner", "server_name", "input_ref", "is_read_only", "is_destructive")
    status, _, _ = step.told_status("running")
    told = {"permission": step.told("permission"), **where(step), **step.pick(*names)}
    call = step.put(ToolCall, call_id, status=status, started_at=step.at, **told)
    step.set_open(ToolCall, call_id, True)
    if call.item_number is None:
        number = add_item(step, "tool_call", ref=call.input_ref, preview=call.input_preview, tool_call_id=call_id)
        step.put(ToolCall, call_id, item_number=number)


def tool_args(step: Step) -> None:
    """The arguments are known, or were changed."""
    if (call_id := _tool_call(step)) is None:
        return
    told = step.pick("tool_name", "item_kind", "input_ref", "arguments")
    call = step.put(ToolCall, call_id, input_preview=step.told("preview"), **where(step), **told)
    if call.item_number is not None and step.get(Item, call.item_number) is not None:
        step.put(Item, call.item_number, ref=step.told("input_ref"), preview=step.told("preview"))


def tool_progress(step: Step) -> None:
    """The tool reported progress."""
    if (call_id := _tool_call(step)) is None:
        return
    told = step.pick("tool_name", "item_kind", "progress", "total")
    call = step.put(ToolCall, call_id, **where(step), **told)
    if call.status in ("running", "unknown", "stale"):
        step.put(ToolCall, call_id, status="streaming")


def tool_result(step: Step) -> None:
    """The tool returned; that it says it succeeded does not complete any work."""
    if (call_id := _tool_call(step)) is None:
        return
    names = ("tool_name", "item_kind", "success", "preview", "output_chars", "size_bytes", "truncated")
    more = ("duration_ms", "queue_wait_ms")
    ref = step.told("result_ref") or step.told("output_ref")
    told = {"result_ref": ref, "ended_at": step.at, **where(step), **step.pick(*names, *more)}
    step.put(ToolCall, call_id, status=_end(step, "completed"), **told)
    step.set_open(ToolCall, call_id, False)
    add_item(step, "tool_result", ref=ref, preview=step.told("preview"), tool_call_id=call_id)
    metadata = step.told("metadata")
    if ref is not None and isinstance(metadata, dict) and metadata.get("memory_scope") == "session":
        step.append_once(("memory",), call_id)


def tool_failed(step: Step) -> None:
    """The tool failed, was denied or was cancelled."""
    if (call_id := _tool_call(step)) is None:
        return
    names = ("tool_name", "item_kind", "cancelled", "permission", "result_ref", "preview", "duration_ms")
    told = {"error": step.fault(), "ended_at": step.at, **where(step), **step.pick(*names)}
    status = "cancelled" if step.told("cancelled") else _end(step, "failed")
    step.put(ToolCall, call_id, status=status, **told)
    step.set_open(ToolCall, call_id, False)
    add_item(step, "tool_result", ref=step.told("result_ref"), preview=step.told("preview"), tool_call_id=call_id)


def stored_output(step: Step) -> None:
    """Something became of a stored output."""
    told_as: OutputRef | None = step.told("output")
    ref = step.told("output_ref") or (told_as.ref if told_as else None) or step.event.output_ref
    if ref is None:
        step.note("no_identity", "the event names no output")
        return
    ids = {"tool_call_id": step.event.tool_call_id, "process_id": step.event.process_id}
    sizes = {"size_bytes": step.maybe("size_bytes") or step.maybe("original_bytes")}
    step.put(StoredOutput, ref, ref=ref, source_kind=step.told("source_kind"), **ids, **sizes)
    what = step.event.type.partition(".")[2]
    if what == "expired":
        step.put(StoredOutput, ref, status="unavailable")
    else:
        step.put(StoredOutput, ref, status="available", retained_bytes=step.maybe("retained_bytes"), **{what: True})


def _end(step: Step, default: str) -> str:
    status, _, _ = step.told_status(default)
    return status


def _model_call(step: Step) -> str | None:
    call_id = step.event.model_request_id
    if call_id is None:
        step.note("no_identity", "the event names no model call")
    elif step.get(ModelCall, call_id) is None:
        step.put(ModelCall, call_id, model_request_id=call_id)
        step.append(("model_calls",), call_id)
    return call_id


def _tool_call(step: Step) -> str | None:
    call_id = step.named("tool_call_id")
    if call_id is None:
        step.note("no_identity", "the event names no tool call")
    elif step.get(ToolCall, call_id) is None:
        step.put(ToolCall, call_id, tool_call_id=call_id)
        step.append(("tool_calls",), call_id)
    return call_id


HANDLERS: dict[str, Callable[[Step], None]] = {
    "model.requested": model_requested,
    "model.delta": model_delta,
    "model.completed": model_completed,
    "model.failed": model_failed,
    "reasoning.delta": reasoning_delta,
    "reasoning.summary": reasoning_summary,
    "tool.started": tool_started,
    "tool.args": tool_args,
    "tool.progress": tool_progress,
    "tool.result": tool_result,
    "tool.failed": tool_failed,
    "output.spilled": stored_output,
    "output.truncated": stored_output,
    "output.redacted": stored_output,
    "output.expired": stored_output,
}
