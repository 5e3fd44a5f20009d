"""One way to read the index, whether or not a process has it open."""

import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import duckdb
import httpx
import orjson
import polars as pl
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from models.errors import Locked, NoIndex, QueryFailed, QueryLimit, SchemaTooNew, TachographError, Unreachable
from store import database, migrations, quarantine
from store.layout import Layout
from store.schema import VERSION

WAIT_SECONDS = 5.0
"""An index that starts holds the file a moment before it answers; so long we try both."""

QUERY_SECONDS = 120.0


class Source(Protocol):
    """Where answers come from."""

    def sql(self, query: str, params: Sequence[Any]) -> pa.Table:
        """The rows of a query; raises QueryFailed."""

    def close(self) -> None:
        """Let go of it."""


class Status(BaseModel):
    """What the index holds."""

    model_config = ConfigDict(frozen=True)

    position: int
    """The last journal record that is loaded."""

    records: int
    events: int
    duplicates: int
    undecoded: int
    through: str
    """`index`: the running process answered; `file`: read from the file."""

    quarantines: tuple[quarantine.Note, ...]


class Reader:
    """Answers questions about the index. Close it soon when no process runs: an open file keeps one from starting."""

    def __init__(self, layout: Layout, source: Source, through: str) -> None:
        self._layout = layout
        self._source = source
        self.through = through

    def sql(self, query: str, params: Sequence[Any] | None = None) -> pa.Table:
        """The rows of one query; `?` in it stands for the parameters in turn. Raises QueryFailed."""
        return self._source.sql(query, params or ())

    def frame(self, query: str, params: Sequence[Any] | None = None) -> pl.DataFrame:
        """The rows of one query as a polars frame."""
        return pl.DataFrame(pl.from_arrow(self.sql(query, params)))

    def events(
        self,
        session_id: str | None = None,
        *,
        types: Sequence[str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        columns: Sequence[str] = ("*",),
    ) -> pl.LazyFrame:
        """The events of a session, or of all: the columns of `session_events`.

        A session is found by its time range, so the answer takes as long for ten million events as for ten thousand.
        """
        tests = [f"session_id = {database.quoted(session_id)}"] if session_id is not None else []
        if session_id is not None:
            tests += self._session_range(session_id)
        if types:
            tests.append(f"type in ({', '.join(map(database.quoted, types))})")
        tests += [f"timestamp >= {_literal(since)}"] if since else []
        tests += [f"timestamp <= {_literal(until)}"] if until else []
        where = f" where {' and '.join(tests)}" if tests else ""
        return self.frame(f"select {', '.join(columns)} from session_events{where}").lazy()  # noqa: S608

    def facts(self, session_id: str) -> pl.DataFrame:
        """All events of a session in their order, each with the attributes of the record it was made from.

        `views.facts.events_of` makes events of it, with the whole envelope as it was told.
        """
        span = self._session_range(session_id)
        events = " and ".join([f"session_id = {database.quoted(session_id)}", *span])
        records = " and ".join(["true", *(test.replace("timestamp", "time", 1) for test in span)])
        return self.frame(
            f"select e.*, r.attributes from (select * from session_events where {events}) as e "  # noqa: S608
            f"left join (select record_id, attributes from records where {records}) as r "
            "on e.record_id = r.record_id order by e.sequence nulls last, e.time_ns, e.event_id"
        )

    def _session_range(self, session_id: str) -> list[str]:
        """Tests that let the database skip what cannot be of the session; none while the roll-up is behind the rows."""
        found = self.sql(
            "select epoch_us(s.first_time) as first, epoch_us(s.last_time) as last from session_rollup as s "  # noqa: S608
            "inner join progress as p on p.rolled_up = p.position "
            f"where s.session_id = {database.quoted(session_id)}"
        ).to_pylist()
        return [
            f"timestamp {sign} make_timestamp({row[end]})"
            for row in found
            for sign, end in ((">=", "first"), ("<=", "last"))
        ]

    def status(self) -> Status:
        """What is loaded, and what had to be put aside."""
        progress = self.sql("select position, records, events, duplicates, undecoded from progress").to_pylist()[0]
        return Status(**progress, through=self.through, quarantines=tuple(quarantine.notes(self._layout)))

    def close(self) -> None:
        """Let go of the file or the connection."""
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class FileSource:
    """The file itself, read-only and hardened."""

    def __init__(self, path: Path) -> None:
        self._connection = database.connect(path, read_only=True)
        found = migrations.version_of(self._connection)
        if found is None or found > VERSION:
            self._connection.close()
            raise NoIndex(path) if found is None else SchemaTooNew(path, found, VERSION)

    def sql(self, query: str, params: Sequence[Any]) -> pa.Table:
        """See Source."""
        try:
            rows = self._connection.sql(query, params=list(params))
            # DuckDB runs a statement that gives no rows at once and has nothing to return.
            return pa.table({}) if rows is None else rows.to_arrow_table()
        except duckdb.Error as error:
            raise QueryFailed(database.without_paths(error)) from error

    def close(self) -> None:
        """See Source."""
        self._connection.close()


class SocketSource:
    """The running index, asked over its Unix socket; answers come as Arrow streams."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._client = httpx.Client(
            transport=httpx.HTTPTransport(uds=str(path)), base_url="http://index", timeout=QUERY_SECONDS
        )

    def sql(self, query: str, params: Sequence[Any]) -> pa.Table:
        """See Source."""
        body = orjson.dumps({"sql": query, "params": list(params), "format": "arrow"})
        try:
            answer = self._client.post("/v1/query", content=body, headers={"content-type": "application/json"})
        except httpx.TransportError as error:
            raise Unreachable(str(self._path), str(error) or type(error).__name__, next_step="try again") from error
        if answer.status_code != httpx.codes.OK:
            raise _failure(answer)
        return pa.ipc.open_stream(answer.content).read_all()

    def close(self) -> None:
        """See Source."""
        self._client.close()


def open_reader(home: Path, *, wait_seconds: float = WAIT_SECONDS) -> Reader:
    """A reader of the index of a home folder: through the running index if it answers, else from the file.

    Raises NoIndex if nothing was ever recorded, SchemaTooNew if a newer program wrote the file, and Locked if a process
    holds it without answering.
    """
    layout = Layout(home)
    deadline = time.monotonic() + wait_seconds
    while True:
        if answers(layout.socket):
            return Reader(layout, SocketSource(layout.socket), "index")
        if not layout.database.exists():
            raise NoIndex(layout.database)
        try:
            return Reader(layout, FileSource(layout.database), "file")
        except duckdb.Error as error:
            if "Conflicting lock" not in str(error):
                raise QueryFailed(
                    f"the database cannot be opened: {database.without_paths(error)}",
                    next_step="run `tachograph up`: it puts the file aside and makes a new one from the journal",
                ) from error
            if time.monotonic() > deadline:
                raise Locked(layout.database, next_step="wait until it is ready, then try again") from error
        time.sleep(0.05)


def answers(path: Path) -> bool:
    """Whether something listens on the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _failure(answer: httpx.Response) -> TachographError:
    """What the index refused, as the error a caller can act on."""
    try:
        told = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        told = {}
    message = str(told.get("error", f"the index answered {answer.status_code}"))
    hint, kind = told.get("hint"), told.get("kind")
    if kind == "limit":
        return QueryLimit(message, next_step=hint)
    if kind in ("busy", "restarting"):
        return Unreachable("the index", message, next_step=hint or "try again")
    return QueryFailed(message, next_step=hint)


def _literal(moment: datetime) -> str:
    return database.quoted(moment.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ")) + "::timestamp"
