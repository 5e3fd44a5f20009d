"""The second turn: work is handed to child agents and to a job, and comes back, mostly."""

from models.payloads import job, subagent, task, task_graph, thread, turn
from models.task_values import Edge, Worker
from runtime.samples.moves import HAIKU, SONNET, Answer, ask, priced, tokens, use
from runtime.samples.opening import end_turn, hand_out, one_turn, phase, prepare
from runtime.samples.script import Script, blob

QUESTION = "Move all callers to the new backoff() signature, and have somebody review the fix and the docs."
SITES = ("src/ledgerd/client.py", "src/ledgerd/webhooks.py", "src/ledgerd/settlement.py")
REVIEW = "No objection. Suggest a test for attempt=0, where the jitter could make the delay negative for jitter > 1."
SUMMARY = "Three callers moved, the review found no fault, the docs page is still to be written."


def delegation_turn(script: Script) -> None:
    """The whole turn."""
    with one_turn(script, QUESTION):
        begun = script.now
        prepare(script, SONNET, kind="coding", reason="The conversation is in its cache already.")
        parent = script.name("task")
        with script.within(task_id=parent):
            hand_out(script, title="Move callers of backoff()", objective=QUESTION)
            run_id = script.name("run")
            with script.within(run_id=run_id), script.spans.task_run(script.ids, attempt_index=1):
                script.tell(task_graph.TaskAttemptStarted(attempt_index=1, cause="first", status="preparing"))
                script.tell(task.TaskStarted(attempt_index=1, status="running"))
                text = ("I'll split this: ", "a reviewer reads the fix while a job edits the callers.")
                ask(
                    script,
                    SONNET,
                    Answer(tokens(1_204, read=14_150, write=2_960, out=310), 2.8, text=text, tool_calls=3),
                )
                _review(script)
                _migrate(script)
                _docs(script, parent)
                _flake_scan(script)
                _changelog_job(script)
                script.tell(
                    task_graph.TaskAttemptCompleted(attempt_index=1, completion_summary=SUMMARY, status="completed")
                )
            script.tell(
                task.TaskCompleted(
                    completed_by="main-agent",
                    completion_summary=SUMMARY,
                    delivery_state="delivered",
                    attempts=1,
                    duration_ms=script.since(begun),
                    status="completed",
                )
            )
        end_turn(script, SUMMARY, script.since(begun))


def _spawn(script: Script, role: str, objective: str) -> tuple[str, str]:
    child, child_thread = script.name("agent"), script.name("thread")
    edge = Edge(kind="spawned_subagent", target_id=child, status="active", created_at=script.now)
    script.tell(
        task_graph.TaskDelegated(
            delegate_kind="subagent",
            delegate_id=child,
            objective=objective,
            edge=edge,
            worker=Worker(worker_id=child, kind="subagent", name=role, thread_id=child_thread),
        )
    )
    with script.within(subagent_id=child):
        script.tell(
            subagent.SubagentSpawned(
                child_thread_id=child_thread,
                role=role,
                nickname=f"{role}-1",
                agent_type=f"{role}.md",
                isolation="workspace copy",
                model_policy="cheapest that can use tools",
                input_ref=blob(objective),
                objective=objective,
                status="queued",
            )
        )
        script.tell(
            subagent.SubagentInput(
                child_thread_id=child_thread, input_ref=blob(objective), input_chars=len(objective), source="parent"
            )
        )
        script.tell(
            subagent.SubagentStatus(
                child_thread_id=child_thread, role=role, previous_status="queued", status="running", recoverable=True
            )
        )
    return child, child_thread


def _review(script: Script) -> None:
    """A child agent that does what it was asked."""
    parent, objective = script.ids.thread_id, "Review the change to retry.py; look for edge cases."
    child, child_thread = _spawn(script, "reviewer", objective)
    begun, used = script.now, tokens(6_420, read=3_100, write=3_100, out=540)
    with script.within(subagent_id=child):
        with script.within(thread_id=child_thread, turn_id=script.name("turn")):
            script.tell(
                thread.ThreadStarted(title="review", source="subagent", parent_thread_id=parent, status="running")
            )
            script.tell(turn.TurnSubmitted(input_ref=blob(objective), source="parent agent", status="accepted"))
            script.tell(turn.TurnStarted(status="running"))
            ask(
                script,
                HAIKU,
                Answer(tokens(4_210, write=3_100, out=120), 1.6, text=("Reading the diff.",), tool_calls=1),
            )
            use(script, "read_file", {"path": "src/ledgerd/retry.py"}, "def backoff(attempt, ...): ...", 10)
            ask(script, HAIKU, Answer(tokens(2_210, read=3_100, out=420), 2.9, text=(REVIEW[:24], REVIEW[24:])))
            script.tell(
                turn.TurnCompleted(
                    output_ref=blob(REVIEW),
                    duration_ms=script.since(begun),
                    model_calls=2,
                    tool_calls=1,
                    status="completed",
                )
            )
        script.tell(
            subagent.SubagentCompleted(
                child_thread_id=child_thread,
                role="reviewer",
                last_message_ref=blob(REVIEW),
                result_ref=blob(REVIEW),
                usage=used,
                cost=priced(HAIKU, used),
                tool_calls=1,
                duration_ms=script.since(begun),
                status="completed",
            )
        )
        script.tell(
            subagent.SubagentClosed(
                child_thread_id=child_thread, reason="its work is done", closed_by="parent", final_status="completed",
                status="closed",
            )
        )  # fmt: skip


def _migrate(script: Script) -> None:
    """A job with an item per caller; the second needs another try."""
    job_id, begun = script.name("job"), script.now
    script.tell(
        task_graph.TaskDelegated(
            delegate_kind="job",
            delegate_id=job_id,
            objective="Edit each caller",
            edge=Edge(kind="child", target_id=job_id),
        )
    )
    with script.within(job_id=job_id):
        script.tell(
            job.JobCreated(
                job_kind="batch",
                title="Move callers of backoff()",
                instruction_ref=blob("replace cap= by max_delay= in calls of backoff"),
                input_refs=tuple(f"file://{path}" for path in SITES),
                total_items=3,
                pending_items=3,
                max_runtime_ms=180_000,
                status="queued",
            )
        )
        script.tell(job.JobStarted(total_items=3, running_items=1, pending_items=2, status="running"))
        for index, path in enumerate(SITES):
            with script.within(job_item_id=f"{job_id}/{index}"):
                _item(script, index, path, tries=2 if index == 1 else 1)
            script.tell(
                job.JobProgress(
                    total_items=3, completed_items=index + 1, failed_items=0, pending_items=2 - index,
                    item_cursor=str(index + 1), message=f"{path} is moved", status="running",
                )
            )  # fmt: skip
        script.tell(
            job.JobCompleted(
                total_items=3,
                completed_items=3,
                failed_items=0,
                reported_items=3,
                result_ref=blob("3 callers moved"),
                duration_ms=script.since(begun),
                status="completed",
            )
        )


def _item(script: Script, index: int, path: str, *, tries: int) -> None:
    for attempt in range(1, tries + 1):
        script.tell(
            job.JobItemStarted(
                item_index=index, item_status="running", attempt_index=attempt, input_refs=(f"file://{path}",)
            )
        )
        passed = script.wait(1_900)
        if attempt < tries:
            script.tell(
                job.JobItemFailed(
                    item_index=index,
                    item_status="failed",
                    attempt_index=attempt,
                    failure_category="conflict",
                    message="The file changed while it was edited.",
                    retryable=True,
                    will_retry=True,
                    duration_ms=passed,
                    status="failed",
                )
            )
            continue
        script.tell(
            job.JobItemCompleted(
                item_index=index,
                item_status="completed",
                attempt_index=attempt,
                result_ref=blob(f"diff of {path}"),
                duration_ms=passed,
            )
        )


def _docs(script: Script, parent: str) -> None:
    """A child task that waits for the job, is put off, and whose agent fails."""
    docs = script.name("task")
    edge = Edge(kind="blocked_by", source_id=docs, target_id=parent, status="active", created_at=script.now)
    with script.within(task_id=docs, parent_task_id=parent, root_task_id=parent, run_id=None):
        hand_out(script, title="Document retry settings", objective="Write docs/retry.md", kind="writing")
        script.tell(task_graph.TaskDependencyUpdated(change="added", edge=edge, reason="needs the final signature"))
        script.tell(
            task.TaskBlocked(
                blocker_kind="dependency", blocker_id=parent, reason="The signature is not final.", status="blocked"
            )
        )
        script.wait(2_500)
        done = edge.model_copy(update={"status": "satisfied", "updated_at": script.now})
        script.tell(task_graph.TaskDependencyUpdated(change="satisfied", edge=done, reason="all callers are moved"))
        script.tell(task.TaskResumed(reason="the blocker is gone", requested_by="runtime", status="running"))
        changed = ("priority", "assignee")
        script.tell(task.TaskUpdated(changed_fields=changed, priority="low", assignee="docs-agent", status="running"))
        phase(script, "running", "writing", "Writing docs/retry.md")
        _failing_child(script)
        script.tell(task.TaskPaused(reason="left for tomorrow", requested_by="user", status="paused"))
        script.tell(
            task.TaskCancelRequested(reason="The user writes the page.", requested_by="user", status="cancelling")
        )
        script.tell(task.TaskCancelled(reason="The user writes the page.", requested_by="user", status="cancelled"))
        script.tell(
            task.TaskArchived(reason="ended", final_status="cancelled", last_phase="working", status="archived")
        )


def _failing_child(script: Script) -> None:
    child, child_thread = _spawn(script, "writer", "Draft docs/retry.md from the docstring.")
    with script.within(subagent_id=child):
        passed = script.wait(4_200)
        script.tell(
            subagent.SubagentFailed(
                child_thread_id=child_thread,
                role="writer",
                failure_category="context_overflow",
                message="The docs folder did not fit into the child's context.",
                retryable=True,
                recoverable=True,
                duration_ms=passed,
                status="failed",
            )
        )
        script.tell(
            subagent.SubagentClosed(
                child_thread_id=child_thread,
                reason="failed",
                closed_by="parent",
                final_status="failed",
                status="closed",
            )
        )


def _flake_scan(script: Script) -> None:
    """A scheduled job that fails."""
    with script.within(job_id=script.name("job")):
        script.tell(
            job.JobCreated(
                job_kind="scheduled",
                title="Nightly flake scan",
                instruction_ref=blob("run the suite 50 times and list unstable tests"),
                schedule="0 3 * * *",
                total_items=50,
                status="queued",
            )
        )
        script.tell(job.JobStarted(scheduled_for=script.now, total_items=50, status="running"))
        passed = script.wait(2_200)
        script.tell(
            job.JobFailed(
                total_items=50,
                completed_items=3,
                failed_items=1,
                failure_category="resource_exhausted",
                message="No space left on device while writing the reports.",
                retryable=True,
                failed_item_ids=("scan/4",),
                duration_ms=passed,
                status="failed",
            )
        )


def _changelog_job(script: Script) -> None:
    """A background job that somebody stops."""
    with script.within(job_id=script.name("job")):
        script.tell(
            job.JobCreated(
                job_kind="background",
                title="Changelog entry",
                instruction_ref=blob("one line for CHANGELOG.md"),
                total_items=1,
                status="queued",
            )
        )
        passed = script.wait(700)
        script.tell(
            job.JobCancelled(
                total_items=1,
                completed_items=0,
                reason="The user wrote the line.",
                cancelled_by="user",
                duration_ms=passed,
                status="cancelled",
            )
        )
