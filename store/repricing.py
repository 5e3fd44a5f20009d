"""Prices the calls on record again: costs that a price table gave change, nothing that anybody told does."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import duckdb
import polars as pl

from models.failpoints import reached
from store import database, rollup
from store.writer import Store

PART_ROWS = 250_000
"""Rows of `events` looked at together; each part is a transaction of its own."""

KEY = "prices"
"""In `meta`: by which prices the costs in the file were made."""

Costs = Callable[[pl.DataFrame], pl.DataFrame]
"""`cost_usd`, `price_entry` and `price_version` of calls, row by row; NULL where there is no price."""

PRICED = """
    select
        rowid as row, event_id, timestamp, provider, model, uncached_input_tokens, cache_read_tokens,
        cache_write_tokens, output_tokens, reasoning_tokens, dialect,
        case when cache_write_tokens > 0 then least(
            greatest(try_cast(payload ->> '$.usage.cache_write_1h_tokens' as bigint), 0), cache_write_tokens
        ) end as cache_write_1h_tokens,
        cost_usd as cost_before, price_entry as entry_before, price_version as version_before
    from events
    where rowid >= ? and rowid < ? and cost_state in ('priced', 'unknown')
    and type in ('model.completed', 'model.failed', 'model.requested')
    and not (cost_state = 'priced' and dialect = 'agent_runtime' and payload ->> '$.cost.cost_usd' is not null)
"""
"""What we priced or could not. A cost that the record itself tells, also one that the runtime priced, is told."""

TOTALS = """
    select
        coalesce(sum(calls), 0) as calls,
        coalesce(sum(case when cost_state <> 'unknown' then calls end), 0) as priced,
        coalesce(sum(costs_unknown), 0) as unpriced,
        coalesce(sum(cost_usd), 0) as cost_usd
    from cost_rollup
"""
OF_TOUCHED = " where session_id in (select session_id from touched)"


@dataclass(frozen=True, slots=True)
class Totals:
    """What all calls on record cost together."""

    calls: int
    priced: int
    """Calls whose cost is known, reported or priced."""

    unpriced: int
    """Calls that completed and whose cost nobody knows, so `cost_usd` lacks them."""

    cost_usd: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What pricing again came to."""

    version_before: str | None
    """By what the costs were made before; None if that was not written down."""

    version: str
    changed: int
    """Calls whose cost is another one now."""

    before: Totals
    after: Totals


class Repricing:
    """Prices everything in a store by one table, part by part; other work may be done between the parts.

    In each part costs and the sums made of them change together. The file says that it is priced by the table only when
    all parts are done, so after a crash, whenever it comes, the same work begins again and changes what is left. Doing
    it twice changes nothing. Not to be continued after the store was opened anew.
    """

    def __init__(self, store: Store, version: str, costs: Costs) -> None:
        self._store = store
        self._costs = costs
        self.version = version
        self.done = 0
        self.rows = 0
        """How many rows of `events` are done, and how many there are; 0 before the first part."""

        self.outcome: Outcome | None = None
        """Set when all is done."""

        self.failure: str | None = None
        """Why it ended early; it is begun again by itself."""

        self._before: Totals | None = None
        self._version_before: str | None = None
        self._change = Totals(0, 0, 0, 0.0)
        self._changed = 0

    def step(self) -> bool:
        """Do the next part; False when there is nothing more to do."""
        if self.outcome is not None:
            return False
        self._store.refresh()
        with self._store.cursor() as cursor:
            if self._before is None and self._begin(cursor):
                return False
            if self.done < self.rows:
                self._part(cursor)
            if self.done >= self.rows:
                self._finish(cursor)
        return self.outcome is None

    def _begin(self, cursor: duckdb.DuckDBPyConnection) -> bool:
        """See what there is; whether nothing is to be done."""
        self._version_before = version_of(cursor)
        self._before = _totals(cursor)
        if self._version_before == self.version:
            self.outcome = Outcome(self.version, self.version, 0, self._before, self._before)
            return True
        self.rows = int(cursor.execute("select coalesce(max(rowid) + 1, 0) from events").fetchall()[0][0])
        return False

    def _part(self, cursor: duckdb.DuckDBPyConnection) -> None:
        upper = min(self.done + PART_ROWS, self.rows)
        calls = pl.DataFrame(pl.from_arrow(cursor.sql(PRICED, params=[self.done, upper]).to_arrow_table()))
        news = _news(calls, self._costs)
        if not news.is_empty():
            cursor.execute("begin")
            try:
                self._store_news(cursor, news)
                cursor.execute("commit")
            except BaseException:
                with suppress(duckdb.Error):  # the first error says what happened
                    cursor.execute("rollback")
                raise
        self.done = upper
        reached("store.repriced.part")

    def _store_news(self, cursor: duckdb.DuckDBPyConnection, news: pl.DataFrame) -> None:
        with database.registered(cursor, news=news.to_arrow()):
            rollup.touch_priced(cursor)
            before = _totals(cursor, OF_TOUCHED)
            cursor.execute("""
                update events set
                    cost_usd = n.cost_usd, price_entry = n.price_entry, price_version = n.price_version,
                    cost_state = case when n.cost_usd is null then 'unknown' else 'priced' end
                from news as n where events.rowid = n.row
            """)
            rollup.recompute_costs(cursor)
            changed = cursor.execute("""
                select count(*) from repriced_calls as c inner join news as n on n.event_id = c.best
                where n.cost_usd is distinct from n.cost_before
            """).fetchall()[0][0]
        self._changed += int(changed)
        # Added up part by part, so that what is loaded meanwhile does not count as a change.
        self._change = _sum(self._change, _totals(cursor, OF_TOUCHED), before)

    def _finish(self, cursor: duckdb.DuckDBPyConnection) -> None:
        cursor.execute("begin")
        cursor.execute("delete from meta where key = ?", [KEY])
        cursor.execute("insert into meta values (?, ?)", [KEY, self.version])
        cursor.execute("commit")
        reached("store.repriced")
        self._store.checkpoint()
        before = self._before
        assert before is not None
        after = _sum(before, self._change)
        self.outcome = Outcome(self._version_before, self.version, self._changed, before, after)


def version_of(connection: duckdb.DuckDBPyConnection) -> str | None:
    """By which prices the costs in the file were made; None if that was never written down, or is under way."""
    found = connection.execute("select value from meta where key = ?", [KEY]).fetchall()
    return str(found[0][0]) if found else None


def _news(calls: pl.DataFrame, costs: Costs) -> pl.DataFrame:
    """The calls whose cost, entry or version are others by these prices."""
    if calls.is_empty():
        return calls
    priced = calls.with_columns(costs(calls).get_columns())
    pairs = (("cost_usd", "cost_before"), ("price_entry", "entry_before"), ("price_version", "version_before"))
    differs: list[Any] = [pl.col(now).ne_missing(pl.col(before)) for now, before in pairs]
    columns = ("row", "event_id", "timestamp", "cost_usd", "cost_before", "price_entry", "price_version")
    return priced.filter(pl.any_horizontal(differs)).select(columns)


def _totals(connection: duckdb.DuckDBPyConnection, where: str = "") -> Totals:
    calls, priced, unpriced, cost_usd = connection.execute(TOTALS + where).fetchall()[0]
    return Totals(int(calls), int(priced), int(unpriced), round(float(cost_usd), 10))


def _sum(one: Totals, other: Totals, less: Totals | None = None) -> Totals:
    less = less or Totals(0, 0, 0, 0.0)
    return Totals(
        one.calls + other.calls - less.calls,
        one.priced + other.priced - less.priced,
        one.unpriced + other.unpriced - less.unpriced,
        round(one.cost_usd + other.cost_usd - less.cost_usd, 10),
    )
