"""The read models about work and what lies around it, and all of them together."""

from __future__ import annotations

from models.governance_values import ExecutionEnvironment, PermissionDecision
from models.read_models import (
    ArtifactCheckpointSummary,
    ChannelSummary,
    ContextBoundarySnapshot,
    EvidenceSummary,
    ExecutionEnvironmentSnapshot,
    PermissionSandboxSummary,
    ReadModels,
    RoutingLimitSummary,
    SubagentJobSummary,
    ToolInventorySnapshot,
)
from models.summaries import (
    ArtifactSummary,
    CompactionSummary,
    JobSummary,
    PeerSummary,
    ProcessSummary,
    SubagentSummary,
)
from models.values import Cost, LimitState, Usage
from views.state.lists import head, pending, queue_snapshot, session_snapshot, thread_read
from views.state.shape import State
from views.state.spending import total_cost
from views.state.step import narrow
from views.state.task_list import task_snapshot
from views.state.work_records import LimitEntry, Spending

BREAKER = 3
"""So many compactions that failed in a row open the breaker: the context is blocked until one succeeds."""

WINDOW = 50


def read_models(state: State, window: int | None = None) -> ReadModels:
    """All read models. A window bounds every list to its newest entries; without one the whole session is shown."""
    threads = state.lane("threads").last(window)
    return ReadModels(
        session=session_snapshot(state, state.event_count if window is None else window),
        threads=tuple(thread_read(state, thread_id, window) for thread_id in threads),
        tools=tool_inventory(state),
        turn_queue=queue_snapshot(state),
        tasks=task_snapshot(state, window),
        context=context_boundary(state, window),
        artifacts=artifact_summary(state, window),
        evidence=evidence_summary(state, window),
        permission=permission_summary(state, window),
        environment=environment_snapshot(state),
        routing=routing_summary(state),
        subagents=subagent_summary(state, window),
        channels=channel_summary(state),
    )


def tool_inventory(state: State) -> ToolInventorySnapshot | None:
    """The tools for the present caller, policy, context and mode; None if nobody told."""
    held = state.inventory
    if "inventory" not in state.touched:
        return None
    known = held.tools is not None or held.inventory_ref is not None
    told = {name: getattr(held, name) for name in ("caller", "policy_ref", "mode", "inventory_ref", "tools")}
    return ToolInventorySnapshot(status="available" if known else "unknown", **told, **head(state, "inventory"))


def context_boundary(state: State, window: int | None = WINDOW) -> ContextBoundarySnapshot | None:
    """What the contexts of all threads hold, and their compactions."""
    if not state.contexts and not state.compactions:
        return None
    contexts = [state.contexts[key] for key in sorted(state.contexts)]
    names = ("context_refs", "memory_refs", "knowledge_refs", "source_refs", "policy_refs")
    told = [refs for context in contexts for name in names if (refs := getattr(context, name)) is not None]
    compactions = [state.compactions[key] for key in state.lane("compactions").last(window)]
    blocked = any(context.consecutive_failures >= BREAKER for context in contexts)
    warnings = [context.warnings for context in contexts if context.warnings is not None]
    missing = [context.missing for context in contexts if context.missing is not None]
    return ContextBoundarySnapshot(
        status="blocked" if blocked else "available" if told else "unknown",
        status_reason=f"{BREAKER} compactions failed in a row" if blocked else None,
        selected_refs=tuple(ref for refs in told for ref in refs) if told else None,
        compactions=tuple(narrow(CompactionSummary, one) or CompactionSummary() for one in compactions) or None,
        warnings=tuple(text for texts in warnings for text in texts) if warnings else None,
        missing=tuple(text for texts in missing for text in texts) if missing else None,
        **head(state, "contexts", "compactions"),
    )


def artifact_summary(state: State, window: int | None = WINDOW) -> ArtifactCheckpointSummary | None:
    """The deliverables with their versions."""
    if not state.artifacts:
        return None
    found = []
    for key in state.lane("artifacts").last(window):
        versions = state.lane("versions", key).last(window) or None
        told = narrow(ArtifactSummary, state.artifacts[key]) or ArtifactSummary()
        found.append(told.model_copy(update={"version_ids": versions}))
    return ArtifactCheckpointSummary(status="available", artifacts=tuple(found), **head(state, "artifacts"))


def evidence_summary(state: State, window: int | None = WINDOW) -> EvidenceSummary | None:
    """Traces, checks, replays, reviews, and notes of the audit."""
    traces = state.lane("traces").last(window)
    found = [state.evidence[key] for key in state.lane("evidence").last(window)]
    audit = state.lane("audit").last(window)
    if not (traces or found or audit):
        return None
    outcomes = [outcome for one in found for outcome in one.verification_outcomes or ()]
    notes = (*audit, *(f"gap: {gap}" for one in found for gap in one.known_gaps or ()))
    return EvidenceSummary(
        status="available" if found else "unknown",
        evidence_refs=tuple(one.evidence_id for one in found) if found else None,
        trace_ids=traces or None,
        verification_outcomes=tuple(outcomes) or None,
        replay_refs=tuple(one.replay_ref for one in found if one.replay_ref) or None,
        review_refs=tuple(one.review_ref for one in found if one.review_ref) or None,
        audit_notes=notes or None,
        **head(state, "evidence", "hooks"),
    )


def permission_summary(state: State, window: int | None = WINDOW) -> PermissionSandboxSummary | None:
    """Permissions and the boundary."""
    families = ("permission", "permissions", "actions")
    violations = state.lane("violations").last(window)
    if not any(family in state.touched for family in families) and not violations:
        return None
    decisions = [state.permissions[key] for key in state.lane("permissions").last(window)]
    decided = [narrow(PermissionDecision, one) for one in decisions if one.decision is not None]
    asked = [action for action in state.open_actions() if action.action_type == "permission"]
    return PermissionSandboxSummary(
        status="waiting_permission" if asked else "available",
        permission_mode=state.permission.permission_mode,
        decisions=tuple(one for one in decided if one is not None) or None,
        pending_approvals=pending(asked),
        sandbox_profile=state.permission.sandbox_profile,
        violation_refs=violations or None,
        **head(state, *families),
    )


def environment_snapshot(state: State) -> ExecutionEnvironmentSnapshot | None:
    """Where commands are executed, and which may be alive."""
    session = state.session
    environment = narrow(ExecutionEnvironment, state.environment)
    if environment is None and (session.cwd or session.workspace_id):
        environment = ExecutionEnvironment()
    if environment is None and not state.processes:
        return None
    if environment is not None:
        update = {"workspace_id": environment.workspace_id or session.workspace_id}
        environment = environment.model_copy(update=update | {"cwd": environment.cwd or session.cwd})
    alive = [state.processes[str(key)] for key in state.open_keys("processes")]
    doubtful = any(one.status in ("stale", "unavailable") for one in alive)
    return ExecutionEnvironmentSnapshot(
        status="stale" if doubtful else "available" if environment else "unknown",
        environment=environment,
        active_processes=tuple(narrow(ProcessSummary, one) or ProcessSummary() for one in alive)
        if state.processes
        else None,
        **head(state, "environment", "processes"),
    )


def routing_summary(state: State) -> RoutingLimitSummary | None:
    """The latest choice of a model, what was spent, and where the limits stand."""
    families = ("routing", "limits", "spending", "bills")
    if not any(family in state.touched for family in families):
        return None
    latest = state.lane("routing").last(1)
    routing = state.routing[latest[0]] if latest else None
    limits = [state.limits[key] for key in state.lane("limits")]
    spent = state.spending.get(("session",))
    told = state.bills.get(("session", state.session_id)) if spent is None else None
    held_back = [one.name or one.kind or "limit" for one in limits if one.status == "blocked"]
    no_model = routing is not None and routing.status == "blocked"
    reason = routing.reason if routing and no_model else None
    cost, usage = (told.cost, told.usage) if told else _spent(spent)
    return RoutingLimitSummary(
        status="blocked" if no_model or held_back else "available",
        status_reason=reason or ", ".join(held_back) or None,
        native_status=routing.status if routing else None,
        task_profile=routing.task_profile if routing else None,
        candidate_count=routing.candidate_count if routing else None,
        candidates=routing.candidates if routing else None,
        decision=routing.decision if routing else None,
        usage=usage,
        cost=cost,
        limits=tuple(_limit(one) for one in limits) or None,
        **head(state, *families),
    )


def _spent(spent: Spending | None) -> tuple[Cost | None, Usage | None]:
    return (None, None) if spent is None else (total_cost(spent), spent.usage)


def _limit(entry: LimitEntry) -> LimitState:
    told = narrow(LimitState, entry) or LimitState()
    extra = {"provider_name": entry.provider_name, "model_name": entry.model_name}
    return told.model_copy(update={name: value for name, value in extra.items() if value is not None})


def subagent_summary(state: State, window: int | None = WINDOW) -> SubagentJobSummary | None:
    """Child agents and jobs."""
    children = [state.subagents[key] for key in state.lane("subagents").last(window)]
    jobs = [state.jobs[key] for key in state.lane("jobs").last(window)]
    if not children and not jobs:
        return None
    lines = []
    for job in jobs:
        threads = state.lane("job_threads", job.job_id).last(window) or None
        told = narrow(JobSummary, job) or JobSummary()
        lines.append(told.model_copy(update={"assigned_threads": threads}))
    going_on = state.open.get("subagents") or state.open.get("jobs")
    return SubagentJobSummary(
        status="running" if going_on else "idle",
        subagents=tuple(narrow(SubagentSummary, one) or SubagentSummary() for one in children) or None,
        jobs=tuple(lines) or None,
        **head(state, "subagents", "jobs", "job_items"),
    )


def channel_summary(state: State) -> ChannelSummary | None:
    """The remote peers, and whether requests for permission reach them."""
    peers = [state.channels[key] for key in state.lane("channels")]
    if not peers:
        return None
    waiting = [peer for peer in peers if peer.forwarded_action_ids]
    if waiting:
        bridge = "waiting" if any(peer.status != "disconnected" for peer in waiting) else "unavailable"
    else:
        bridge = "available" if any(peer.answered for peer in peers) else "unknown"
    states = {peer.status for peer in peers}
    return ChannelSummary(
        status=states.pop() if len(states) == 1 else "connected" if "connected" in states else "unknown",
        peers=tuple(narrow(PeerSummary, peer) or PeerSummary() for peer in peers),
        permission_bridge=bridge,
        **head(state, "channels"),
    )
