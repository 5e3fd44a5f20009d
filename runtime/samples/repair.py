"""The first turn: a flaky test is found, understood and repaired, on the second try."""

from datetime import datetime

from models.governance_values import PermissionDecision
from models.payloads import artifact, cost, evidence, model, output, routing, task, task_graph, tool
from models.task_values import RetryPolicy, Worker
from models.values import OutputRef, VerificationOutcome
from runtime.samples.moves import (
    CWD,
    GPT,
    SONNET,
    Answer,
    Command,
    ask,
    ask_in_vain,
    boundary,
    consent,
    hooked,
    result,
    run,
    tokens,
    tool_call,
    use,
    weigh,
)
from runtime.samples.opening import end_turn, estimate, hand_out, one_turn, phase, prepare, snapshot_now
from runtime.samples.script import Script, blob, digest

QUESTION = "tests/test_retry.py::test_backoff_is_bounded fails about once in ten runs on CI. Find out why and fix it."
PYTEST = "pytest -q tests/test_retry.py -k backoff --count 20"
FAILING = (
    "....F..........F....                                                     [100%]\n",
    "E   assert 8.73 <= 8.0\nE    +  where 8.73 = backoff(attempt=3, jitter=0.2)\n",
    "2 failed, 18 passed in 3.41s\n",
)
PASSING = (
    "........................................................................ [ 75%]\n",
    "96 passed in 7.92s\n",
)
SOURCE = "def backoff(attempt, base=1.0, cap=8.0, jitter=0.2):\n    delay = min(cap, base * 2**attempt)\n    ..."
PATCH = (
    "-    delay = min(cap, base * 2**attempt)\n-    return delay * (1 + random.uniform(-jitter, jitter))\n"
    "+    delay = base * 2**attempt * (1 + random.uniform(-jitter, jitter))\n+    return min(cap, delay)\n"
)
SUMMARY = (
    "The jitter was added after the cap, so the delay could exceed it. The cap is now applied last; "
    "20 repeated runs and the whole suite pass."
)
FIRST_WORKER = Worker(worker_id="local-1", kind="local", name="main agent")
RETRIES = RetryPolicy(max_attempts=3)


def repair_turn(script: Script) -> None:
    """The whole turn."""
    with one_turn(script, QUESTION):
        begun = script.now
        hooked(script, "user_prompt_submit", "ticket-link.py", reason="no ticket mentioned")
        prepare(script, SONNET, kind="coding", reason="The best of the three at multi-step repairs.")
        estimate(script, SONNET, 60_000, 4_000)
        with script.within(task_id=script.name("task")):
            hand_out(script, title="Fix flaky backoff test", objective=QUESTION)
            script.tell(task.TaskQueued(position=0, reason="behind the context", status="queued"))
            _first_attempt(script)
            _second_attempt(script)
            _complete(script, script.since(begun))
        end_turn(script, SUMMARY, script.since(begun))


def _start(script: Script, index: int, cause: str) -> None:
    script.tell(
        task_graph.TaskAttemptStarted(
            attempt_index=index, cause=cause, worker=FIRST_WORKER, retry_policy=RETRIES, status="preparing"
        )
    )
    script.tell(task.TaskStarted(attempt_index=index, worker=FIRST_WORKER, status="running"))


def _first_attempt(script: Script) -> None:
    run_id = script.name("run")
    with script.within(run_id=run_id, attempt_id=f"{run_id}/1"), script.spans.task_run(script.ids, attempt_index=1):
        begun = script.now
        _start(script, 1, "first")
        phase(script, "running", "investigating", "Reading the test and the code")
        ask(
            script,
            SONNET,
            Answer(
                tokens(2_310, write=11_840, out=412, thought=180),
                3.4,
                text=("I'll start with the failing test ", "and the function it calls."),
                thinking=(
                    "The bound is 8.0 and the failure is intermittent, ",
                    "so randomness is involved: probably the jitter.",
                ),
                tool_calls=2,
            ),
        )
        use(script, "read_file", {"path": "src/ledgerd/retry.py"}, SOURCE, 12)
        use(script, "grep", {"pattern": "backoff\\(", "path": "tests"}, "tests/test_retry.py:41: d = backoff(3)", 38)
        _run_with_consent(script)
        _held_back(script, begun)


def _run_with_consent(script: Script) -> None:
    with tool_call(script, "shell", {"command": PYTEST}, reads=False):
        hooked(script, "pre_tool_use", "command-guard.py", reason="no destructive subcommand")
        verdict = PermissionDecision(
            decision="ask",
            decision_source="rule",
            decision_reason="Rule shell(pytest *) asks once per command.",
            mode="on_request",
            rule_refs=(blob("rule shell(pytest *)"),),
            scope="command",
        )
        weigh(script, PYTEST, verdict)
        script.tell(task.TaskWaiting(waiting_for="permission", status="waiting_permission"))
        action_id = consent(script, PYTEST)
        script.tell(task.TaskResumed(reason="permission was given", requested_by="user", status="running"))
        profile = boundary(script)
        begun = script.now
        run(script, Command(PYTEST, FAILING, exit_code=1, seconds=3.6), profile)
        _large_output(script)
        script.tell(
            tool.ToolProgress(
                tool_name="shell", message="parsing the report", progress=1, total=2, preview=FAILING[1][:40]
            )
        )
        script.wait(15)
        script.tell(
            tool.ToolResult(
                tool_name="shell",
                success=False,
                duration_ms=script.since(begun),
                result_ref=blob("".join(FAILING)),
                preview=FAILING[1],
                truncated=True,
                queue_wait_ms=6_120.0,
                status="completed",
            ),
            action_id=action_id,
        )


def _large_output(script: Script) -> None:
    """The report with all its tracebacks is too long for an event, and for the model."""
    whole = "".join(FAILING) * 700
    stored = OutputRef(
        ref=blob(whole), media_type="text/plain", size_bytes=len(whole), sha256=digest(whole), preview=FAILING[0]
    )
    script.tell(
        output.OutputSpilled(
            output_ref=blob(whole), output=stored, source_kind="process", size_bytes=len(whole),
            inline_limit_bytes=32_768, preview=FAILING[1],
        )
    )  # fmt: skip
    script.tell(
        output.OutputTruncated(
            output_ref=blob(whole),
            source_kind="process",
            original_bytes=len(whole),
            retained_bytes=16_384,
            original_tokens=len(whole) // 4,
            retained_tokens=4_096,
            kept="head_and_tail",
            reason="The model gets at most 4,096 tokens of a result.",
        )
    )


def _held_back(script: Script, begun: datetime) -> None:
    """The provider limits the rate, and the try ends."""
    script.tell(
        cost.RateLimitHit(
            kind="rate_limit",
            name="input_tokens_per_minute",
            scope="account",
            status="hit",
            unit="tokens",
            used=400_000,
            maximum=400_000,
            remaining=0,
            window_s=60,
            limiter="provider",
            http_status=429,
            retry_after_ms=22_000,
            provider_name=SONNET.provider,
            model_name=SONNET.name,
        )
    )
    trouble = model.ModelFailed(
        failure_category="rate_limited",
        message="The provider asks to wait 22 s.",
        error_code="rate_limit_error",
        http_status=429,
        retry_after_ms=22_000,
        retryable=True,
        status="failed",
    )
    ask_in_vain(script, SONNET, trouble)
    script.tell(
        task_graph.TaskAttemptFailed(
            attempt_index=1,
            failure_category="rate_limited",
            message="The model could not be reached in time.",
            retryable=True,
            next_attempt_policy="next_candidate",
            checkpoint_refs=(blob("checkpoint 1"),),
            duration_ms=script.since(begun),
            status="failed",
        )
    )


def _second_attempt(script: Script) -> None:
    script.tell(
        task.TaskRetrying(
            next_attempt_index=2, reason="rate limited; another model is tried", delay_ms=500,
            retry_policy=RETRIES, status="retrying",
        )
    )  # fmt: skip
    script.tell(
        routing.RoutingFallbackApplied(
            from_provider=SONNET.provider,
            from_model=SONNET.name,
            selected_provider=GPT.provider,
            selected_model=GPT.name,
            decision_source="policy",
            decision_reason="First in the fallback chain that is not limited.",
            failure_category="rate_limited",
            fallback_index=1,
            candidate_count=2,
        )
    )
    run_id = script.name("run")
    with script.within(run_id=run_id, attempt_id=f"{run_id}/2"), script.spans.task_run(script.ids, attempt_index=2):
        begun = script.now
        _start(script, 2, "other_routing")
        text = ("The cap is applied before the jitter, ", "so a delay of up to 9.6 s is possible. ", "I'll swap them.")
        ask(script, GPT, Answer(tokens(16_930, out=688, thought=384), 6.1, text=text, tool_calls=1))
        _edit(script)
        _verify(script)
        script.tell(
            task_graph.TaskAttemptCompleted(
                attempt_index=2,
                completion_summary=SUMMARY,
                duration_ms=script.since(begun),
                output_refs=(blob(PATCH),),
                status="completed",
            )
        )


def _edit(script: Script) -> None:
    with tool_call(script, "edit_file", {"path": "src/ledgerd/retry.py", "replacements": 1}, reads=False):
        allowed = PermissionDecision(
            decision="allow",
            decision_source="mode",
            decision_reason="Edits inside the workspace are allowed in this mode.",
            mode="on_request",
        )
        weigh(script, "edit src/ledgerd/retry.py", allowed)
        with (
            script.within(artifact_id=script.name("art")),
            script.spans.artifact_write(script.ids, path="src/ledgerd/retry.py"),
        ):
            script.wait(18)
            script.tell(
                artifact.ArtifactChanged(
                    change="updated",
                    artifact_type="file",
                    title="retry.py",
                    path="src/ledgerd/retry.py",
                    media_type="text/x-python",
                    size_bytes=2_144,
                    sha256=digest(PATCH),
                    read_ref=f"file://{CWD}/src/ledgerd/retry.py",
                    diff_ref=blob(PATCH),
                    lines_added=2,
                    lines_removed=2,
                )
            )
        result(script, "edit_file", "1 replacement in src/ledgerd/retry.py", 9)
        hooked(script, "post_tool_use", "format.sh", reason="ruff format: 1 file left unchanged", milliseconds=210)


def _verify(script: Script) -> None:
    script.tell(
        task.TaskProgressed(
            phase="verifying",
            current_step="running the whole suite",
            summary="The fix is in; checking it.",
            counters={"files_changed": 1, "tests_to_run": 96},
        )
    )
    line = "pytest -q"
    with tool_call(script, "shell", {"command": line}, reads=False):
        allowed = PermissionDecision(
            decision="allow", decision_source="human", decision_reason="Allowed once before.", mode="on_request"
        )
        weigh(script, line, allowed)
        run(script, Command(line, PASSING, seconds=8.2), boundary(script))
        result(script, "shell", "".join(PASSING), 30)
    text = ("Fixed. The cap is now applied after the jitter. ", "All 96 tests pass, ", "20 repetitions included.")
    ask(script, GPT, Answer(tokens(3_870, read=16_896, out=251, thought=64), 3.0, text=text))


def _complete(script: Script, duration_ms: float) -> None:
    with script.within(evidence_id=script.name("ev")):
        passed = VerificationOutcome(name="pytest", status="passed", detail="96 passed in 7.92s")
        script.tell(
            evidence.EvidenceChanged(
                change="verified",
                evidence_kind="verification",
                trace_ref=blob("".join(PASSING)),
                verification_outcomes=(passed,),
                sha256=digest("".join(PASSING)),
            )
        )
        proof = (script.ids.evidence_id or "",)
    script.tell(
        task.TaskCompleted(
            completed_by="main-agent",
            completion_summary=SUMMARY,
            evidence_refs=proof,
            delivery_state="delivered",
            attempts=2,
            duration_ms=duration_ms,
            status="completed",
        )
    )
    snapshot_now(script)
