"""The third turn: the context runs full, a boundary is touched, time and quota get short."""

from models.governance_values import PermissionDecision
from models.payloads import context, cost, hook, limit, output, routing, sandbox, task, task_graph, tool
from models.payloads.runtime_fault import RuntimeWarned
from runtime.samples.moves import CWD, SONNET, Answer, ask, boundary, consent, tokens, tool_call, weigh
from runtime.samples.opening import end_turn, hand_out, one_turn, phase
from runtime.samples.script import Script, blob

QUESTION = "Check whether the settlement service on staging shows the same retry pattern."
SUMMARY = "Staging could not be reached from the sandbox; the local logs show no retry above the cap since the fix."


def limits_turn(script: Script) -> None:
    """The whole turn."""
    with one_turn(script, QUESTION):
        begun = script.now
        script.tell(
            routing.RoutingSingleCandidate(
                routing_mode="fixed",
                decision_source="user",
                decision_reason="The user fixed the model for this turn.",
                selected_provider=SONNET.provider,
                selected_model=SONNET.name,
                requested_model=SONNET.name,
                candidate_count=1,
                capability_gap="none",
            )
        )
        _compact(script)
        phase(script, "running", "investigating", "Looking at staging")
        text = ("Let me look at ", "the metrics of the staging service.")
        ask(script, SONNET, Answer(tokens(2_130, write=18_420, out=205), 2.6, text=text, tool_calls=1))
        _touch_the_boundary(script)
        _read_logs(script)
        _denied(script)
        _quota_gets_low(script)
        _out_of_time(script)
        told = ("From here I can't reach staging. ", "The local logs show no delay above 8 s ", "since the fix.")
        ask(script, SONNET, Answer(tokens(1_890, read=20_550, write=1_120, out=312), 3.3, text=told))
        end_turn(script, SUMMARY, script.since(begun))


def _compact(script: Script) -> None:
    """The first try fails, the second leaves a boundary."""
    turns = tuple(sorted({event.turn_id for event in script.events if event.turn_id}))
    before = 171_300
    for trouble in (True, False):
        compaction_id = script.name("compact")
        script.tell(
            context.ContextCompactionStarted(
                compaction_id=compaction_id, trigger="limit", affected_turns=turns, tokens_before=before
            )
        )
        passed = script.wait(3_400)
        if trouble:
            script.tell(
                context.ContextCompactionFailed(
                    compaction_id=compaction_id,
                    trigger="limit",
                    tokens_before=before,
                    failure_category="invalid_summary",
                    message="The summary left out an open decision.",
                    retryable=True,
                    consecutive_failures=1,
                    duration_ms=passed,
                    status="failed",
                )
            )
            continue
        script.tell(
            context.ContextCompactionCompleted(
                compaction_id=compaction_id,
                trigger="limit",
                affected_turns=turns,
                tokens_before=before,
                tokens_after=18_420,
                summary_ref=blob("summary of the first two turns"),
                replacement_ref=blob("summary of the first two turns"),
                preserved_artifact_refs=(f"file://{CWD}/src/ledgerd/retry.py",),
                duration_ms=passed,
                status="completed",
            )
        )


def _touch_the_boundary(script: Script) -> None:
    with tool_call(script, "web_fetch", {"url": "https://staging.ledgerd.internal/metrics"}):
        boundary(script)
        script.tell(
            sandbox.SandboxViolation(
                boundary="network",
                operation="connect",
                target="staging.ledgerd.internal:443",
                blocked=True,
                message="The sandbox lets nothing out.",
                status="blocked",
            )
        )
        passed = script.wait(120)
        script.tell(
            tool.ToolFailed(
                tool_name="web_fetch",
                failure_category="permission_denied",
                message="The network is blocked in this sandbox.",
                error_code="EPERM",
                retryable=False,
                duration_ms=passed,
                status="failed",
            )
        )


def _read_logs(script: Script) -> None:
    """A log holds a secret, which is masked before anybody sees it; the hook that should note it fails."""
    with tool_call(script, "read_file", {"path": "var/log/settlement.log", "lines": 400}):
        text = "retry attempt=3 delay=7.61 auth=[redacted]\n"
        script.tell(
            output.OutputRedacted(
                output_ref=blob(text),
                source_kind="tool",
                redactions={"bearer_token": 2},
                rule_refs=("bearer_token",),
                reason="Tokens never reach a model.",
            )
        )
        hook_id = script.name("hook")
        named = {"hook_id": hook_id, "hook_name": "audit.py", "point": "post_tool_use"}
        with script.spans.hook_run(script.ids, point="post_tool_use", hook_name="audit.py"):
            script.tell(hook.HookStarted(**named, handler_ref=f"{CWD}/.agent/hooks/audit.py", timeout_ms=2000, cwd=CWD))
            passed = script.wait(2_000)
            script.tell(
                hook.HookFailed(
                    **named,
                    failure_category="timeout",
                    message="The hook did not end within 2 s.",
                    fail_policy="open",
                    duration_ms=passed,
                    status="timed_out",
                )
            )
        script.tell(
            tool.ToolResult(
                tool_name="read_file", success=True, duration_ms=14.2, result_ref=blob(text), preview=text,
                status="completed",
            )
        )  # fmt: skip
    script.tell(
        RuntimeWarned(
            code="hook.timeout",
            message="A hook was passed over because it took too long.",
            component="hooks",
            failure_category="timeout",
            repaired=True,
        )
    )


def _denied(script: Script) -> None:
    """A rule forbids; the human is asked about something else and says no as well."""
    line = "rm -rf var/log"
    with tool_call(script, "shell", {"command": line}, reads=False):
        denied = PermissionDecision(
            decision="deny",
            decision_source="rule",
            decision_reason="Rule shell(rm -rf *) denies.",
            rule_refs=(blob("rule shell(rm -rf *)"),),
            destructive=True,
            impact_scope="workspace",
            rollback_advice="none: logs are not under version control",
        )
        weigh(script, line, denied)
        script.tell(
            tool.ToolFailed(
                tool_name="shell",
                failure_category="permission_denied",
                message="A rule denies this command.",
                retryable=False,
                permission=denied,
                status="failed",
            )
        )
    line = "ssh staging tail -n 200 settlement.log"
    with tool_call(script, "shell", {"command": line}, reads=False):
        consent(script, line, answer="deny", seconds=9)
        script.tell(
            tool.ToolFailed(
                tool_name="shell",
                failure_category="permission_denied",
                message="The user said no.",
                retryable=False,
                status="failed",
            )
        )


def _quota_gets_low(script: Script) -> None:
    state = {
        "name": "daily_output_tokens",
        "scope": "account",
        "unit": "tokens",
        "used": 912_400.0,
        "maximum": 1_000_000.0,
        "remaining": 87_600.0,
        "window_s": 86_400.0,
        "resets_at": script.later(31_000),
        "provider_name": SONNET.provider,
    }
    script.tell(cost.QuotaLow(**state, kind="quota", status="low", threshold=900_000.0))
    script.tell(
        limit.LimitChanged(**state, kind="quota", status="low", previous_status="ok", reason="91 % of the day is used")
    )


def _out_of_time(script: Script) -> None:
    """A side task runs into its time budget, and another one fails for good."""
    with script.within(task_id=script.name("task"), run_id=script.name("run")):
        hand_out(script, title="Tail staging logs", objective="Follow settlement.log for one minute", kind="research")
        with script.spans.task_run(script.ids, attempt_index=1):
            script.tell(task_graph.TaskAttemptStarted(attempt_index=1, cause="first", status="preparing"))
            script.tell(task.TaskStarted(attempt_index=1, status="running"))
            script.wait(20_000)
        script.tell(
            task.TaskTimedOut(
                budget_kind="inactivity",
                budget_ms=20_000,
                failure_category="timeout",
                message="Nothing happened for 20 s.",
                retryable=True,
                duration_ms=20_000,
                status="timed_out",
            )
        )
    with script.within(task_id=script.name("task"), run_id=script.name("run")):
        hand_out(script, title="Open a ticket", objective="Open a ticket about the staging access", kind="chore")
        with script.spans.task_run(script.ids, attempt_index=1):
            script.tell(task.TaskStarted(attempt_index=1, status="running"))
            passed = script.wait(800)
        script.tell(
            task.TaskFailed(
                failure_category="credential_missing",
                message="There is no token for the tracker.",
                retryable=False,
                attempts=1,
                duration_ms=passed,
                status="failed",
            )
        )
