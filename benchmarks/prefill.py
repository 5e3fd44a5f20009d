"""A home that already holds ten million events, made once and kept in a cache folder, for rates and reads at that size.

What is in it is made as the index makes it, only faster than it could be sent. A stretch of three hours of small agent
runs (80 sessions of 10 traces, each trace one agent with 34 model calls and 15 tool calls, sessions overlapping in
time, rows in the order in which the spans ended) is encoded as OTLP, decoded and translated once. The resulting frames
are appended 250 times through `Store.append`, each time with other ids, sessions and times, so that they fill 30 days
one after the other. Dedupe, roll-ups and checkpoints run as in the index. The journal is left out: it plays no part in
what is measured, and the position in the index stays at 0, before the first record of a new journal.
"""

import hashlib
import multiprocessing
import os
import random
import shutil
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.load import MODELS
from collector.loader import prepare
from collector.memory import ALLOCATOR
from collector.repricing import Repricer
from journal import Record
from store import Layout, Store, schema

SESSIONS, TRACES, SPANS_PER_TRACE, MODEL_CALLS = 80, 10, 50, 34
STRETCHES = 250
EVENTS = STRETCHES * SESSIONS * TRACES * SPANS_PER_TRACE
DAYS = 30
STRETCH_NS = DAYS * 86_400 * 10**9 // STRETCHES
PER_REQUEST = 512
MARK = "beefcafe"
"""Stands in every id of the stretch where its number will be. Before it stands something without order, as in the ids
that clients make: were they in the order of time, the zone maps of the tables would find them without a time range."""

TOOLS = ("shell", "read_file", "edit_file", "search")


def prefilled(folder: Path, name: str = "home") -> Path:
    """A copy of the filled home; the first call makes the original, which takes some minutes."""
    home = folder / name
    shutil.copytree(_original(), home)
    os.sync()  # else the copy is written to disk while something is measured
    return home


def end_ns() -> int:
    """When the last stored event happened, about."""
    return int((_original() / "end_ns").read_text())


def _original() -> Path:
    """Where the filled home is kept; another one is made when this module or the tables change."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    sources = Path(__file__).read_bytes() + Path(schema.__file__).read_bytes()
    home = caches / "tachograph-benchmarks" / hashlib.sha256(sources).hexdigest()[:12]
    if not home.exists():
        _make(home)
    return home


def _make(home: Path) -> None:
    work = home.with_name(home.name + ".making")
    shutil.rmtree(work, ignore_errors=True)
    Layout(work).database.parent.mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    print(f"filling {EVENTS:,} events into {home}, once", flush=True)
    with ALLOCATOR.applied():
        process = context.Process(target=_fill, args=(theirs, work))
        process.start()
    theirs.close()
    seconds = float(ours.recv())
    process.join()
    Layout(work).lock.unlink(missing_ok=True)
    work.rename(home)
    print(f"filled in {seconds:.0f} s, {EVENTS / seconds:,.0f} events/s", flush=True)


def _fill(pipe: Connection, home: Path) -> None:
    started = time.monotonic()
    end = time.time_ns() // 10**9 * 10**9
    records, events = _stretch()
    with Store.open(home) as store:
        for number in range(STRETCHES):
            moved_ns = end - (STRETCHES - number) * STRETCH_NS
            store.append(
                _moved(records, number, moved_ns).to_arrow().cast(schema.arrow_schema(schema.RECORDS)),
                _moved(events, number, moved_ns),
                0,
            )
        pricing = Repricer(store)
        while pricing.step():  # as a loader leaves it: the file says by what it is priced
            pass
    (home / "end_ns").write_text(str(end))
    pipe.send(time.monotonic() - started)


def _moved(frame: pl.DataFrame, number: int, moved_ns: int) -> pl.DataFrame:
    """The stretch again, with ids of its own, so much later."""
    marked = [
        name
        for name, dtype in frame.schema.items()
        if dtype == pl.String and frame[name].str.contains(MARK, literal=True).any()
    ]
    nanos = [name for name in ("time_ns", "end_ns") if name in frame.columns]
    times = [name for name, dtype in frame.schema.items() if dtype == pl.Datetime("us")]
    return frame.with_columns(
        pl.col(marked).str.replace_all(MARK, f"{number:08x}", literal=True),
        pl.col(nanos) + moved_ns,
        pl.col(times) + pl.duration(microseconds=moved_ns // 1000),
    )


def _stretch() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Records and events of one stretch that begins in 1970."""
    spans = sorted(_spans(random.Random(1)), key=lambda span: span.end_time_unix_nano)
    entries = []
    for first in range(0, len(spans), PER_REQUEST):
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = "small-agent"
        resource.scope_spans.add().spans.extend(spans[first : first + PER_REQUEST])
        received_ns = spans[min(first + PER_REQUEST, len(spans)) - 1].end_time_unix_nano + 10**9
        body = request.SerializeToString()
        entries.append(Record(0, "otlp.traces", received_ns, PER_REQUEST, {"content": "protobuf"}, body))
    prepared = prepare(entries, 0)
    assert not prepared.undecoded
    records = pl.DataFrame(pl.from_arrow(pa.table(prepared.records)))
    return records, prepared.events


def _spans(source: random.Random) -> list[Any]:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for session in range(SESSIONS):
        length_ns = source.randrange(1_200, 3_600) * 10**9
        begin_ns = source.randrange(10**9, STRETCH_NS - length_ns)
        for trace in range(TRACES):
            first_ns = begin_ns + length_ns * trace // TRACES
            _trace(spans, source, session, session * TRACES + trace, (first_ns, length_ns // TRACES * 9 // 10))
    return list(spans)


def _trace(spans: Any, source: random.Random, session: int, trace: int, when: tuple[int, int]) -> None:
    """One agent run: its root, then model and tool calls one after the other."""
    first_ns, length_ns = when
    step_ns = length_ns // SPANS_PER_TRACE
    model = source.choice(MODELS)
    for place in range(SPANS_PER_TRACE):
        number = trace * SPANS_PER_TRACE + place
        span = spans.add(name="", kind=3)
        span.trace_id = _scattered(trace) * 3 + bytes.fromhex(MARK)
        span.span_id = _scattered(number) + bytes.fromhex(MARK)
        span.start_time_unix_nano = first_ns + step_ns * place
        span.end_time_unix_nano = span.start_time_unix_nano + source.randrange(step_ns // 10, step_ns)
        attributes: dict[str, str | int] = {"gen_ai.conversation.id": f"{_scattered(session).hex()}-{MARK}"}
        if place == 0:
            span.end_time_unix_nano = first_ns + length_ns
            attributes |= {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "small-agent"}
        else:
            span.parent_span_id = _scattered(trace * SPANS_PER_TRACE) + bytes.fromhex(MARK)
            attributes |= _call(source, model, number) if place <= MODEL_CALLS else _tool(source, number)
        span.name = str(attributes["gen_ai.operation.name"])
        for key, value in attributes.items():
            target = span.attributes.add(key=key).value
            setattr(target, "int_value" if isinstance(value, int) else "string_value", value)


def _scattered(number: int) -> bytes:
    """Four bytes, others for every number, in no order."""
    return (number * 2_654_435_761 % 2**32).to_bytes(4, "big")


def _call(source: random.Random, model: str, number: int) -> dict[str, str | int]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.model": model,
        "gen_ai.response.id": f"resp-{_scattered(number).hex()}-{MARK}",
        "gen_ai.usage.input_tokens": source.randrange(100, 4000),
        "gen_ai.usage.output_tokens": source.randrange(10, 900),
    }


def _tool(source: random.Random, number: int) -> dict[str, str | int]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": source.choice(TOOLS),
        "gen_ai.tool.call.id": f"call-{_scattered(number).hex()}-{MARK}",
    }
