"""How events change the task graph: its edges come from recorded ids only, and none is ever forgotten."""

from __future__ import annotations

from typing import Any

from views.state.step import Step
from views.state.work_records import EdgeState

DELEGATED = {"task": "child", "subagent": "spawned_subagent"}
"""The edge that a delegation makes, where it tells none itself."""

CHANGED = {"removed": "removed", "satisfied": "satisfied"}


def put_edge(step: Step, task_id: str, told: dict[str, Any], status: str | None = None) -> None:
    """Add an edge, or change one; a key is what it connects and how."""
    source, target, kind = told.get("source_id") or task_id, told.get("target_id"), told.get("kind")
    if target is None or kind is None:
        step.note("no_identity", "an edge without a kind or a target")
        return
    key = (kind, source, target)
    known = step.get(EdgeState, key)
    if known is None:
        step.append(("edges", source), key)
        step.append(("edges_to", target), key)
        step.append(("edges",), key)
        made = told.get("created_at") or step.at
        step.put(EdgeState, key, kind=kind, source_id=source, target_id=target, created_at=made, status="active")
    status = status or told.get("status")
    step.put(EdgeState, key, status=status, reason=told.get("reason"), updated_at=told.get("updated_at") or step.at)


def delegate(step: Step, task_id: str) -> None:
    """Work was given to somebody else."""
    edge, target = step.told("edge"), step.told("delegate_id")
    if edge is not None:
        put_edge(step, task_id, {"target_id": target} | edge.model_dump(exclude_none=True))
    elif target is not None and step.told("delegate_kind") in DELEGATED:
        put_edge(step, task_id, {"kind": DELEGATED[step.told("delegate_kind")], "target_id": target})


def dependency(step: Step, task_id: str) -> None:
    """An edge was added, changed, removed or satisfied."""
    if (edge := step.told("edge")) is None:
        step.note("no_identity", "a change of an edge that it does not tell")
        return
    told = edge.model_dump(exclude_none=True)
    if step.told("reason") is not None:
        told["reason"] = step.told("reason")
    change = step.told("change")
    active = "active" if change == "added" and "status" not in told else None
    put_edge(step, task_id, told, CHANGED.get(change or "") or active)
