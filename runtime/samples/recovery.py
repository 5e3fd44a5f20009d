"""The fourth turn: a server is started, the editor goes away, the runtime itself stumbles and finds its way back."""

from opentelemetry import trace
from opentelemetry.trace import Span

from models.payloads import channel, history, process, snapshot, task, task_graph
from models.payloads.runtime_fault import RuntimeErred
from models.task_values import Worker
from runtime.samples.moves import CWD, SONNET, Answer, ask, boundary, tokens, tool_call
from runtime.samples.moves import result as returned
from runtime.samples.opening import end_turn, hand_out, one_turn
from runtime.samples.script import Script, blob

QUESTION = "Start the service locally with the fix and watch it for a while."
SERVER = "uvicorn ledgerd.app:app --port 8090"
SUMMARY = "The service ran for a while without a retry above the cap. It was stopped when the runtime restarted."


def recovery_turn(script: Script) -> None:
    """The whole turn."""
    with one_turn(script, QUESTION):
        begun = script.now
        text = ("Starting the service in the background; ", "I'll send it a few failing calls.")
        ask(script, SONNET, Answer(tokens(980, read=21_670, write=640, out=188), 2.1, text=text, tool_calls=1))
        server = script.name("proc")
        _no_container(script)
        with script.within(process_id=server), script.spans.process(script.ids, executable="uvicorn", cwd=CWD) as life:
            _serve(script, life)
            _away_and_back(script)
            _stumble(script, server)
            script.tell(
                process.ProcessTerminated(
                    pid=48_211,
                    cause="shutdown",
                    reason="The runtime restarted and no longer owns it.",
                    signal="SIGTERM",
                    exit_code=0,
                    duration_ms=script.since(begun),
                    status="cancelled",
                )
            )
        _roll_back(script)
        end_turn(script, SUMMARY, script.since(begun))


def _no_container(script: Script) -> None:
    """The first way to start the service does not exist here."""
    with tool_call(script, "shell", {"command": "docker compose up ledgerd"}, reads=False):
        with (
            script.within(process_id=script.name("proc")),
            script.spans.process(script.ids, executable="docker", cwd=CWD),
        ):
            passed = script.wait(40)
            script.tell(
                process.ProcessFailed(
                    failure_kind="spawn",
                    failure_category="not_found",
                    message="docker is not installed.",
                    error_code="ENOENT",
                    retryable=False,
                    duration_ms=passed,
                    status="failed",
                )
            )
        returned(script, "shell", "docker: command not found", 5, success=False)


def _serve(script: Script, life: Span) -> None:
    """A call starts the server and returns; what the server does belongs to its own span, which goes on."""
    with tool_call(script, "shell", {"command": SERVER, "background": True}, reads=False):
        profile = boundary(script, network="loopback")
        with trace.use_span(life):
            script.tell(
                process.ProcessStarted(  # noqa: S604 - a fact about a shell; nothing is run
                    pid=48_211,
                    process_kind="long_lived",
                    command_summary=SERVER,
                    cwd=CWD,
                    shell="/bin/bash",
                    sandbox=profile,
                    status="running",
                )
            )
            line = "INFO:     Uvicorn running on http://127.0.0.1:8090 (Press CTRL+C to quit)\n"
            script.wait(1_400)
            script.tell(
                process.ProcessOutput(pid=48_211, stream="stderr", preview=line, offset_bytes=0, size_bytes=len(line))
            )
            script.tell(
                process.ProcessInput(pid=48_211, preview="reload\\n", size_bytes=7, source="model", closed=False)
            )
        returned(script, "shell", line, 60)


def _away_and_back(script: Script) -> None:
    """The editor loses its connection; a phone answers the open question, the editor comes back and catches up."""
    action_id = script.name("act")
    editor = script.events[0].channel_id
    with script.within(channel_id=editor):
        script.tell(
            channel.ChannelDisconnected(
                transport="websocket",
                peer_role="client",
                cause="heartbeat",
                last_seen_at=script.now,
                last_acked_sequence=script.events[-1].sequence,
                undelivered=0,
                resumable=True,
                status="disconnected",
            )
        )
    with script.within(channel_id=script.name("chan"), action_id=action_id):
        phone = {"transport": "sse", "peer_role": "client", "peer_id": "phone-7"}
        script.tell(channel.ChannelConnected(**phone, capabilities=("permission_prompt",), status="connected"))
        script.tell(
            channel.ChannelPermissionForwarded(
                **phone,
                request_ref=blob("keep the server running?"),
                subject="keep the server running",
                expires_at=script.later(120),
            )
        )
        waited = script.wait(11_000)
        script.tell(
            channel.ChannelPermissionReturned(**phone, decision="allow_once", decided_by="user", wait_ms=waited)
        )
        script.tell(
            channel.ChannelMessage(
                **phone, direction="in", message_kind="notification/ack", size_bytes=64, delivery_mechanism="push"
            )
        )
    with script.within(channel_id=editor):
        missed = 4
        script.tell(
            channel.ChannelResumed(
                transport="websocket",
                peer_role="client",
                resume_mode="replay",
                from_sequence=(script.events[-1].sequence or missed) - missed,
                replayed=missed,
                gap=False,
                remote_state="running",
                down_ms=round(waited + 240, 3),
                status="connected",
            )
        )


def _stumble(script: Script, server: str) -> None:
    """The runtime ends by a fault and starts anew: what it can prove, it restores."""
    worker = Worker(worker_id="local-2", kind="local", name="watcher", last_seen_at=script.now)
    with script.within(task_id=script.name("task"), run_id=script.name("run")):
        hand_out(script, title="Watch the service", objective="Report retries above the cap", kind="monitoring")
        script.tell(task.TaskQueued(position=0, reason="waits for a worker", status="queued"))
        script.tell(task_graph.TaskAttemptStarted(attempt_index=1, cause="first", worker=worker, status="preparing"))
        script.tell(task.TaskStarted(attempt_index=1, worker=worker, status="running"))
        script.wait(7_000)
        script.tell(
            RuntimeErred(
                code="runtime.crashed",
                message="The worker pool ended unexpectedly.",
                component="scheduler",
                failure_category="crash",
                fatal=False,
                retryable=True,
            )
        )
        passed = script.wait(1_300)
        sequence = script.events[-1].sequence
        script.tell(
            history.HistoryReconstructed(
                source="the event log",
                event_count=sequence,
                up_to_sequence=sequence,
                alive_processes=(server,),
                unresolved_actions=(),
                degraded=False,
                duration_ms=passed,
                status="stale",
            )
        )
        script.tell(
            snapshot.SnapshotRepaired(
                read_model="task_snapshot",
                reason="The worker's last report is missing.",
                corrections={"status": "lost"},
                degraded=False,
                status="completed",
            )
        )
        script.tell(
            task.TaskLost(worker=worker, last_seen_at=worker.last_seen_at, reason="no heartbeat", status="lost")
        )
        message = "Its worker is gone."
        script.tell(task.TaskFailed(failure_category="worker_lost", message=message, attempts=1, status="failed"))
        script.tell(task.TaskArchived(reason="ended", final_status="failed", last_phase="working", status="archived"))


def _roll_back(script: Script) -> None:
    """The half-finished step is taken back."""
    rollback = {"rollback_id": script.name("rollback"), "target": script.events[-1].event_id}
    reason = "The step that started the watcher did not end."
    script.tell(history.HistoryRollbackStarted(**rollback, reason=reason, requested_by="runtime"))
    passed = script.wait(180)
    script.tell(
        history.HistoryRollbackCompleted(
            **rollback,
            reason=reason,
            removed_turns=(),
            surviving_baseline="checkpoint 1",
            repair="The service has to be started again by hand.",
            degraded=False,
            duration_ms=passed,
            status="completed",
        )
    )
