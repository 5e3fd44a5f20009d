"""What went wrong and stays visible: which events are incidents, and what they say."""

from __future__ import annotations

from collections.abc import Callable

from models.values import Fault
from views.state.step import Step
from views.state.talk_records import IncidentState

INCIDENTS = frozenset(
    {
        *("runtime.error", "runtime.warning", "turn.failed", "model.failed", "tool.failed", "process.failed"),
        *("task.failed", "task.timed_out", "task.lost", "task.attempt.failed", "hook.failed", "sandbox.violation"),
        *("context.compaction.failed", "rate_limit.hit", "quota.blocked", "routing.not_possible"),
        *("subagent.failed", "job.failed", "job.item.failed"),
    }
)

CATEGORIES = {
    "sandbox.violation": "sandbox_violation",
    "task.lost": "lost",
    "rate_limit.hit": "rate_limited",
    "quota.blocked": "quota_exhausted",
    "routing.not_possible": "no_model",
}


def incident(step: Step) -> None:
    """Keep an incident, if the event is one. Whether it was put right is known only if the event tells."""
    event = step.event
    if event.type not in INCIDENTS or step.maybe("interrupted") or step.maybe("cancelled"):
        return
    ids = {"thread_id": event.thread_id, "turn_id": event.turn_id, "task_id": event.task_id}
    told = {"event_id": event.event_id, "event_type": event.type, "at": step.at, "fault": _fault(step)}
    step.put(IncidentState, event.event_id, resolved=step.maybe("repaired"), **told, **ids)
    step.append(("incidents", event.thread_id or ""), event.event_id)


def _fault(step: Step) -> Fault | None:
    values = {
        "category": step.maybe("failure_category") or CATEGORIES.get(step.event.type),
        "message": step.maybe("message") or step.maybe("reason"),
        "code": step.maybe("error_code") or step.maybe("code") or step.maybe("http_status"),
        "retryable": step.maybe("retryable"),
        "error_ref": step.maybe("error_ref") or step.maybe("detail_ref"),
    }
    told = {name: value for name, value in values.items() if value is not None}
    if "code" in told:
        told["code"] = str(told["code"])
    return Fault.model_construct(**told) if told else None


def _only_incident(step: Step) -> None:
    """The event changes nothing but the list of incidents."""


HANDLERS: dict[str, Callable[[Step], None]] = {"runtime.error": _only_incident, "runtime.warning": _only_incident}
