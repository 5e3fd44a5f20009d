"""How events change what lies around the work: processes, child agents, jobs, peers, deliverables and proofs."""

from __future__ import annotations

from collections.abc import Callable

from models.payloads.job import JobCounts
from models.states import TERMINAL
from views.state.decisions import call_environment
from views.state.step import Step
from views.state.world_records import (
    ArtifactState,
    EvidenceState,
    JobItemState,
    JobState,
    PeerState,
    ProcessState,
    SubagentState,
)

ENDED = TERMINAL | {"closed"}


def process(step: Step) -> None:
    """A process started, said or got something, or ended."""
    process_id = step.named("process_id")
    if process_id is None:
        step.note("no_identity", "the event names no process")
        return
    what = step.event.type.partition(".")[2]
    if step.get(ProcessState, process_id) is None:
        step.append(("processes",), process_id)
    ids = {"thread_id": step.event.thread_id, "turn_id": step.event.turn_id, "tool_call_id": step.event.tool_call_id}
    held = step.put(ProcessState, process_id, process_id=process_id, pid=step.told("pid"), **ids)
    if what == "started":
        names = ("command_summary", "process_kind", "cwd")
        status, _, _ = step.told_status("running")
        step.put(ProcessState, process_id, status=status, started_at=step.at, **step.pick(*names))
        step.set_open(ProcessState, process_id, True)
        call_environment(step, step.told("sandbox"))
    elif what in ("output", "input"):
        size = step.told("size_bytes")
        if size is not None:
            so_far = held.output_bytes if what == "output" else held.input_bytes
            step.put(ProcessState, process_id, **{f"{what}_bytes": (so_far or 0) + size})
    else:
        default = {"completed": "completed", "failed": "failed"}.get(what, "cancelled")
        status, _, _ = step.told_status(default)
        told = {name: step.maybe(name) for name in ("exit_code", "duration_ms", "output_refs")}
        told["cause"] = step.maybe("cause") or step.maybe("failure_kind")
        step.put(ProcessState, process_id, status=status, ended_at=step.at, error=step.fault(), **told)
        step.set_open(ProcessState, process_id, False)


def subagent(step: Step) -> None:
    """A child agent began, got input, reported or ended."""
    subagent_id, event = step.event.subagent_id, step.event
    if subagent_id is None:
        step.note("no_identity", "the event names no child agent")
        return
    what = event.type.partition(".")[2]
    if step.get(SubagentState, subagent_id) is None:
        step.append(("subagents",), subagent_id)
    told = step.pick("child_thread_id", "role", "nickname", "last_message_ref")
    held = step.put(SubagentState, subagent_id, subagent_id=subagent_id, task_id=event.task_id, **told)
    if held.child_thread_id is not None:
        step.name(("child_thread", held.child_thread_id), subagent_id)
    if what == "spawned":
        names = ("child_session_id", "parent_subagent_id", "agent_type", "isolation", "model_policy", "objective")
        parents = {"parent_thread_id": event.thread_id, "parent_turn_id": event.turn_id}
        step.put(SubagentState, subagent_id, started_at=step.at, **parents, **step.pick(*names))
    if what == "input":
        step.put(SubagentState, subagent_id, inputs=held.inputs + 1)
        return
    default = {"completed": "completed", "failed": "failed", "closed": "closed"}.get(what, "unknown")
    status = step.maybe("status") or event.status or default
    results = {name: step.maybe(name) for name in ("recoverable", "result_ref", "usage", "cost")}
    step.put(SubagentState, subagent_id, status=status, error=step.fault(), **results)
    if what in ("completed", "failed", "closed"):
        step.put(SubagentState, subagent_id, ended_at=step.at)
    step.set_open(SubagentState, subagent_id, what != "closed" and status not in ENDED)


def job(step: Step) -> None:
    """A job began, got on or ended; its state is apart from those of its items."""
    if (job_id := _job(step)) is None:
        return
    what = step.event.type.partition(".")[2]
    names = ("total_items", "job_kind", "title", "instruction_ref", "item_cursor", "result_ref", "reason")
    step.put(JobState, job_id, error=step.fault(), **{name: step.maybe(name) for name in names})
    counts = {name: step.maybe(name) for name in JobCounts.model_fields if name != "total_items"}
    if any(count is not None for count in counts.values()):
        step.assign(JobState, job_id, **counts)  # they are of one moment: what the event leaves out is not known now
    default = {"created": "accepted", "started": "running", "progress": "running"}.get(what, what)
    status = step.maybe("status") or step.event.status or default
    ended = what in ("completed", "failed", "cancelled")
    times = {"created": "created_at", "started": "started_at", "progress": None}
    moment = times.get(what, "ended_at")
    step.put(JobState, job_id, status=status, **({moment: step.at} if moment else {}))
    step.set_open(JobState, job_id, not ended)
    for thread_id in step.maybe("assigned_threads") or ():
        step.append_once(("job_threads", job_id), thread_id)


def job_item(step: Step) -> None:
    """An item of a job began or ended."""
    job_id, item_id = _job(step), step.event.job_item_id
    if job_id is None or item_id is None:
        step.note("no_identity", "the event names no item of a job")
        return
    what = step.event.type.rpartition(".")[2]
    default = "running" if what == "started" else what
    told = {name: step.maybe(name) for name in ("item_index", "attempt_index", "assigned_thread_id", "result_ref")}
    status = step.told("item_status") or default
    ids = {"job_id": job_id, "job_item_id": item_id}
    step.put(JobItemState, (job_id, item_id), **ids, **told, status=status, error=step.fault())
    if (thread_id := step.told("assigned_thread_id")) is not None:
        step.append_once(("job_threads", job_id), thread_id)


def _job(step: Step) -> str | None:
    job_id = step.event.job_id
    if job_id is None:
        step.note("no_identity", "the event names no job")
        return None
    if step.get(JobState, job_id) is None:
        step.append(("jobs",), job_id)
    step.put(JobState, job_id, job_id=job_id, task_id=step.event.task_id)
    return job_id


def channel(step: Step) -> None:
    """A peer came, went, came back, said something, or was asked for a permission."""
    channel_id, what = step.event.channel_id, step.event.type.partition(".")[2]
    if channel_id is None:
        step.note("no_identity", "the event names no channel")
        return
    if step.get(PeerState, channel_id) is None:
        step.append(("channels",), channel_id)
    told = step.pick("transport", "peer_role", "peer_id", "native_protocol")
    peer = step.put(PeerState, channel_id, channel_id=channel_id, **told)
    if what != "disconnected":
        step.put(PeerState, channel_id, last_seen_at=step.at)
    if what in ("connected", "disconnected", "resumed"):
        _connection(step, channel_id, what)
    elif what == "message":
        step.put(PeerState, channel_id, messages=peer.messages + 1)
    else:
        _bridge(step, peer, channel_id, what)


def _connection(step: Step, channel_id: str, what: str) -> None:
    default = "disconnected" if what == "disconnected" else "connected"
    status = step.maybe("status") or step.event.status or default
    names = ("capabilities", "cause", "last_seen_at", "last_acked_sequence", "resumable", "remote_state", "gap")
    told = {name: step.maybe(name) for name in names}
    if told["last_acked_sequence"] is None and what == "resumed":
        told["last_acked_sequence"] = step.told("from_sequence")
    cursor = step.maybe("resume_token_ref")
    if cursor is None and told["last_acked_sequence"] is not None:
        cursor = str(told["last_acked_sequence"])
    step.put(PeerState, channel_id, status=status, resume_cursor=cursor, **told)


def _bridge(step: Step, peer: PeerState, channel_id: str, what: str) -> None:
    """Which requests for permission the peer has been sent and has not answered."""
    waiting = peer.forwarded_action_ids or ()
    action_id = step.event.action_id
    if action_id is None:
        step.note("no_identity", "a forwarded permission without its action")
    elif what == "permission_forwarded":
        step.put(PeerState, channel_id, forwarded_action_ids=(*(one for one in waiting if one != action_id), action_id))
    else:
        left = tuple(one for one in waiting if one != action_id)
        step.put(PeerState, channel_id, forwarded_action_ids=left, answered=peer.answered + 1)


def artifact(step: Step) -> None:
    """A deliverable was made, changed, checked or seen."""
    artifact_id, event = step.event.artifact_id, step.event
    if artifact_id is None:
        step.note("no_identity", "the event names no deliverable")
        return
    if step.get(ArtifactState, artifact_id) is None:
        step.append(("artifacts",), artifact_id)
    names = ("change", "artifact_type", "title", "path", "media_type", "size_bytes", "sha256", "read_ref")
    more = ("version_id", "preview_ref", "diff_ref", "validation_issues")
    ids = {"artifact_id": artifact_id, "task_id": event.task_id, "turn_id": event.turn_id}
    step.put(ArtifactState, artifact_id, changed_at=step.at, **ids, **step.pick(*names, *more))
    default = "unavailable" if step.told("change") == "deleted" else "available"
    step.put(ArtifactState, artifact_id, status=step.maybe("status") or event.status or default)
    for version in (step.told("previous_version_id"), step.told("version_id")):
        if version is not None:
            step.append_once(("versions", artifact_id), version)
    if event.task_id is not None:
        step.append_once(("task_artifacts", event.task_id), artifact_id)


def evidence(step: Step) -> None:
    """A proof was made, changed or exported."""
    evidence_id = step.event.evidence_id
    if evidence_id is None:
        step.note("no_identity", "the event names no evidence")
        return
    if step.get(EvidenceState, evidence_id) is None:
        step.append(("evidence",), evidence_id)
    names = ("change", "evidence_kind", "pack_ref", "trace_ref", "replay_ref", "review_ref")
    more = ("verification_outcomes", "signals", "known_gaps", "sha256")
    status = step.maybe("status") or step.event.status
    ids = {"evidence_id": evidence_id, "task_id": step.event.task_id}
    step.put(EvidenceState, evidence_id, status=status, changed_at=step.at, **ids, **step.pick(*names, *more))
    if step.event.task_id is not None:
        step.append_once(("task_evidence", step.event.task_id), evidence_id)


_FAMILIES: dict[Callable[[Step], None], tuple[str, ...]] = {
    process: tuple(f"process.{what}" for what in ("started", "output", "input", "completed", "failed", "terminated")),
    subagent: tuple(f"subagent.{what}" for what in ("spawned", "status", "input", "completed", "failed", "closed")),
    job: tuple(f"job.{what}" for what in ("created", "started", "progress", "completed", "failed", "cancelled")),
    job_item: tuple(f"job.item.{what}" for what in ("started", "completed", "failed")),
    channel: (
        *(f"channel.{what}" for what in ("connected", "disconnected", "resumed", "message")),
        *(f"channel.{what}" for what in ("permission_forwarded", "permission_returned")),
    ),
    artifact: ("artifact.changed",),
    evidence: ("evidence.changed",),
}
HANDLERS: dict[str, Callable[[Step], None]] = {name: one for one, names in _FAMILIES.items() for name in names}
