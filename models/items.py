"""Items: the same facts for readers who follow `item.started`, `item.updated` and `item.completed`."""

from typing import Any

from models.event import Event

STAGES: dict[str, str] = {
    "model.requested": "item.started",
    "model.delta": "item.updated",
    "model.completed": "item.completed",
    "model.failed": "item.completed",
    "reasoning.delta": "item.updated",
    "reasoning.summary": "item.completed",
    "tool.started": "item.started",
    "tool.args": "item.updated",
    "tool.progress": "item.updated",
    "tool.result": "item.completed",
    "tool.failed": "item.completed",
    "process.started": "item.started",
    "process.output": "item.updated",
    "process.input": "item.updated",
    "process.completed": "item.completed",
    "process.failed": "item.completed",
    "process.terminated": "item.completed",
    "artifact.changed": "item.completed",
}
"""At which stage of an item's life each event stands; types that are not listed are no items."""

KINDS: dict[str, str] = {
    "model": "agent_message",
    "reasoning": "reasoning",
    "process": "command_execution",
    "artifact": "file_change",
}
"""The kind of item by the family of the event; a tool call says its own kind."""

IDENTITIES: dict[str, tuple[str, ...]] = {
    "model": ("model_request_id", "step_id"),
    "reasoning": ("step_id", "model_request_id"),
    "tool": ("tool_call_id", "step_id"),
    "process": ("process_id", "step_id"),
    "artifact": ("artifact_id", "step_id"),
}
"""Which identity names the item, by family; the first that is told."""


def to_item(event: Event) -> dict[str, Any] | None:
    """The event as an item event, or None if it is none; the normalised event stays the record."""
    stage = STAGES.get(event.type)
    if stage is None:
        return None
    family = event.type.partition(".")[0]
    kind = KINDS.get(family) or getattr(event.payload, "item_kind", None) or "unknown"
    item = {
        "id": next((told for name in IDENTITIES[family] if (told := getattr(event, name))), None),
        "type": kind,
        "event_type": event.type,
        "payload": event.payload.model_dump(mode="json"),
    }
    scope = {name: getattr(event, name) for name in ("session_id", "thread_id", "turn_id")}
    return {"type": stage, "event_id": event.event_id, "timestamp": event.timestamp, **scope, "item": item}
