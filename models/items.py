"""Items: the same facts for readers who follow `item.started`, `item.updated` and `item.completed`."""

from typing import Any

from models.event import Event

STAGES: dict[str, str] = {
    "model.requested": "item.started",
    "model.delta": "item.updated",
    "model.completed": "item.completed",
    "model.failed": "item.completed",
    "reasoning.delta": "item.updated",
    "reasoning.summary": "item.updated",
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

AROUND = frozenset({"thread.started", "turn.started", "turn.completed", "turn.failed"})
"""What stands around items, and is told under its own name."""

SCOPE = ("session_id", "thread_id", "turn_id")


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
    return {"type": stage, **_head(event), "item": item}


def _head(event: Event) -> dict[str, Any]:
    scope = {name: getattr(event, name) for name in SCOPE}
    return {"event_id": event.event_id, "timestamp": event.timestamp, **scope}


class Items:
    """Follows the events of a session and tells them as items, each begun once and ended once.

    Where a fact alone does not say that an item begins or ends, such as reasoning, or a call that was refused before it
    started, what it stands in does.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], dict[str, Any]] = {}
        """Items that have not ended, by family and id, as they began."""

    def take(self, event: Event) -> list[dict[str, Any]]:
        """What an event is for readers of items, in order; nothing for most."""
        if event.type in AROUND:
            ended = event.type in ("turn.completed", "turn.failed")
            closed = self._close(event, "turn_id") if ended else []
            payload = event.payload.model_dump(mode="json")
            return [*closed, {"type": event.type, **_head(event), "payload": payload}]
        told = to_item(event)
        if told is None:
            return []
        return self._item(event, told)

    def _item(self, event: Event, told: dict[str, Any]) -> list[dict[str, Any]]:
        family = event.type.partition(".")[0]
        told["item"]["id"] = told["item"]["id"] or event.event_id
        key = (family, told["item"]["id"])
        before: list[dict[str, Any]] = []
        if key in self._open:
            if told["item"]["type"] == "unknown":
                told["item"]["type"] = self._open[key]["item"]["type"]
            if told["type"] == "item.started":
                told["type"] = "item.updated"  # it began before, and was interrupted
        elif told["type"] != "item.started":
            before.append({**told, "type": "item.started"})
        if told["type"] != "item.completed":
            self._open.setdefault(key, {**told, "model_request_id": event.model_request_id})
        else:
            self._open.pop(key, None)
            if family == "model":  # its reasoning is over as well
                before = [*self._close(event, "model_request_id"), *before]
        return [*before, told]

    def _close(self, event: Event, scope: str) -> list[dict[str, Any]]:
        """The ends of what is open in the turn or model call that an event ends."""
        ended = [key for key, begun in self._open.items() if begun[scope] and begun[scope] == getattr(event, scope)]
        items = [{**self._open.pop(key)["item"], "event_type": event.type, "payload": {}} for key in ended]
        return [{"type": "item.completed", **_head(event), "item": item} for item in items]
