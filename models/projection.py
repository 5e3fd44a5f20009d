"""The published spelling: events to and from camelCase, and read models to the published snapshot."""

from collections.abc import Mapping
from typing import Any

from models.event import Event
from models.read_models import ReadModels, ThreadReadModel
from models.shape import JsonMap
from models.states import attempt_status, task_status, thread_status
from models.task_values import Attempt, Edge, TaskRecord

PUBLISHED_VISIBILITY = frozenset({"foreground", "background", "internal", "hidden", "unknown"})


def to_camel(event: Event) -> dict[str, Any]:
    """Spell the declared fields of an event in camelCase; keys that belong to an author stay as they are."""
    return event.model_dump(mode="json", by_alias=True)


def from_camel(data: Mapping[str, Any]) -> Event:
    """Read an event in the published spelling; the inverse of `to_camel`."""
    return Event.from_json(data)


def snapshot_to_camel(models: ReadModels) -> dict[str, Any]:
    """A session's read models as the published snapshot; states it does not know are mapped, the exact one is kept."""
    session, tasks, tools = models.session, models.tasks, models.tools
    written: dict[str, Any] = {
        "schemaVersion": session.schema_version,
        "runtimeId": session.runtime_id,
        "sessionId": session.session_id,
        "workspaceId": session.workspace_id,
        "updatedAt": _plain(session)["updatedAt"] if session.updated_at else None,
        "session": _plain(session),
        "threads": [_thread(thread, models) for thread in models.threads],
        "toolInventoryRef": tools.inventory_ref if tools else None,
        "toolInventory": _plain(tools),
        "queueSummary": _plain(models.turn_queue),
        "evidenceRefs": list(models.evidence.evidence_refs or ()) if models.evidence else [],
        "executionEnvironment": _plain(models.environment),
        "permissionState": _plain(models.permission),
        "routingLimitSummary": _plain(models.routing),
        "subagentJobSummary": _plain(models.subagents),
        "channelSummary": _plain(models.channels),
        "telemetrySummary": {"traceIds": list(models.evidence.trace_ids or ())} if models.evidence else None,
        "artifactSummary": _plain(models.artifacts),
        "historySummary": _plain(models.context),
        "tasks": [_task(task) for task in tasks.tasks or ()] if tasks else [],
        "taskSummary": {key: value for key, value in _plain(tasks).items() if key != "tasks"} if tasks else None,
    }
    return {key: value for key, value in written.items() if value is not None}


def _plain(shape: Any) -> Any:
    return None if shape is None else shape.model_dump(mode="json", by_alias=True)


def _thread(thread: ThreadReadModel, models: ReadModels) -> JsonMap:
    told = thread_status(thread.status)
    written: JsonMap = _plain(thread)
    written["status"] = told.status
    if told.native_status:
        written["nativeStatus"] = told.native_status
    written.setdefault("turns", [])
    if models.evidence:
        written["evidenceSummary"] = _plain(models.evidence)
    return written


def _task(task: TaskRecord) -> JsonMap:
    told = task_status(task.status)
    written: JsonMap = _plain(task)
    written["status"] = told.status
    if told.native_status:
        written.setdefault("nativeStatus", told.native_status)
    if task.visibility not in PUBLISHED_VISIBILITY | {None}:
        written["visibility"] = "unknown"
    for name in ("requestedBy", "owner", "assignee"):
        if isinstance(written.get(name), str):
            written[name] = {"id": written[name]}
    if task.delivery_state:
        written["deliveryState"] = {"state": task.delivery_state}
    if task.artifacts:
        written["artifacts"] = _ref_objects(written["artifacts"])
    _split(written, "attempts", [_attempt(attempt) for attempt in task.attempts or ()], ("runId",))
    _split(written, "relationships", [_edge(edge) for edge in task.relationships or ()], ("kind", "targetId"))
    return written


def _attempt(attempt: Attempt) -> JsonMap:
    told = attempt_status(attempt.status)
    written: JsonMap = _plain(attempt)
    written["status"] = told.status
    if told.native_status:
        written.setdefault("nativeStatus", told.native_status)
    for name in ("inputRefs", "outputRefs", "checkpointRefs"):
        if name in written:
            written[name] = _ref_objects(written[name])
    return written


def _edge(edge: Edge) -> JsonMap:
    written: JsonMap = _plain(edge)
    return written


def _ref_objects(refs: Any) -> Any:
    return [{"ref": ref} if isinstance(ref, str) else ref for ref in refs]


def _split(written: JsonMap, name: str, entries: list[JsonMap], needed: tuple[str, ...]) -> None:
    """Publish the entries that have what the schema demands; the others stay visible under another name."""
    whole = [entry for entry in entries if all(key in entry for key in needed)]
    rest = [entry for entry in entries if entry not in whole]
    written.pop(name, None)
    if whole:
        written[name] = list(whole)
    if rest:
        written[f"incomplete{name.capitalize()}"] = list(rest)
