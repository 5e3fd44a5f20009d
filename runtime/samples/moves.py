"""What a coding agent does over and over: ask a model, call a tool, run a command, wait for a human."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import genai_prices

from models.governance_values import PermissionDecision, SandboxProfile
from models.payloads import action, cost, hook, model, permission, process, reasoning, sandbox, tool
from models.values import Cost, OutputRef, Price, Usage
from runtime.samples.script import Meter, Script, blob, digest
from runtime.telemetry.spans import answered, failed

CWD = "/home/dev/ledgerd"
PRICES = f"genai-prices {genai_prices.__version__}"


@dataclass(frozen=True)
class Model:
    """A model as its provider names it."""

    provider: str
    name: str


SONNET = Model("anthropic", "claude-sonnet-4-5")
HAIKU = Model("anthropic", "claude-haiku-4-5")
GPT = Model("openai", "gpt-5")


def priced(which: Model, usage: Usage) -> Cost:
    """What a call costs by the public price table."""
    parts = (usage.uncached_input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    counts = genai_prices.Usage(
        input_tokens=sum(part or 0 for part in parts),
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    found = genai_prices.calc_price(counts, model_ref=which.name, provider_id=which.provider)
    entry = f"{found.provider.id}/{found.model.id}"
    return Cost(cost_usd=float(found.total_price), cost_state="priced", price=Price(entry=entry, table_version=PRICES))


@dataclass(frozen=True)
class Answer:
    """What a model says in one call, and what that took."""

    usage: Usage
    seconds: float
    text: tuple[str, ...] = ()
    thinking: tuple[str, ...] = ()
    tool_calls: int = 0


def tokens(uncached: int, read: int = 0, write: int = 0, out: int = 0, thought: int = 0) -> Usage:
    """Usage, in the order the prices are listed."""
    return Usage(
        uncached_input_tokens=uncached,
        cache_read_tokens=read,
        cache_write_tokens=write,
        output_tokens=out,
        reasoning_tokens=thought,
    )


def ask(script: Script, which: Model, answer: Answer, *, attempt_index: int = 1) -> None:
    """One call of a model that goes well."""
    request_id = script.name("req")
    named = {"provider_name": which.provider, "model_name": which.name}
    with (
        script.within(model_request_id=request_id, step_id=script.name("step")),
        script.spans.model_request(script.ids, provider=which.provider, model=which.name, streaming=True) as span,
    ):
        begun = script.now
        script.tell(
            model.ModelRequested(
                **named,
                operation="chat",
                request_ref=blob(f"request {request_id}"),
                message_count=4 + len(script.events) // 12,
                tool_count=11,
                streaming=True,
                parameters={"max_tokens": 16000},
                attempt_index=attempt_index,
                status="running",
            )
        )
        first_ms = script.wait(answer.seconds * 250)
        _think(script, answer)
        share_ms = answer.seconds * 700 / max(len(answer.text), 1)
        for index, piece in enumerate(answer.text):
            script.wait(share_ms)
            script.tell(model.ModelDelta(text=piece, kind="text", index=index, content_index=0, chars=len(piece)))
        if not answer.text:
            script.wait(share_ms)
        _completed(script, which, answer, begun_ms=script.since(begun), first_ms=first_ms)
        answered(
            span,
            model=which.name,
            response_id=f"msg_{request_id[4:]}",
            stop_reason=_stop_reason(which, answer),
            usage=answer.usage,
        )


def _think(script: Script, answer: Answer) -> None:
    for index, piece in enumerate(answer.thinking):
        script.wait(300)
        script.tell(reasoning.ReasoningDelta(text=piece, index=index, chars=len(piece), redacted=False))
    if answer.thinking:
        whole = "".join(answer.thinking)
        script.tell(
            reasoning.ReasoningSummary(
                summary_preview=answer.thinking[-1],
                summary_ref=blob(whole),
                chars=len(whole),
                reasoning_tokens=answer.usage.reasoning_tokens,
            )
        )


def _stop_reason(which: Model, answer: Answer) -> str:
    if which.provider == "openai":
        return "tool_calls" if answer.tool_calls else "stop"
    return "tool_use" if answer.tool_calls else "end_turn"


def _completed(script: Script, which: Model, answer: Answer, *, begun_ms: float, first_ms: float) -> None:
    named = {"provider_name": which.provider, "model_name": which.name}
    whole = "".join(answer.text)
    paid = priced(which, answer.usage)
    script.tell(
        model.ModelCompleted(
            **named,
            response_id=f"msg_{(script.ids.model_request_id or '')[4:]}",
            stop_reason=_stop_reason(which, answer),
            usage=answer.usage,
            cost=paid,
            duration_ms=begun_ms,
            time_to_first_token_ms=first_ms,
            output_ref=blob(whole) if whole else None,
            output_chars=len(whole),
            tool_call_count=answer.tool_calls,
            status="completed",
        )
    )
    script.spend(answer.usage, paid.cost_usd or 0.0)


def ask_in_vain(script: Script, which: Model, failure: model.ModelFailed) -> None:
    """One call of a model that fails."""
    request_id = script.name("req")
    with (
        script.within(model_request_id=request_id, step_id=script.name("step")),
        script.spans.model_request(script.ids, provider=which.provider, model=which.name, streaming=True) as span,
    ):
        begun = script.now
        script.tell(
            model.ModelRequested(
                provider_name=which.provider,
                model_name=which.name,
                operation="chat",
                request_ref=blob(f"request {request_id}"),
                streaming=True,
                attempt_index=1,
                status="running",
            )
        )
        script.wait(900)
        named = {"provider_name": which.provider, "model_name": which.name, "duration_ms": script.since(begun)}
        script.tell(failure.model_copy(update=named))
        failed(span, failure.failure_category or "unknown", failure.message or "")


@contextmanager
def tool_call(
    script: Script, name: str, arguments: dict[str, str | int | bool], *, reads: bool = True
) -> Iterator[None]:
    """A call of a tool, up to its arguments; what comes of it is told inside."""
    call_id = script.name("call")
    script.of_turn.tool_calls += 1
    text = str(sorted(arguments.items()))
    with (
        script.within(step_id=script.name("step"), tool_call_id=call_id),
        script.spans.tool_call(script.ids, tool_name=name),
    ):
        kind = "command_execution" if name == "shell" else "function_call"
        script.tell(
            tool.ToolStarted(
                tool_name=name,
                tool_call_id=call_id,
                item_kind=kind,
                runtime_owner="local",
                input_ref=blob(text),
                is_read_only=reads,
                is_destructive=False,
                status="running",
            )
        )
        preview = ", ".join(f"{key}={value}" for key, value in arguments.items())
        size = len(text.encode())
        script.tell(
            tool.ToolArgs(tool_name=name, arguments=arguments, preview=preview, size_bytes=size, redacted=False)
        )
        yield


def result(script: Script, name: str, output: str, milliseconds: float, *, success: bool = True) -> None:
    """What a tool gives back."""
    passed = script.wait(milliseconds)
    script.tell(
        tool.ToolResult(
            tool_name=name,
            tool_call_id=script.ids.tool_call_id,
            success=success,
            duration_ms=passed,
            result_ref=blob(output),
            preview=output[:160],
            output_chars=len(output),
            size_bytes=len(output.encode()),
            truncated=False,
            status="completed",
        )
    )


def use(script: Script, name: str, arguments: dict[str, str | int | bool], output: str, milliseconds: float) -> None:
    """A whole call of a tool that reads something."""
    with tool_call(script, name, arguments):
        result(script, name, output, milliseconds)


def boundary(script: Script, *, network: str = "blocked") -> SandboxProfile:
    """Apply the boundary that commands run in."""
    profile = SandboxProfile(
        mode="workspace_write",
        cwd=CWD,
        read_roots=("/usr", "/etc/ssl", CWD),
        write_roots=(CWD, "/tmp/ledgerd"),  # noqa: S108 - a path of the story
        network=network,
        process_limits={"cpu_s": 300, "memory_mb": 2048, "open_files": 512},
    )
    script.tell(sandbox.SandboxApplied(**profile.model_dump(), mechanism="bubblewrap", enforced=True, status="running"))
    return profile


@dataclass(frozen=True)
class Command:
    """A command and what it prints."""

    line: str
    stdout: tuple[str, ...]
    stderr: str = ""
    exit_code: int = 0
    seconds: float = 2.0


def run(script: Script, command: Command, profile: SandboxProfile) -> None:
    """A command that runs to its end."""
    executable, pid = command.line.split()[0], script.random.randrange(20_000, 60_000)
    with (
        script.within(process_id=script.name("proc")),
        script.spans.process(script.ids, executable=executable, cwd=CWD) as span,
    ):
        begun, offset = script.now, 0
        script.tell(
            process.ProcessStarted(  # noqa: S604 - a fact about a shell; nothing is run
                pid=pid,
                process_kind="command",
                command_summary=command.line,
                subcommands=(command.line,),
                destructive=False,
                cwd=CWD,
                shell="/bin/bash",
                timeout_ms=120_000,
                sandbox=profile,
                status="running",
            )
        )
        for piece in command.stdout:
            script.wait(command.seconds * 1000 / len(command.stdout))
            size = len(piece.encode())
            script.tell(
                process.ProcessOutput(
                    pid=pid, stream="stdout", preview=piece[:200], offset_bytes=offset, size_bytes=size, truncated=False
                )
            )
            offset += size
        script.tell(_exited(command, pid, script.since(begun), offset))
        span.set_attribute("process.exit.code", command.exit_code)


def _exited(command: Command, pid: int, duration_ms: float, size: int) -> process.ProcessCompleted:
    printed = "".join(command.stdout)
    stored = OutputRef(ref=blob(printed), media_type="text/plain", size_bytes=size, sha256=digest(printed))
    return process.ProcessCompleted(
        pid=pid,
        exit_code=command.exit_code,
        duration_ms=duration_ms,
        stdout_ref=blob(printed),
        stdout_bytes=size,
        stderr_ref=blob(command.stderr) if command.stderr else None,
        stderr_bytes=len(command.stderr.encode()),
        output_refs=(stored,),
        status="completed",
    )


def weigh(script: Script, line: str, verdict: PermissionDecision) -> None:
    """What rules and mode say about a command."""
    script.tell(
        permission.PermissionEvaluated(
            **verdict.model_dump(),
            subject_kind="process",
            tool_name="shell",
            command_summary=line,
            subcommands=(line,),
            path_check="inside the workspace",
            network_decision="blocked",
        )
    )


def consent(script: Script, line: str, *, answer: str = "allow_once", seconds: float = 6.0) -> str:
    """Ask the human and wait for the answer; gives the name of the action."""
    action_id = script.name("act")
    with script.within(action_id=action_id):
        script.tell(
            permission.PermissionRequested(
                subject_kind="process",
                tool_name="shell",
                command_summary=line,
                justification="The failing test has to be run to see its output.",
                approval_action_id=action_id,
                prompt=f"Run `{line}` in {CWD}?",
                decisions=("allow_once", "allow_for_session", "deny"),
                destructive=False,
                impact_scope="workspace",
                expires_at=script.later(300),
                status="pending",
            )
        )
        script.tell(
            action.ActionRequired(
                action_id=action_id,
                action_type="permission",
                decision_kind="user",
                prompt=f"Run `{line}`?",
                decisions=("allow_once", "allow_for_session", "deny"),
                default_decision="deny",
                expires_at=script.later(300),
                status="waiting_permission",
            )
        )
        waited = script.wait(seconds * 1000)
        allowed = answer.startswith("allow")
        script.tell(
            action.ActionResolved(
                action_id=action_id,
                decision=answer,
                confirmed=allowed,
                decided_by="user",
                wait_ms=waited,
                status="resolved",
            )
        )
        script.tell(
            permission.PermissionResolved(
                outcome="allowed" if allowed else "denied",
                decision="allow" if allowed else "deny",
                decision_source="human",
                approval_action_id=action_id,
                wait_ms=waited,
                status="resolved",
            )
        )
    return action_id


def hooked(script: Script, point: str, name: str, *, reason: str, milliseconds: float = 60.0) -> None:
    """A run of a hook that lets the work go on."""
    hook_id, handler = script.name("hook"), f"{CWD}/.agent/hooks/{name}"
    with script.spans.hook_run(script.ids, point=point, hook_name=name):
        script.tell(
            hook.HookStarted(
                hook_id=hook_id, hook_name=name, point=point, handler_ref=handler, timeout_ms=5000, cwd=CWD
            )
        )
        passed = script.wait(milliseconds)
        script.tell(
            hook.HookCompleted(
                hook_id=hook_id,
                hook_name=name,
                point=point,
                handler_ref=handler,
                decision="continue",
                reason=reason,
                exit_code=0,
                duration_ms=passed,
                status="completed",
            )
        )


def bill(script: Script, scope: str, meter: Meter) -> None:
    """What something cost in all."""
    script.tell(
        cost.CostRecorded(
            cost_usd=meter.cost_usd, cost_state="priced", usage=meter.usage, scope=scope, source="price table"
        )
    )
