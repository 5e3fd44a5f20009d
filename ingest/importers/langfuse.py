"""Langfuse exports: traces with their observations, as JSON documents or lines."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingest.file_lines import FileLine
from ingest.importers.importer import Problem
from ingest.importers.json_text import moment_ns, table, text_of
from ingest.importers.transcript import About, DocumentTranscript, LineTranscript, Memory, Reading, add_part

MARK = re.compile(rb'"(?:parentObservationId|traceId)"\s*:|"trace"\s*:\s*\{.*"projectId"\s*:', re.DOTALL)
KINDS = re.compile(rb'"type"\s*:\s*"(?:GENERATION|SPAN|EVENT|AGENT|TOOL|CHAIN|RETRIEVER|EMBEDDING)"')
KNOWN = frozenset(
    {"trace", "generation", "span", "event", "agent", "tool", "chain", "retriever", "embedding", "evaluator"}
    | {"guardrail"}
)
HEX = re.compile(r"[0-9a-f]+")


class LangfuseMemory(Memory):
    """The trace that observations belong to, and which of them have model calls below them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.trace: dict[str, Any] = {}
        self.above: set[str] = set()
        self.tools_told = False
        """Whether tools have observations of their own, so that the models' requests for them tell nothing new."""

    def note(self, value: dict[str, Any]) -> About:
        """A trace, or an observation in it."""
        observation = "type" in value and ("traceId" in value or "startTime" in value)
        trace_id = text_of(value.get("traceId" if observation else "id")) or text_of(self.trace.get("id"))
        span_id = text_of(value.get("id")) if observation else None
        session = text_of(value.get("sessionId")) or text_of(self.trace.get("sessionId"))
        ids = {"trace_id": trace_id, "span_id": span_id, "parent_span_id": value.get("parentObservationId")}
        begun = value.get("startTime") or value.get("timestamp")
        return About(
            name=str(value["type"]).lower() if observation else "trace",
            session=session,
            key=f"{trace_id}:{span_id}" if trace_id else None,
            time_ns=moment_ns(begun),
            end_ns=moment_ns(value.get("endTime")),
            place={name: told for name, told in ids.items() if isinstance(told, str) and HEX.fullmatch(told)},
            context=({"repeats": True} if span_id in self.above else {})
            | ({"tools_told": True} if self.tools_told else {}),
        )


class LangfuseExport(DocumentTranscript, name="Langfuse export"):
    """One trace, or a list of them, with their observations."""

    format = "langfuse"
    known = KNOWN
    memory = LangfuseMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By the names of its ids."""
        return path.name.endswith(".json") and head.lstrip()[:1] in (b"{", b"[") and MARK.search(head) is not None

    def taken_apart(self, path: Path, value: Any) -> Iterator[FileLine | Problem]:
        """Each trace, then its observations."""
        memory = LangfuseMemory(path)
        reading = Reading(path, memory)
        number = 0
        for trace, observations in traces(value):
            memory.trace, memory.above = trace, callers(observations)
            memory.tools_told = any(each.get("type") == "TOOL" for each in observations)
            rest = {key: told for key, told in trace.items() if key != "observations"}
            for part in ([rest] if rest else []) + observations:
                number += 1
                yield from add_part(reading, path, number, part)
        yield from reading.finish()


def traces(value: Any) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Traces with their observations, however the export nests them; observations alone have a trace each."""
    documents = value if isinstance(value, list) else table(value).get("data") or [value]
    for document in documents:
        whole = table(document)
        trace = table(whole.get("trace")) or ({} if "traceId" in whole else whole)
        found = whole.get("observations") or trace.get("observations") or ([whole] if "traceId" in whole else [])
        yield trace, [observation for observation in found if isinstance(observation, dict)]


def callers(observations: list[dict[str, Any]]) -> set[str]:
    """Observations above a generation: a generation among them repeats what is told below it."""
    parents = {text_of(each.get("id")): text_of(each.get("parentObservationId")) for each in observations}
    above: set[str] = set()
    for each in observations:
        parent = text_of(each.get("parentObservationId")) if each.get("type") == "GENERATION" else None
        while parent and parent not in above:
            above.add(parent)
            parent = parents.get(parent)
    return above


class LangfuseLines(LineTranscript, name="Langfuse export (lines)"):
    """Observations or traces, one per line."""

    format = "langfuse"
    known = KNOWN
    memory = LangfuseMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By the names of its ids and kinds."""
        found = MARK.search(head) is not None and KINDS.search(head) is not None
        return ".jsonl" in path.name and head.lstrip()[:1] == b"{" and found
