"""Threads, turns, queues, decisions and the conversation."""

from typing import Any

import pytest

from models.payloads import action, context, history, model, permission, run, thread, tool, turn
from models.payloads.turn_queue import QueueChanged
from models.values import QueuedTurn
from tests.views.state.stories import Story, check
from views.state import State, fold, queue_snapshot, session_snapshot, thread_read

TURN = {"thread_id": "th", "turn_id": "tu"}


def story_of_a_turn(**options: Any) -> Story:
    story = Story(**TURN)
    story.tell(thread.ThreadStarted(status="idle"), turn_id=None)
    story.tell(turn.TurnSubmitted(input_ref="i", source="user", status="accepted", **options))
    story.tell(turn.TurnStarted(status="running"))
    return story


def statuses(state: State, turn_id: str = "tu") -> tuple[str, str]:
    return state.turns[turn_id].status, state.threads["th"].status


@pytest.mark.req("AR-229")
def test_a_turn_and_its_thread_go_through_their_states_by_facts_only() -> None:
    story = Story(**TURN)
    story.tell(turn.TurnSubmitted(input_ref="i", source="user", status="accepted"))
    assert statuses(story.state) == ("accepted", "unknown")
    story.tell(turn.TurnStarted(status="running"))
    assert statuses(story.state) == ("running", "running")
    story.tell(model.ModelRequested(provider_name="p", model_name="m"), model_request_id="r")
    story.tell(model.ModelDelta(text="x"), model_request_id="r")
    assert statuses(story.state) == ("streaming", "streaming")
    story.tell(model.ModelCompleted(provider_name="p", model_name="m", stop_reason="stop"), model_request_id="r")
    assert statuses(story.state) == ("running", "running"), "an answer does not complete the turn"
    story.tell(turn.TurnCompleted(status="completed", duration_ms=1))
    assert statuses(story.state) == ("completed", "idle")
    assert story.state.threads["th"].active_turn_id is None


@pytest.mark.parametrize(
    ("told", "wanted"),
    [({}, "failed"), ({"interrupted": True}, "cancelled"), ({"status": "timed_out"}, "timed_out")],
)
def test_a_turn_that_does_not_end_well_says_how(told: dict[str, Any], wanted: str) -> None:
    story = story_of_a_turn()
    story.tell(turn.TurnFailed(failure_category="c", message="m", **told))
    assert statuses(story.state) == (wanted, "idle")
    shown = thread_read(story.state, "th")
    assert shown.last_outcome is not None
    assert shown.last_outcome.status == wanted
    assert len(shown.incidents) == (0 if wanted == "cancelled" else 1)


def test_an_end_that_contradicts_itself_is_unknown() -> None:
    story = story_of_a_turn()
    story.tell(turn.TurnCompleted(status="failed", duration_ms=1))
    assert story.state.turns["tu"].status == "unknown"
    assert story.state.turns["tu"].native_status == "failed"
    assert [note.code for note in story.state.notes.values()] == ["contradiction"]


def test_the_queue_is_the_one_the_last_change_tells_and_turns_leave_it_when_they_start() -> None:
    story = story_of_a_turn()
    waiting = tuple(QueuedTurn(queued_turn_id=name, position=at, source="user") for at, name in enumerate("abc"))
    for entry in waiting:
        story.tell(
            turn.TurnSubmitted(input_ref="i", source="user", status="queued", queued_turn_id=entry.queued_turn_id),
            turn_id=entry.queued_turn_id,
        )
    assert [entry.queued_turn_id for entry in story.state.queue("th")] == ["a", "b", "c"], "submitted as queued"
    assert story.state.turns["b"].status == "queued"
    promoted = (waiting[2], waiting[0], waiting[1])
    story.tell(QueueChanged(change="promoted", queued_turn_id="c", queued_turns=promoted, policy="in_order"))
    assert [entry.queued_turn_id for entry in story.state.queue("th")] == ["c", "a", "b"]
    story.tell(QueueChanged(change="removed", queued_turn_id="a", queued_turns=(waiting[2], waiting[1])))
    assert story.state.turns["a"].status == "cancelled"
    story.tell(QueueChanged(change="paused", queued_turns=(waiting[2], waiting[1])))
    assert story.state.queues["th"].resume_state == "held"
    story.tell(turn.TurnCompleted(status="completed", duration_ms=1))
    assert story.state.threads["th"].status == "queued"
    story.tell(turn.TurnStarted(status="running"), turn_id="c")
    assert [(entry.queued_turn_id, entry.position) for entry in story.state.queue("th")] == [("b", 0)]
    check(story.state)


@pytest.mark.req("AR-202")
def test_the_queue_snapshot_shows_ids_order_source_policy_and_whether_it_goes_on() -> None:
    story = Story(thread_id="th", queue_id="q")
    assert queue_snapshot(story.state) is None
    entry = QueuedTurn(queued_turn_id="a", position=0, source="schedule", policy="in_order")
    story.tell(QueueChanged(change="restored", queued_turns=(entry,), policy="in_order"))
    shown = queue_snapshot(story.state, "th")
    assert shown is not None
    assert (shown.queue_id, shown.queued_turns, shown.policy) == ("q", (entry,), "in_order")
    assert (shown.status, shown.resume_state, shown.up_to_sequence) == ("queued", "waiting_resume", 1)
    assert queue_snapshot(story.state, "other") is None
    story.tell(QueueChanged(change="reordered"))
    after = queue_snapshot(story.state)
    assert after is not None
    assert (after.status, after.queued_turns) == ("unknown", None), "an order that nobody told is not made up"


def test_the_same_key_names_the_same_turn() -> None:
    story = story_of_a_turn(idempotency_key="k")
    assert story.state.index["idempotency", "k"] == "tu"
    items = len(story.state.items)
    story.tell(turn.TurnSubmitted(input_ref="i2", source="user", status="accepted", idempotency_key="k"))
    assert (story.state.turns["tu"].input_ref, len(story.state.items)) == ("i", items)


def test_a_request_is_remembered_with_what_it_asked_and_which_events_came_of_it() -> None:
    story = story_of_a_turn()
    refs = {"command": "submit_turn", "command_sha256": "ab"}
    story.tell(run.RunStatus(status="running", phase="x"), request_id="req-1", refs=refs)
    story.tell(run.RunStatus(status="running", phase="y"), request_id="req-1")
    note = story.state.requests["req-1"]
    assert (note.command, note.command_sha256, note.events) == ("submit_turn", "ab", 2)
    assert (note.first_sequence, note.last_sequence) == (4, 5)


# --- decisions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action_type", "wanted"), [("permission", "waiting_permission"), ("form", "waiting_input")])
def test_a_turn_waits_until_its_last_open_decision_is_made(action_type: str, wanted: str) -> None:
    story = story_of_a_turn()
    story.tell(tool.ToolStarted(tool_name="write"), tool_call_id="c", step_id="st")
    for name in ("a1", "a2"):
        required = action.ActionRequired(action_type=action_type, decisions=("allow", "deny"), status="pending")
        story.tell(required, action_id=name, tool_call_id="c")
    assert statuses(story.state) == (wanted, wanted)
    assert story.state.tool_calls["c"].status == wanted
    shown = thread_read(story.state, "th")
    assert [request.action_id for request in shown.pending_requests] == ["a1", "a2"]
    story.tell(action.ActionResolved(decision="allow", decided_by="user", status="resolved"), action_id="a1")
    assert statuses(story.state) == (wanted, wanted), "one is still open"
    story.tell(action.ActionResolved(decision="deny", decided_by="user", status="resolved"), action_id="a2")
    assert statuses(story.state) == ("running", "running")
    assert story.state.actions["a2"].decision == "deny"
    assert story.state.open_actions() == ()


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({"decision": "deny", "decided_by": "timeout"}, "timed_out"),
        ({"decision": "deny", "decided_by": "policy", "status": "timed_out"}, "timed_out"),
        ({"decision": "cancelled", "decided_by": "runtime"}, "cancelled"),
        ({"decision": "allow", "decided_by": "user"}, "resolved"),
    ],
)
def test_time_out_and_cancel_are_outcomes_of_their_own(told: dict[str, Any], wanted: str) -> None:
    story = story_of_a_turn()
    story.tell(action.ActionRequired(action_type="permission", decisions=("allow",), status="pending"), action_id="a")
    assert story.state.actions["a"].status == "open"
    story.tell(action.ActionResolved(**told), action_id="a")
    assert story.state.actions["a"].status == wanted
    story.tell(action.ActionResolved(decision="other", decided_by="somebody"), action_id="a")
    assert story.state.actions["a"].decision == told["decision"], "the first answer stands"
    assert [note.code for note in story.state.notes.values()] == ["contradiction"]


@pytest.mark.req("AR-232")
def test_a_tool_call_keeps_its_refs_its_error_and_the_decisions_about_it() -> None:
    story = story_of_a_turn()
    ids = {"tool_call_id": "c", "step_id": "st"}
    story.tell(tool.ToolStarted(tool_name="write", input_ref="in"), **ids)
    story.tell(permission.PermissionEvaluated(decision="ask", decision_source="rule", decision_reason="writes"), **ids)
    assert story.state.tool_calls["c"].permission is not None
    assert story.state.tool_calls["c"].permission.decision == "ask"
    asked = permission.PermissionRequested(subject_kind="tool", approval_action_id="a", decisions=("allow", "deny"))
    story.tell(asked, **ids)
    assert [one.action_id for one in story.state.open_actions("tu")] == ["a"]
    answer = permission.PermissionResolved(
        outcome="denied", decision="deny", decision_source="human", approval_action_id="a"
    )
    story.tell(answer, **ids)
    story.tell(tool.ToolFailed(tool_name="write", failure_category="permission_denied", message="no"), **ids)
    call = story.state.tool_calls["c"]
    assert (call.input_ref, call.status, call.action_id) == ("in", "failed", "a")
    assert call.permission is not None
    assert (call.permission.decision, call.permission.decision_source) == ("deny", "human")
    assert call.error is not None
    assert call.error.category == "permission_denied"
    assert not story.state.open_actions()


# --- the conversation --------------------------------------------------------------------------------------------


def kinds(state: State, thread_id: str | None = None) -> list[str]:
    return [item.kind for item in state.conversation(thread_id)]


def test_the_conversation_is_what_was_said_and_done_in_order() -> None:
    story = Story()
    story.turn("t1")
    story.turn("o1", thread_id="other", tools=0)
    assert kinds(story.state, "th") == ["turn_input", "tool_call", "tool_result", "assistant_output"]
    assert kinds(story.state) == [*kinds(story.state, "th"), "turn_input", "assistant_output"]
    first = story.state.conversation("th")[0]
    assert (first.ref, first.turn_id, first.sequence) == ("in-t1", "t1", 1)


def compaction(*turns: str) -> context.ContextCompactionCompleted:
    return context.ContextCompactionCompleted(
        compaction_id="c1", trigger="auto", affected_turns=turns, summary_ref="sum", tokens_before=9, tokens_after=2
    )


def test_a_compaction_leaves_a_boundary_and_marks_what_it_stands_for() -> None:
    story = Story()
    story.turn("t1")
    story.turn("t2", tools=0)
    story.tell(compaction("t1"), **{"thread_id": "th", "turn_id": "t2"})
    story.turn("t3", tools=0)
    marked = [(item.turn_id, item.kind, item.compacted_by) for item in story.state.conversation("th")]
    assert [one for one in marked if one[2]] == [
        ("t1", kind, "c1") for kind in ("turn_input", "tool_call", "tool_result", "assistant_output")
    ]
    boundary = next(item for item in story.state.conversation("th") if item.kind == "compaction")
    assert (boundary.ref, boundary.turn_id, boundary.compacted_by) == ("sum", "t2", None)
    assert story.state.turns["t1"].compacted_by == "c1"


def test_a_rollback_takes_turns_out_and_lifts_a_compaction_it_takes_back() -> None:
    story = Story()
    story.turn("t1")
    before = story.state
    story.turn("t2", tools=0)
    story.tell(compaction("t1"), thread_id="th", turn_id="t2")
    story.turn("t3")
    story.tell(history.HistoryRollbackStarted(rollback_id="rb", target="t1"), thread_id="th")
    story.tell(
        history.HistoryRollbackCompleted(rollback_id="rb", target="t1", removed_turns=("t2", "t3")), thread_id="th"
    )
    state = story.state
    assert state.conversation("th") == before.conversation("th")
    assert state.conversation() == before.conversation()
    assert [one.turn_id for one in state.turn_list("th")] == ["t1"]
    assert (state.turns["t3"].removed_by, state.turns["t3"].status) == ("rb", "completed")
    assert state.turns["t1"].compacted_by is None
    shown = thread_read(state, "th")
    assert shown.last_outcome is not None
    assert shown.last_outcome.turn_id == "t1"
    check(state)
    story.turn("t4", tools=0)
    assert [item.turn_id for item in story.state.conversation("th")][-2:] == ["t4", "t4"]
    check(story.state)


def test_a_rollback_of_the_turn_under_way_leaves_the_thread_idle() -> None:
    story = story_of_a_turn()
    story.tell(history.HistoryRollbackCompleted(target="x", removed_turns=("tu", "never heard of")))
    assert story.state.threads["th"].active_turn_id is None
    assert story.state.threads["th"].status == "idle"
    story.tell(tool.ToolStarted(tool_name="late"), tool_call_id="c", step_id="st")
    assert not story.state.items
    assert story.state.open_keys("turns") == ()


def test_three_failed_compactions_in_a_row_are_counted_and_one_that_succeeds_ends_the_row() -> None:
    story = story_of_a_turn()
    for _ in range(3):
        story.tell(context.ContextCompactionStarted(trigger="auto"))
        story.tell(context.ContextCompactionFailed(trigger="auto", failure_category="c", message="m"))
    assert story.state.contexts["th"].consecutive_failures == 3
    assert len(story.state.compactions) == 3
    story.tell(compaction("tu"))
    assert story.state.contexts["th"].consecutive_failures == 0


# --- restart -----------------------------------------------------------------------------------------------------


def test_after_a_reconstruction_open_work_is_stale_until_a_fact_proves_that_it_goes_on() -> None:
    story = story_of_a_turn()
    story.tell(tool.ToolStarted(tool_name="x"), tool_call_id="c", step_id="st")
    story.tell(action.ActionRequired(action_type="permission", status="pending"), turn_id="t2", action_id="a")
    story.tell(history.HistoryReconstructed(event_count=5, degraded=False), thread_id=None, turn_id=None)
    assert statuses(story.state) == ("stale", "stale")
    assert story.state.tool_calls["c"].status == "stale"
    assert story.state.actions["a"].status == "open", "a decision stays open"
    story.tell(model.ModelRequested(provider_name="p", model_name="m"), model_request_id="r")
    assert statuses(story.state) == ("running", "running")


def test_the_wish_to_stop_a_turn_outlives_a_restart() -> None:
    story = story_of_a_turn()
    story.tell(run.RunStatus(status="cancelling", phase="interrupting"))
    story.tell(history.HistoryReconstructed(event_count=4, degraded=False), thread_id=None, turn_id=None)
    assert statuses(story.state) == ("cancelling", "cancelling")


def test_a_thread_nobody_heard_of_is_unknown() -> None:
    shown = thread_read(Story().state, "nobody")
    assert (shown.status, shown.turns, shown.active_turn_id) == ("unknown", None, None)


def test_windows_of_a_session_lead_back_to_its_beginning() -> None:
    story = Story()
    for number in range(12):
        story.turn(f"t{number}")
    state = story.state
    whole = session_snapshot(state, window=1_000)
    assert whole.recent_steps is not None
    assert whole.history_cursor is None
    windows, before = [], None
    while True:
        shown = session_snapshot(state, window=7, before=before)
        windows.append(shown.recent_steps or ())
        if shown.history_cursor is None:
            break
        before = int(shown.history_cursor)
    assert tuple(step for window in reversed(windows) for step in window) == whole.recent_steps
    assert len(windows) == 7
    assert session_snapshot(fold(story.events[:0])).recent_steps is None
