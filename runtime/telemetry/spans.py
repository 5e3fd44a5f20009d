"""The spans of the runtime's work, with the names and attributes that other OpenTelemetry backends know."""

import logging
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from journal import Entry
from models.errors import JournalBusy, JournalUnwritable
from models.event import Correlation
from models.values import Usage
from runtime.telemetry.encoding import PREFIX, TRACES, encode_span, nanoseconds

__all__ = ["JournalSpanProcessor", "Span", "Spans", "answered", "current_ids", "failed"]

logger = logging.getLogger("tachograph.runtime.spans")


class JournalSpanProcessor(SpanProcessor):
    """Puts each finished span into the journal.

    It does not wait for the disk: work is not held up by its own description. Records are committed in order, so a
    span is durable as soon as any later fact is. One that cannot be written is logged and counted in `unwritten`.
    """

    def __init__(self, submit: Callable[[Entry], "Future[list[int]]"]) -> None:
        self._submit = submit
        self.unwritten = 0

    def on_end(self, span: ReadableSpan) -> None:
        """A span ended."""
        try:
            self._submit(Entry(TRACES, encode_span(span))).add_done_callback(self._settled)
        except (JournalBusy, JournalUnwritable) as problem:
            self._lost(problem)

    def _settled(self, stored: "Future[list[int]]") -> None:
        if (problem := stored.exception()) is not None:
            self._lost(problem)

    def _lost(self, problem: BaseException) -> None:
        self.unwritten += 1
        logger.error("a span is not recorded: %s", problem)


class Spans:
    """Opens a span for each piece of work; facts recorded inside it carry its ids."""

    def __init__(self, tracer: Tracer, clock: Callable[[], datetime]) -> None:
        self._tracer = tracer
        self._clock = clock

    @contextmanager
    def turn(self, ids: Correlation, *, agent_name: str = "tachograph") -> Iterator[Span]:
        """One cycle of submitted input."""
        told = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agent_name}
        with self._open(f"invoke_agent {agent_name}", ids, told) as span:
            yield span

    @contextmanager
    def task_run(self, ids: Correlation, *, attempt_index: int) -> Iterator[Span]:
        """One try at a task."""
        with self._open("task.run", ids, {PREFIX + "attempt_index": attempt_index}) as span:
            yield span

    @contextmanager
    def context_resolve(self, ids: Correlation) -> Iterator[Span]:
        """Selecting what the model gets to see."""
        with self._open("context.resolve", ids, {}) as span:
            yield span

    @contextmanager
    def model_request(
        self, ids: Correlation, *, provider: str, model: str, operation: str = "chat", streaming: bool = False
    ) -> Iterator[Span]:
        """One call to a model provider; `answered` adds what came back."""
        told = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": model,
            "gen_ai.request.stream": streaming,
        }
        with self._open(f"{operation} {model}", ids, told, SpanKind.CLIENT) as span:
            yield span

    @contextmanager
    def tool_call(self, ids: Correlation, *, tool_name: str, tool_type: str = "function") -> Iterator[Span]:
        """One call of a tool."""
        told = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool_name,
            "gen_ai.tool.type": tool_type,
            "gen_ai.tool.call.id": ids.tool_call_id,
        }
        with self._open(f"execute_tool {tool_name}", ids, told) as span:
            yield span

    @contextmanager
    def process(self, ids: Correlation, *, executable: str, cwd: str | None = None) -> Iterator[Span]:
        """One command, terminal or long-lived process; its arguments may hold secrets and are not told."""
        told = {"process.executable.name": executable, "process.working_directory": cwd}
        with self._open(f"process {executable}", ids, told) as span:
            yield span

    @contextmanager
    def hook_run(self, ids: Correlation, *, point: str, hook_name: str) -> Iterator[Span]:
        """One run of a hook."""
        told = {PREFIX + "hook_point": point, PREFIX + "hook_name": hook_name}
        with self._open(f"hook {hook_name}", ids, told) as span:
            yield span

    @contextmanager
    def artifact_write(self, ids: Correlation, *, path: str | None = None) -> Iterator[Span]:
        """Writing a deliverable."""
        with self._open("artifact.write", ids, {"file.path": path}) as span:
            yield span

    @contextmanager
    def evidence_export(self, ids: Correlation, *, evidence_kind: str) -> Iterator[Span]:
        """Exporting evidence."""
        with self._open("evidence.export", ids, {PREFIX + "evidence_kind": evidence_kind}) as span:
            yield span

    @contextmanager
    def _open(
        self, name: str, ids: Correlation, told: Mapping[str, Any], kind: SpanKind = SpanKind.INTERNAL
    ) -> Iterator[Span]:
        span = self._tracer.start_span(
            name, kind=kind, attributes=_told(ids, told), start_time=nanoseconds(self._clock())
        )
        try:
            with trace.use_span(span, end_on_exit=False, record_exception=True, set_status_on_exception=True):
                yield span
        finally:
            span.end(nanoseconds(self._clock()))


def current_ids() -> dict[str, str]:
    """The ids of the span that this is called in; of one that is not sampled they would lead nowhere, so none."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid or not context.trace_flags.sampled:
        return {}
    return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}


def _told(ids: Correlation, told: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a span: the identities in our names, the conversation in everyone's, and what is particular."""
    own = {
        PREFIX + name: value for name, value in ids if isinstance(value, str) and name not in ("trace_id", "span_id")
    }
    shared = {"gen_ai.conversation.id": ids.session_id}
    return {name: value for name, value in (own | shared | dict(told)).items() if value is not None}


def answered(span: Span, *, model: str | None, response_id: str | None, stop_reason: str, usage: Usage) -> None:
    """Add to a model request's span what came back; OTel counts cached input as part of the input."""
    parts = (usage.uncached_input_tokens, usage.cache_read_tokens, usage.cache_write_tokens)
    values: dict[str, Any] = {
        "gen_ai.response.model": model,
        "gen_ai.response.id": response_id,
        "gen_ai.response.finish_reasons": (stop_reason,),
        "gen_ai.usage.input_tokens": sum(part or 0 for part in parts)
        if usage.uncached_input_tokens is not None
        else None,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
    }
    span.set_attributes({name: value for name, value in values.items() if value is not None})


def failed(span: Span, category: str, message: str) -> None:
    """Mark a span whose work failed without raising an exception here."""
    span.set_attribute("error.type", category)
    span.set_status(Status(StatusCode.ERROR, message))
