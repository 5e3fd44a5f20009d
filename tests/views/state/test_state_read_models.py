"""The thirteen read models of the sample session: what each must contain, honest unknowns, the published schema."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from models.event import Event
from models.payload import Payload
from models.payloads import channel, evidence, history, job, process, subagent
from models.payloads.hook import HookCompleted
from models.projection import snapshot_to_camel
from models.read_models import READ_MODELS, ReadModels
from models.states import State as WorkState
from tests.models.test_projection import validator
from tests.views.state.stories import Story
from views.state import Checkpoints, State, at, fold, read_models


@pytest.fixture(scope="session")
def published(shared: Path) -> Draft202012Validator:
    return validator(shared, "agentruntime-snapshot")


@pytest.fixture(scope="module")
def shown(sample: list[Event]) -> ReadModels:
    return read_models(fold(sample))


def part(shown: ReadModels, name: str) -> Any:
    found = getattr(shown, name)
    assert found is not None
    return found


@pytest.mark.req("AR-199")
def test_the_session_shows_its_shell_title_times_threads_steps_and_cursor(sample: list[Event]) -> None:
    session = read_models(fold(sample), window=10).session
    assert session.title == "Flaky retry test in ledgerd (fixed)"
    assert session.workspace_id == "ws-ledgerd"
    assert session.metadata == {"branch": "fix/retry-backoff", "commit": "b74e2a9"}
    assert session.created_at == sample[1].timestamp
    assert session.closed_at is not None
    assert session.thread_ids is not None
    assert session.thread_ids[0] == sample[20].thread_id
    assert session.recent_steps is not None
    assert len(session.recent_steps) == 10
    assert session.history_cursor is not None
    assert session.up_to_sequence == len(sample)
    assert session.updated_at == sample[-1].timestamp


@pytest.mark.req("AR-200")
def test_a_thread_shows_status_turns_requests_outcome_incidents_queue_and_diagnostics(sample: list[Event]) -> None:
    asked = next(event for event in sample if event.type == "action.required")
    state = at(sample, asked.event_id)
    (thread,) = read_models(state).threads
    assert thread.status == "waiting_permission"
    assert thread.active_turn_id == asked.turn_id
    (request,) = thread.pending_requests
    assert (request.action_id, request.action_type, request.tool_call_id) == (
        *(asked.action_id, "permission", asked.tool_call_id),
    )
    assert request.expires_at is not None
    assert thread.last_outcome is None
    assert thread.diagnostics == {"phase": "investigating"}
    queued = next(event for event in sample if event.type == "queue.changed")
    (waiting,) = read_models(at(sample, queued.event_id)).threads
    assert [one.queued_turn_id for one in waiting.queued_turns] == [queued.turn_id]
    last = read_models(fold(sample)).threads[0]
    assert last.last_outcome is not None
    assert last.last_outcome.last_error is not None
    assert last.last_outcome.last_error.category == "quota_exhausted"
    kinds = {incident.event_type for incident in last.incidents}
    assert {"tool.failed", "model.failed", "sandbox.violation", "runtime.error", "task.lost"} <= kinds
    warned = next(one for one in last.incidents if one.event_type == "runtime.warning")
    assert warned.resolved is True


@pytest.mark.req("AR-201")
def test_the_tools_are_those_of_the_present_mode(sample: list[Event], shown: ReadModels) -> None:
    tools = part(shown, "tools")
    resolved = [event for event in sample if event.type == "tool.catalog.resolved"][-1]
    assert [tool.tool_name for tool in tools.tools] == list(resolved.payload.tool_names)  # type: ignore[attr-defined]  # of that type
    assert (tools.mode, tools.status) == ("on_request", "available")
    assert read_models(State.empty("s")).tools is None


@pytest.mark.req("AR-204")
def test_the_context_shows_selected_refs_compactions_warnings_and_what_is_missing(
    sample: list[Event], shown: ReadModels
) -> None:
    context = part(shown, "context")
    resolved = [event.payload for event in sample if event.type == "context.resolved"][-1]
    assert set(context.selected_refs) >= set(resolved.context_refs)  # type: ignore[attr-defined]  # of that type
    assert [(one.status, one.tokens_after) for one in context.compactions] == [("failed", None), ("completed", 18_420)]
    assert context.compactions[1].affected_turns is not None
    story = Story(thread_id="th", turn_id="tu")
    story.tell("context.resolved", {"ref_count": 0, "warnings": ["old"], "missing": ["memory"]})
    told = part(read_models(story.state), "context")
    assert (told.warnings, told.missing, told.selected_refs, told.status) == (("old",), ("memory",), None, "unknown")
    for _ in range(3):
        story.tell("context.compaction.failed", {"trigger": "auto"})
    assert part(read_models(story.state), "context").status == "blocked"


@pytest.mark.req("AR-205")
def test_deliverables_show_refs_versions_previews_faults_and_differences() -> None:
    story = Story(artifact_id="a")
    story.tell("artifact.changed", {"change": "created", "read_ref": "r1", "version_id": "v1", "title": "Report"})
    changed = {"change": "updated", "read_ref": "r2", "version_id": "v2", "previous_version_id": "v1"}
    story.tell("artifact.changed", changed | {"diff_ref": "d", "preview_ref": "p", "validation_issues": 3})
    (line,) = part(read_models(story.state), "artifacts").artifacts
    assert (line.artifact_id, line.title, line.read_ref, line.version_ids) == ("a", "Report", "r2", ("v1", "v2"))
    assert (line.diff_ref, line.preview_ref, line.validation_issues) == ("d", "p", 3)


@pytest.mark.req("AR-206")
def test_evidence_shows_traces_outcomes_replays_reviews_and_notes(sample: list[Event], shown: ReadModels) -> None:
    traces = {event.trace_id for event in sample if event.trace_id}
    assert set(part(shown, "evidence").trace_ids) == traces
    story = Story(trace_id="trace-1")
    outcomes = ({"name": "tests", "status": "passed"},)
    proof = evidence.EvidenceChanged(
        change="verified", evidence_kind="verification", verification_outcomes=outcomes, replay_ref="rp",
        review_ref="rv", known_gaps=("metrics",),
    )  # fmt: skip
    story.tell(proof, evidence_id="ev")
    story.tell(HookCompleted(point="stop", duration_ms=1, audit_refs=("note-1",)))
    told = part(read_models(story.state), "evidence")
    assert (told.evidence_refs, told.trace_ids) == (("ev",), ("trace-1",))
    assert [one.status for one in told.verification_outcomes] == ["passed"]
    assert (told.replay_refs, told.review_refs) == (("rp",), ("rv",))
    assert told.audit_notes == ("note-1", "gap: metrics")


@pytest.mark.req("AR-207")
def test_permissions_show_mode_open_approvals_the_boundary_and_violations(sample: list[Event]) -> None:
    asked = next(event for event in sample if event.type == "action.required")
    told = part(read_models(at(sample, asked.event_id)), "permission")
    assert (told.status, told.permission_mode) == ("waiting_permission", "on_request")
    assert [one.action_id for one in told.pending_approvals] == [asked.action_id]
    violation = next(event for event in sample if event.type == "sandbox.violation")
    after = part(read_models(fold(sample)), "permission")
    assert after.violation_refs == (violation.event_id,)
    assert after.pending_approvals == ()
    assert after.sandbox_profile.mode == "workspace_write"
    assert {one.decision for one in after.decisions} >= {"deny", "allow"}


@pytest.mark.req("AR-208")
def test_the_environment_shows_cwd_roots_refs_limits_and_processes_that_may_be_alive(sample: list[Event]) -> None:
    started = [event for event in sample if event.type == "process.started"][-1]
    told = part(read_models(at(sample, started.event_id)), "environment")
    assert told.environment.cwd == "/home/dev/ledgerd"
    assert told.environment.sandbox_profile.write_roots[0] == "/home/dev/ledgerd"
    assert told.environment.resource_limits == {"cpu_s": 300, "memory_mb": 2048, "open_files": 512}
    assert [(one.process_id, one.status) for one in told.active_processes] == [(started.process_id, "running")]
    assert part(read_models(fold(sample)), "environment").active_processes == ()
    story = Story(thread_id="th")
    for name in ("p1", "p2"):
        story.tell(process.ProcessStarted(command_summary="x", cwd="/"), process_id=name)
    story.tell(history.HistoryReconstructed(event_count=2, degraded=False, alive_processes=("p1",)))
    after = part(read_models(story.state), "environment")
    assert [(one.process_id, one.status) for one in after.active_processes] == [("p1", "stale"), ("p2", "unavailable")]
    assert after.status == "stale"


@pytest.mark.req("AR-210")
def test_children_and_jobs_show_the_graph_progress_threads_and_recoverability(
    sample: list[Event], shown: ReadModels
) -> None:
    told = part(shown, "subagents")
    spawned = [event for event in sample if event.type == "subagent.spawned"]
    assert [one.subagent_id for one in told.subagents] == [event.subagent_id for event in spawned]
    assert all(one.parent_turn_id == event.turn_id for one, event in zip(told.subagents, spawned, strict=True))
    assert {one.recoverable for one in told.subagents} == {True}
    assert {one.status for one in told.jobs} == {"completed", "failed", "cancelled"}
    batch = next(one for one in told.jobs if one.status == "completed")
    assert batch.completed_items == batch.total_items == 3
    assert batch.running_items is None, "a count that the last fact left out is not known any more"
    story = Story(thread_id="th", turn_id="tu")
    story.tell(subagent.SubagentSpawned(child_thread_id="c", role="r", isolation="none"), subagent_id="sa")
    story.tell(job.JobStarted(total_items=2, assigned_threads=("c1",)), job_id="j")
    story.tell(job.JobItemStarted(item_index=1, assigned_thread_id="c2"), job_id="j", job_item_id="i")
    assert part(read_models(story.state), "subagents").jobs[0].assigned_threads == ("c1", "c2")
    (child,) = part(read_models(story.state), "subagents").subagents
    assert (child.status, child.recoverable) == ("unknown", None), "unknown where nobody told"


@pytest.mark.req("AR-211")
def test_peers_show_cursors_the_last_acknowledged_event_and_the_permission_bridge(shown: ReadModels) -> None:
    told = part(shown, "channels")
    editor, phone = told.peers
    assert (editor.status, editor.peer_role, editor.transport) == ("connected", "client", "websocket")
    assert editor.resume_cursor == str(editor.last_acked_sequence)
    assert phone.forwarded_action_ids == ()
    assert told.permission_bridge == "available"
    story = Story(channel_id="ch", action_id="a")
    story.tell(channel.ChannelConnected(transport="sse", peer_role="client"))
    assert part(read_models(story.state), "channels").permission_bridge == "unknown"
    story.tell(channel.ChannelPermissionForwarded(request_ref="r"))
    waiting = part(read_models(story.state), "channels")
    assert (waiting.permission_bridge, waiting.peers[0].forwarded_action_ids) == ("waiting", ("a",))
    story.tell(channel.ChannelDisconnected(cause="network", last_acked_sequence=2))
    gone = part(read_models(story.state), "channels")
    assert (gone.permission_bridge, gone.status, gone.peers[0].last_acked_sequence) == (
        "unavailable",
        "disconnected",
        2,
    )


@pytest.mark.req("AR-212", "AR-240")
def test_of_a_session_that_told_nothing_nothing_is_shown_but_unknown() -> None:
    shown = read_models(State.empty("s"))
    assert shown.session.status == "unknown"
    assert shown.session.recent_steps is None
    assert [name for name in ReadModels.model_fields if getattr(shown, name)] == ["session"]


@pytest.mark.req("AR-212", "AR-240")
def test_events_whose_payloads_tell_nothing_make_read_models_that_claim_nothing() -> None:
    """Every type once, without any field: no read model may show a success, a number or a choice of its own."""
    story = Story(thread_id="th", turn_id="tu", tool_call_id="c", model_request_id="m", process_id="p")
    for event_type in sorted(Payload.registry):
        if event_type.endswith(".completed") or event_type == "tool.result":
            continue  # these tell a success by their name
        story.tell(event_type, {}, subagent_id="sa", job_id="j", job_item_id="ji", channel_id="ch", action_id="a")
    shown = read_models(story.state)
    text = json.dumps(shown.model_dump(mode="json", exclude={"threads": {"__all__": {"diagnostics"}}}))
    assert '"completed"' not in text
    assert part(shown, "routing").cost is None or part(shown, "routing").cost.cost_usd is None
    assert part(shown, "routing").decision is None
    assert part(shown, "tools").tools is None
    assert shown.session.title is None


def test_every_read_model_says_how_far_it_reaches(sample: list[Event], shown: ReadModels) -> None:
    parts = [
        shown.session,
        *shown.threads,
        *(part(shown, name) for name in ReadModels.model_fields if name != "threads"),
    ]
    assert {type(one) for one in parts} == set(READ_MODELS.values())
    for one in parts:
        assert one.up_to_sequence == len(sample)
        assert one.updated_at is not None
        assert one.updated_at <= sample[-1].timestamp


# --- the published schema ----------------------------------------------------------------------------------------


@pytest.mark.req("CONF-2")
def test_the_snapshot_at_any_cursor_validates(published: Draft202012Validator, sample: list[Event]) -> None:
    kept = Checkpoints(sample)
    for count in range(0, len(sample) + 1, 7):
        published.validate(json.loads(json.dumps(snapshot_to_camel(read_models(kept.after(count))))))
    whole = snapshot_to_camel(read_models(kept.last))
    published.validate(json.loads(json.dumps(whole)))
    broken = whole | {"threads": [{**whole["threads"][0], "status": "waiting_permission"}]}
    assert not published.is_valid(broken)


@pytest.mark.req("CONF-5")
def test_states_the_schema_does_not_know_are_mapped_and_kept(
    published: Draft202012Validator, sample: list[Event]
) -> None:
    seen: dict[str, set[tuple[str, str]]] = {"threads": set(), "attempts": set()}
    kept = Checkpoints(sample)
    for count in range(len(sample) + 1):
        state = kept.after(count)
        exported = snapshot_to_camel(read_models(state, window=1))
        for thread in exported["threads"]:
            exact = state.threads[thread["threadId"]].status
            assert thread.get("nativeStatus", thread["status"]) == exact
            seen["threads"].add((exact, thread["status"]))
        for task in exported["tasks"]:
            for attempt in task.get("attempts", ()):
                exact = state.attempts[attempt["runId"]].status or "unknown"
                assert attempt.get("nativeStatus", attempt["status"]) == exact
                seen["attempts"].add((exact, attempt["status"]))
    assert ("waiting_permission", "blocked") in seen["threads"]
    assert {("lost", "stale"), ("timed_out", "failed")} <= seen["attempts"]
    assert {one for one, _ in seen["threads"]} <= {*WorkState, "idle"}


def test_the_published_example_events_rebuild_read_models_that_show_all_they_tell(
    shared: Path, published: Draft202012Validator
) -> None:
    folder = shared / "public_data" / "agentruntime"
    names = ("submit-turn", "routing-single-candidate", "task-retry-attempt-failed")
    state = fold(Event.from_json((folder / f"{name}-event.json").read_bytes()) for name in names)
    shown = read_models(state)
    published.validate(json.loads(json.dumps(snapshot_to_camel(shown))))
    turn, routing = state.turns["turn_lime_001"], state.routing["turn_lime_001"]
    assert (turn.input_ref, turn.source, turn.status) == ("input://turn_lime_001/user", "workspace", "accepted")
    assert routing.decision is not None
    assert (routing.status, routing.candidate_count, routing.decision.selected_model) == (
        "single_candidate",
        1,
        "gpt-5.4",
    )
    (attempt,) = state.attempts_of("task_lime_001")
    assert (attempt.run_id, attempt.attempt_id, attempt.status) == ("run_lime_001", "attempt_lime_001", "failed")
    assert attempt.last_error is not None
    assert (attempt.last_error.category, attempt.last_error.retryable) == ("tool_failed", True)
    assert part(shown, "evidence").trace_ids == ("trace_lime_001",)
    assert [note.message for note in state.notes.values()].count("events 4 to 31 are missing") == 1


def test_what_other_emitters_tell_beside_the_payload_is_read() -> None:
    story = Story(task_id="t", run_id="r", turn_id="tu", thread_id="th", tool_call_id="c")
    beside = {
        "task": {"title": "T", "objective": "O"},
        "task_attempt": {"runId": "r", "attemptCount": 2},
        "task_relationship": {"kind": "blocks", "targetId": "u"},
        "task_progress": {"phase": "working"},
        "delivery_state": {"state": "delivered"},
        "routing_decision": {"selectedModel": "m"},
        "execution_environment": {"os": "linux"},
        "limit_state": {"kind": "quota", "name": "n", "status": "ok"},
        "worker": {"workerId": "w", "lastSeenAt": "not a time"},
    }
    story.tell("task.progress", {}, **beside)
    state = story.state
    shown = state.task("t")
    assert shown is not None
    assert (shown.title, shown.objective, shown.delivery_state) == ("T", "O", "delivered")
    assert shown.progress is not None
    assert shown.progress.phase == "working"
    assert [one.target_id for one in shown.relationships or ()] == ["u"]
    assert [one.attempt_count for one in shown.attempts or ()] == [2]
    assert part(read_models(state), "routing").decision.selected_model == "m"
    assert part(read_models(state), "environment").environment.os == "linux"
    assert [note.code for note in state.notes.values()] == ["unreadable_payload"]
