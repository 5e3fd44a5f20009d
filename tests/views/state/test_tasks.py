"""Tasks: their states by the table, their tries, their graph, and what stands in their way."""

from collections.abc import Sequence

import pytest

from models.payload import Payload
from models.payloads import artifact, evidence, history, model, task, task_graph, tool
from models.states import SIXTEEN
from models.task_values import Edge, RetryPolicy, Worker
from models.values import VerificationOutcome
from tests.views.state.stories import Story, check
from views.state import State, task_snapshot

CREATED, ACCEPTED = task.TaskCreated(objective="o", owner="me"), task.TaskAccepted(owner="me")
QUEUED, RUNS = task.TaskQueued(position=0), task.TaskStarted(attempt_index=1)
TRY = task_graph.TaskAttemptStarted(attempt_index=1)
FAILED = {"failure_category": "c", "message": "m"}
STATES: dict[str, Sequence[Payload]] = {
    "accepted": (CREATED, ACCEPTED),
    "queued": (CREATED, ACCEPTED, QUEUED),
    "preparing": (CREATED, ACCEPTED, TRY),
    "running": (CREATED, ACCEPTED, TRY, RUNS),
    "waiting_input": (CREATED, ACCEPTED, RUNS, task.TaskWaiting(waiting_for="input")),
    "waiting_permission": (CREATED, ACCEPTED, RUNS, task.TaskWaiting(waiting_for="permission")),
    "waiting_resource": (CREATED, ACCEPTED, RUNS, task.TaskWaiting(waiting_for="resource", resource="gpu")),
    "blocked": (CREATED, ACCEPTED, RUNS, task.TaskBlocked(blocker_kind="quota", blocker_id="q", reason="empty")),
    "streaming": (CREATED, ACCEPTED, RUNS, model.ModelDelta(text="x")),
    "retrying": (CREATED, ACCEPTED, RUNS, task.TaskRetrying(next_attempt_index=2, reason="flaky")),
    "lost": (CREATED, ACCEPTED, RUNS, task.TaskLost(reason="no heartbeat")),
    "timed_out": (CREATED, ACCEPTED, RUNS, task.TaskTimedOut(budget_kind="time")),
    "completed": (CREATED, ACCEPTED, RUNS, task.TaskCompleted(completed_by="me")),
    "failed": (CREATED, ACCEPTED, RUNS, task.TaskFailed(**FAILED)),
    "cancelled": (CREATED, ACCEPTED, RUNS, task.TaskCancelRequested(reason="x"), task.TaskCancelled()),
    "stale": (CREATED, ACCEPTED, RUNS, history.HistoryReconstructed(event_count=3, degraded=False)),
}


def told(*facts: Payload, task_id: str = "t") -> State:
    story = Story(thread_id="th", turn_id="tu", task_id=task_id, run_id="r1", model_request_id="m")
    for fact in facts:
        story.tell(fact)
    return story.state


@pytest.mark.parametrize(
    "status",
    [pytest.param(str(one), marks=pytest.mark.req(f"AR-{213 + at}")) for at, one in enumerate(SIXTEEN)],
)
def test_each_state_is_reported_when_its_fact_is_told_and_looks_like_no_other(status: str) -> None:
    state = told(*STATES[status])
    assert state.tasks["t"].status == status
    snapshot = task_snapshot(state)
    assert snapshot is not None
    assert snapshot.tasks is not None
    assert [one.status for one in snapshot.tasks] == [status]
    assert not state.notes
    source = state.source(("tasks", "t", "status"))
    assert source is not None
    assert source.type == STATES[status][-1].event_type


def test_there_is_a_story_for_each_of_the_sixteen() -> None:
    assert set(STATES) == {str(one) for one in SIXTEEN}


@pytest.mark.req("AR-229")
def test_neither_a_tool_nor_a_model_nor_a_try_completes_a_task() -> None:
    story = Story(task_id="t", run_id="r1", thread_id="th", turn_id="tu")
    for fact in (CREATED, ACCEPTED, TRY, RUNS):
        story.tell(fact)
    story.tell(tool.ToolStarted(tool_name="x"), tool_call_id="c", step_id="s")
    story.tell(tool.ToolResult(tool_name="x", success=True, duration_ms=1, status="completed"), tool_call_id="c")
    story.tell(model.ModelCompleted(provider_name="p", model_name="m", status="completed"), model_request_id="m")
    story.tell(task_graph.TaskAttemptCompleted(attempt_index=1, status="completed", completion_summary="all done"))
    assert story.state.tasks["t"].status == "running"
    assert story.state.attempts["r1"].status == "completed"
    story.tell(task.TaskCompleted(completed_by="me", artifact_ids=("a",), evidence_refs=("ev",)))
    shown = story.state.task("t")
    assert shown is not None
    assert (shown.status, shown.artifacts, shown.evidence_refs) == ("completed", ("a",), ("ev",))


def test_every_try_stays_on_record() -> None:
    story = Story(task_id="t", thread_id="th")
    worker, policy = Worker(worker_id="w"), RetryPolicy(max_attempts=2)
    for fact in (CREATED, ACCEPTED):
        story.tell(fact)
    story.tell(
        task_graph.TaskAttemptStarted(attempt_index=1, cause="first", worker=worker, retry_policy=policy), run_id="r1"
    )
    story.tell(RUNS, run_id="r1")
    assert story.state.tasks["t"].current_run_id == "r1"
    story.tell(task_graph.TaskAttemptFailed(attempt_index=1, retryable=True, **FAILED), run_id="r1")
    story.tell(task.TaskRetrying(next_attempt_index=2, reason="once more", failed_run_id="r1", delay_ms=1500))
    assert story.state.tasks["t"].current_run_id is None
    assert story.state.tasks["t"].next_attempt_index == 2
    story.tell(task_graph.TaskAttemptStarted(attempt_index=2, cause="retry"), run_id="r2")
    story.tell(task.TaskStarted(attempt_index=2), run_id="r2")
    story.tell(task.TaskTimedOut(budget_kind="inactivity", failure_category="timeout", message="quiet"), run_id="r2")
    tries = story.state.attempts_of("t")
    assert [(one.run_id, one.status, one.attempt_count) for one in tries] == [
        ("r1", "failed", 1),
        ("r2", "timed_out", 2),
    ]
    assert tries[0].worker == worker
    assert tries[0].retry_policy == policy
    assert tries[0].last_error is not None
    assert tries[1].ended_at is not None
    assert not story.state.open.get("attempts")
    check(story.state)


def test_a_try_that_nobody_ended_is_unknown_when_its_task_completes() -> None:
    state = told(CREATED, ACCEPTED, TRY, RUNS, task.TaskCompleted(completed_by="me"))
    assert state.attempts["r1"].status == "unknown"
    assert state.tasks["t"].current_run_id is None


@pytest.mark.req("AR-203")
def test_the_graph_keeps_removed_and_satisfied_edges_and_takes_ids_as_recorded() -> None:
    story = Story(thread_id="th")
    story.tell(CREATED, task_id="p")
    edge = Edge(kind="blocked_by", target_id="x", reason="needs it")
    story.tell(task.TaskCreated(objective="c", relationships=(edge,)), task_id="c", parent_task_id="p")
    story.tell(task_graph.TaskDelegated(delegate_kind="task", delegate_id="c"), task_id="p")
    story.tell(task_graph.TaskDelegated(delegate_kind="job", delegate_id="j"), task_id="p")
    satisfied = task_graph.TaskDependencyUpdated(change="satisfied", edge=Edge(kind="blocked_by", target_id="x"))
    story.tell(satisfied, task_id="c")
    gone = Edge(kind="parent", source_id="c", target_id="p")
    story.tell(task_graph.TaskDependencyUpdated(change="removed", edge=gone, reason="moved"), task_id="c")
    state = story.state
    shown = [(one.kind, one.target_id, one.status, one.reason) for one in state.edges_of("c")]
    assert shown == [("parent", "p", "removed", "moved"), ("blocked_by", "x", "satisfied", "needs it")]
    assert [(one.kind, one.target_id, one.status) for one in state.edges_of("p")] == [("child", "c", "active")]
    assert list(state.lane("edges_to", "p")) == [("parent", "c", "p")]
    snapshot = task_snapshot(state)
    assert snapshot is not None
    assert len(snapshot.graph or ()) == 3


@pytest.mark.req("AR-203")
def test_the_task_snapshot_tells_active_waiting_failed_lost_and_ended_tasks_their_tries_and_delivery() -> None:
    story = Story(thread_id="th")
    for name, status in {"a": "running", "w": "waiting_input", "f": "failed", "l": "lost", "c": "completed"}.items():
        for fact in STATES[status]:
            story.tell(fact, task_id=name, run_id=f"run-{name}", model_request_id="m")
    story.tell(task.TaskProgressed(phase="delivering", delivery_state="queued"), task_id="a")
    for name in ("old1", "old2"):
        for fact in (*STATES["completed"][:-1], task.TaskCompleted(completed_by="me", delivery_state="delivered")):
            story.tell(fact, task_id=name, run_id=f"run-{name}")
    snapshot = task_snapshot(story.state, window=2)
    assert snapshot is not None
    assert snapshot.active_task_ids == ("a",)
    assert snapshot.waiting_task_ids == ("w",)
    assert snapshot.lost_task_ids == ("l",)
    assert snapshot.recent_terminal_task_ids == ("old1", "old2")
    assert snapshot.current_run_ids is not None
    assert snapshot.current_run_ids["a"] == "run-a"
    assert snapshot.delivery_states == {"a": "queued", "old1": "delivered", "old2": "delivered"}
    assert snapshot.counts is not None
    assert (snapshot.counts.active, snapshot.counts.completed, snapshot.counts.failed) == (1, 3, 1), (
        "all, not the window"
    )
    whole = task_snapshot(story.state, None)
    assert whole is not None
    assert whole.failed_task_ids == ("f",)
    assert [one.task_id for one in whole.tasks or ()] == ["a", "w", "f", "l", "c", "old1", "old2"]
    assert (whole.up_to_sequence, whole.status) == (len(story.events), "running")
    assert task_snapshot(Story().state) is None


def test_progress_is_merged_and_each_part_remembers_its_event() -> None:
    state = told(
        CREATED, ACCEPTED, RUNS, task.TaskProgressed(phase="planning", counters={"files": 1}),
        task.TaskProgressed(phase="working", summary="half"),
    )  # fmt: skip
    progress = state.tasks["t"].progress
    assert progress is not None
    assert (progress.phase, progress.summary, progress.counters) == ("working", "half", {"files": 1})
    assert state.source(("tasks", "t", "progress", "counters")) == ("e-4", 4, "task.progress")
    assert state.source(("tasks", "t", "progress", "phase")) == ("e-5", 5, "task.progress")


def test_what_a_task_waits_for_is_named_until_it_goes_on() -> None:
    waits = task.TaskWaiting(waiting_for="dependency", depends_on=("u",), status="blocked")
    assert told(CREATED, ACCEPTED, RUNS, waits).tasks["t"].depends_on == ("u",)
    blocked = told(*STATES["blocked"]).tasks["t"]
    assert (blocked.blocker_kind, blocked.blocker_id, blocked.status_reason) == ("quota", "q", "empty")
    resumed = told(*STATES["blocked"], task.TaskResumed(reason="filled up")).tasks["t"]
    assert (resumed.status, resumed.blocker_kind, resumed.blocker_id) == ("running", None, None)


def test_a_wait_that_does_not_say_for_what_is_as_it_says_or_unknown() -> None:
    assert told(CREATED, ACCEPTED, RUNS, task.TaskWaiting(status="waiting_input")).tasks["t"].status == "waiting_input"
    assert told(CREATED, ACCEPTED, RUNS, task.TaskWaiting()).tasks["t"].status == "unknown"
    odd = told(CREATED, ACCEPTED, RUNS, task.TaskWaiting(waiting_for="input", status="napping")).tasks["t"]
    assert (odd.status, odd.native_status) == ("waiting_input", "napping")


def test_a_status_that_contradicts_the_table_is_noted_and_the_table_holds() -> None:
    state = told(CREATED, task.TaskAccepted(status="completed"))
    assert state.tasks["t"].status == "accepted"
    assert [note.code for note in state.notes.values()] == ["contradiction"]


def test_an_update_of_an_archived_task_is_noted_and_its_state_is_not_in_doubt() -> None:
    state = told(*STATES["completed"], task.TaskArchived(), task.TaskUpdated(changed_fields=("title",), title="x"))
    assert (state.tasks["t"].status, state.tasks["t"].archived_from) == ("archived", "completed")
    assert [note.code for note in state.notes.values()] == ["illegal_transition"]


def test_a_task_that_is_only_mentioned_is_unknown() -> None:
    assert told(model.ModelDelta(text="x")).tasks["t"].status == "unknown"


def test_deliverables_and_proofs_of_a_task_are_told_with_it() -> None:
    story = Story(task_id="t", thread_id="th")
    story.tell(CREATED)
    for version in ("1", "2"):
        story.tell(artifact.ArtifactChanged(change="updated", read_ref="f", version_id=version), artifact_id="a")
    outcome = VerificationOutcome(name="tests", status="passed")
    proof = evidence.EvidenceChanged(change="verified", evidence_kind="verification", verification_outcomes=(outcome,))
    story.tell(proof, evidence_id="ev")
    shown = story.state.task("t")
    assert shown is not None
    assert (shown.artifacts, shown.evidence_refs) == (("a",), ("ev",))
