"""Lines of files on their way through the journal: packed by importers, checked, and read into records."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

import orjson
import pyarrow as pa

from ingest.batch import Batch
from ingest.otlp.check import Checked
from ingest.otlp.masking import Redactor, mask_json
from store.schema import RECORDS, arrow_schema

KIND = "file"
"""The kind of a journal record that holds lines of one file."""

SESSION = "session.id"
PLACE = ("trace_id", "span_id", "parent_span_id")
ID_BYTES = 16
LAST_NS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FileLine:
    """One line (or part) of a file, and what its importer knows about it from the lines before."""

    number: int
    body: bytes
    """A JSON object, as it stands in the file."""

    name: str | None = None
    """What the file calls this kind of line."""

    session: str | None = None
    key: str | None = None
    """The file's own id of the line, where it has one: a copy of it in another file is then the same record."""

    occurrence: int = 0
    """How many equal lines came before it in the same file."""

    time_ns: int | None = None
    end_ns: int | None = None
    near_ns: int | None = None
    """For a line without a time, the time of the line before it."""

    place: dict[str, str] = field(default_factory=dict)
    """`trace_id`, `span_id` and `parent_span_id`, where recorded."""

    context: dict[str, Any] = field(default_factory=dict)
    """What earlier lines say that this one depends on."""


def pack(lines: Iterable[FileLine]) -> bytes:
    """Lines as one body: each what is known about it, a tab, and the line."""
    return b"\n".join(orjson.dumps(_head(line)) + b"\t" + line.body for line in lines)


def _head(line: FileLine) -> dict[str, Any]:
    told = {
        "line": line.number,
        "name": line.name,
        "session": line.session,
        "key": line.key,
        "occurrence": line.occurrence or None,
        "time_ns": line.time_ns,
        "end_ns": line.end_ns,
        "near_ns": line.near_ns,
        "place": line.place or None,
        "context": line.context or None,
    }
    return {name: value for name, value in told.items() if value is not None}


def check_packed(body: bytes, redactor: Redactor | None) -> Checked:
    """A packed body with the secrets in its lines masked."""
    items = body.count(b"\n") + 1 if body else 0
    if redactor is None or not redactor.suspects(body):
        return Checked(body, items)
    found: Counter[str] = Counter()
    lines = [_masked(line, redactor, found) for line in body.split(b"\n")]
    return Checked(b"\n".join(lines) if found else body, items, redactions=dict(found))


def _masked(line: bytes, redactor: Redactor, found: Counter[str]) -> bytes:
    if not redactor.suspects(line):
        return line
    before = found.total()
    head, _, text = line.partition(b"\t")
    # What the importer noted about a line is taken from lines, so it may repeat a secret.
    masked = [orjson.dumps(mask_json(orjson.loads(part), redactor, found)) for part in (head, text)]
    return b"\t".join(masked) if found.total() > before else line


def decode_packed(body: bytes, meta: dict[str, object], *, journal_position: int, received: datetime) -> Batch:
    """The records of a packed body; `meta` tells the file, its format and the client that wrote it."""
    moment = received.astimezone(UTC).replace(tzinfo=None)
    service = meta.get("service")
    shared = {
        "signal": "file",
        "received": moment,
        "time": moment,
        "journal_position": journal_position,
        "service_name": service,
        "resource": orjson.dumps({"service.name": service}).decode() if service else "{}",
    }
    rows = [shared | row | {"ordinal": place} for place, row in enumerate(_rows(body, meta))]
    columns = {column.name: [row.get(column.name) for row in rows] for column in RECORDS}
    return Batch.of_table(pa.Table.from_pydict(columns, schema=arrow_schema(RECORDS)))


def _rows(body: bytes, meta: dict[str, object]) -> Iterator[dict[str, Any]]:
    file = {"file.format": meta["format"], "file.path": meta["file"]}
    for packed in body.split(b"\n"):
        head, _, text = packed.partition(b"\t")
        told = orjson.loads(head)
        session = told.get("session")
        attributes = {**file, "file.line": told["line"]}
        if session is not None:
            attributes[SESSION] = session
        attributes |= {f"file.{name}": value for name, value in told.get("context", {}).items()}
        yield {
            "record_id": _record_id(str(meta["format"]), session or str(meta["name"]), told, text),
            "name": told.get("name"),
            "session_key": session,
            "attributes": orjson.dumps(attributes).decode(),
            "body": text.decode(),
            **_times(told),
            **told.get("place", {}),
        }


def _record_id(format_name: str, owner: str, told: dict[str, Any], text: bytes) -> str:
    """From the line's own id, else from its session (or file name) and content, however often and wherever it lies."""
    content = ["", told["key"]] if "key" in told else [owner, text.hex() if len(text) < 64 else _digest(text)]
    named = orjson.dumps([format_name, told.get("name"), *content, told.get("occurrence", 0)])
    return f"file:{_digest(named)}"


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=ID_BYTES).hexdigest()


def _times(told: dict[str, Any]) -> dict[str, Any]:
    time_ns, near_ns, end_ns = told.get("time_ns"), told.get("near_ns"), told.get("end_ns")
    found: dict[str, Any] = {"time_ns": time_ns, "observed_ns": near_ns, "end_ns": end_ns}
    if (known := time_ns if time_ns is not None else near_ns) is not None:
        found["time"] = datetime.fromtimestamp(known // 1_000_000_000, UTC).replace(
            microsecond=known // 1000 % 1_000_000, tzinfo=None
        )
    return found
