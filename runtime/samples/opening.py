"""How a session and each of its turns begin and end."""

from collections.abc import Iterator
from contextlib import contextmanager

from models.payloads import (
    channel,
    context,
    cost,
    history,
    limit,
    policy,
    routing,
    session,
    snapshot,
    task,
    thread,
    tool,
    turn,
    turn_queue,
)
from models.payloads import run as runs
from models.values import CandidateModel, QueuedTurn
from runtime.samples.moves import CWD, GPT, HAIKU, SONNET, Model, bill, hooked, priced, tokens
from runtime.samples.script import Meter, Script, blob

TOOLS = ("read_file", "grep", "edit_file", "write_file", "shell", "web_fetch", "todo", "spawn_agent", "start_job")
CANDIDATES = tuple(
    CandidateModel(
        provider_name=which.provider,
        model_name=which.name,
        capabilities=("tools", "streaming", "reasoning"),
        context_window_tokens=window,
        cost_class=cost_class,
    )
    for which, window, cost_class in ((SONNET, 200_000, "medium"), (GPT, 400_000, "medium"), (HAIKU, 200_000, "low"))
)


def open_session(script: Script) -> None:
    """An editor connects and a session begins where an earlier one left its repository."""
    with script.within(channel_id=script.name("chan")):
        script.tell(
            channel.ChannelConnected(
                transport="websocket",
                peer_role="client",
                peer_id="vscode-1.98",
                native_protocol="acp/1",
                capabilities=("diff_view", "permission_prompt"),
                remote_address="127.0.0.1:51844",
                status="connected",
            )
        )
    script.tell(
        session.SessionCreated(
            title="Flaky retry test in ledgerd",
            workspace_id="ws-ledgerd",
            source="editor",
            client_name="vscode",
            client_version="1.98.2",
            cwd=CWD,
            metadata={"branch": "fix/retry-backoff", "commit": "8c1f0de"},
            status="running",
        )
    )
    hooked(script, "session_start", "load-env.sh", reason="environment loaded", milliseconds=140)
    script.tell(
        policy.PolicyChanged(
            policy_scope="session",
            policy_id="default-dev",
            policy_ref=blob("policy default-dev v7"),
            version="7",
            permission_mode="on_request",
            changed_rules={"shell(rm -rf *)": "deny", "shell(pytest *)": "ask", "read_file": "allow"},
            changed_by="user",
            reason="The project's own policy file was loaded.",
            status="active",
        )
    )
    script.tell(
        limit.LimitChanged(
            kind="budget",
            name="session_budget",
            scope="session",
            status="ok",
            unit="usd",
            used=0.0,
            maximum=2.0,
            remaining=2.0,
            reason="The session's budget was set.",
        )
    )


def start_thread(script: Script) -> None:
    """The main thread, with what is remembered of earlier work."""
    script.tell(thread.ThreadStarted(title="main", source="user", status="running"))
    passed = script.wait(35)
    script.tell(
        history.HistoryWindowLoaded(
            window="recent", from_sequence=1, to_sequence=len(script.events), item_count=len(script.events),
            has_more=False, duration_ms=passed,
        )
    )  # fmt: skip


@contextmanager
def one_turn(script: Script, question: str, *, source: str = "user", agent: str = "ledgerd-coder") -> Iterator[None]:
    """A turn from its submission on; its end is told inside."""
    turn_id = script.name("turn")
    script.of_turn = Meter()
    with script.within(turn_id=turn_id), script.spans.turn(script.ids, agent_name=agent):
        script.tell(
            turn.TurnSubmitted(
                input_ref=blob(question),
                input_chars=len(question),
                source=source,
                queued_turn_id=turn_id,
                idempotency_key=script.name("idem"),
                options={"permission_mode": "on_request", "sandbox": "workspace_write"},
                status="accepted",
            )
        )
        waiting = QueuedTurn(queued_turn_id=turn_id, position=0, source=source, status="queued", queued_at=script.now)
        script.tell(turn_queue.QueueChanged(change="added", queued_turn_id=turn_id, queued_turns=(waiting,), length=1))
        waited = script.wait(20)
        script.tell(turn_queue.QueueChanged(change="started", queued_turn_id=turn_id, queued_turns=(), length=0))
        script.tell(turn.TurnStarted(queue_wait_ms=waited, status="running"))
        yield


def prepare(script: Script, which: Model, *, kind: str, reason: str, missing: tuple[str, ...] = ()) -> None:
    """What the model gets to see and use, and which model it is."""
    with script.spans.context_resolve(script.ids):
        passed = script.wait(90)
        script.tell(
            context.ContextResolved(
                context_refs=(blob("AGENTS.md"), blob("src/ledgerd/retry.py"), blob("tests/test_retry.py")),
                memory_refs=(blob("memory: CI runs on 2 cores"),),
                policy_refs=(blob("policy default-dev v7"),),
                ref_count=5,
                estimated_tokens=14_200,
                missing=missing,
                duration_ms=passed,
            )
        )
    script.tell(tool.ToolCatalogResolved(tool_names=TOOLS, tool_count=len(TOOLS), mode="on_request"))
    script.tell(
        routing.TaskProfileResolved(
            kind=kind,
            source="classifier",
            required_capabilities=("tools", "reasoning"),
            latency_target="interactive",
            budget_class="standard",
            fallback_policy="next_candidate",
        )
    )
    script.tell(
        routing.RoutingCandidatesResolved(
            count=len(CANDIDATES), candidate_count=len(CANDIDATES), candidates=CANDIDATES, single=False,
            preferences={"order": ["quality", "cost"]},
        )
    )  # fmt: skip
    script.tell(
        routing.RoutingDecided(
            routing_mode="automatic",
            decision_source="router",
            decision_reason=reason,
            selected_provider=which.provider,
            selected_model=which.name,
            candidate_count=len(CANDIDATES),
            fallback_chain=tuple(one.model_name or "" for one in CANDIDATES if one.model_name != which.name),
        )
    )


def hand_out(script: Script, *, title: str, objective: str, kind: str = "coding") -> None:
    """A task is made and taken; the envelope names it already."""
    script.tell(
        task.TaskCreated(
            title=title,
            objective=objective,
            task_kind=kind,
            visibility="foreground",
            priority="normal",
            requested_by="user",
            owner="main-agent",
            acceptance=({"criterion_id": "tests", "description": "The test suite passes.", "required": True},),
            status="draft",
        )
    )
    script.tell(task.TaskAccepted(owner="main-agent", reason="within the session's scope", status="accepted"))


def snapshot_now(script: Script) -> None:
    """The thread's read model is brought up to date."""
    script.tell(
        snapshot.SnapshotUpdated(
            source="projection",
            read_model="thread_read_model",
            snapshot_ref=blob(f"snapshot {len(script.events)}"),
            up_to_sequence=script.events[-1].sequence,
            status="completed",
        )
    )


def phase(script: Script, status: str, name: str, title: str) -> None:
    """What the run is at."""
    script.tell(runs.RunStatus(status=status, phase=name, title=title))


def end_turn(script: Script, answer: str, begun_ms: float) -> None:
    """The turn ends well."""
    bill(script, "turn", script.of_turn)
    script.tell(
        turn.TurnCompleted(
            status="completed",
            duration_ms=begun_ms,
            stop_reason="finished",
            output_ref=blob(answer),
            output_chars=len(answer),
            model_calls=script.of_turn.model_calls,
            tool_calls=script.of_turn.tool_calls,
        )
    )
    snapshot_now(script)


def estimate(script: Script, which: Model, uncached: int, out: int) -> None:
    """What the work will cost, before it is handed out."""
    by_table = priced(which, tokens(uncached, out=out))
    script.tell(
        cost.CostEstimated(
            **by_table.model_dump(),
            provider_name=which.provider,
            model_name=which.name,
            estimated_cost_class="low",
            estimated_input_tokens=uncached,
            estimated_output_tokens=out,
            maximum_usd=round((by_table.cost_usd or 0.0) * 4, 6),
        )
    )
