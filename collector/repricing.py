"""Keeps what is stored priced by what the home goes by, a part at a time beside the load."""

import queue
from collections.abc import Callable

import duckdb
import polars as pl
import pyarrow as pa

from ingest.pricing import costs
from models.pricing import PriceTable, installed
from store import Store
from store.database import without_paths
from store.repricing import Outcome, Repricing

TRIES = 3
"""So often it is begun again after a failure; then not before the next start, because the load goes first."""

FAULTS = (duckdb.Error, ValueError, TypeError, ArithmeticError, pa.ArrowException, pl.exceptions.PolarsError)


class Repricer:
    """The prices of a loader, and the work of bringing a store to them; none if its file says that it is by them."""

    def __init__(
        self, store: Store, prices: PriceTable | None = None, told: Callable[[Outcome], None] = lambda _: None
    ) -> None:
        self._store = store
        self._told = told
        self._wanted: queue.SimpleQueue[tuple[PriceTable, Repricing]] = queue.SimpleQueue()
        self._failures = 0
        self.prices = prices or installed()
        self._work: Repricing | None = self._by(self.prices)
        self.trouble: str | None = None
        """Why costs are not all made by these prices, in words for `status`."""

    def go_by(self, prices: PriceTable) -> Repricing:
        """Ask for other prices, from any thread; what comes back tells how far that is, and what came of it."""
        work = self._by(prices)
        self._wanted.put((prices, work))
        return work

    def turned(self) -> bool:
        """Take over other prices if somebody asked for them; whether that is so."""
        if self._wanted.empty():
            return False
        if self._work is not None:
            self._work.failure = "other prices were chosen"
        self.prices, self._work = self._wanted.get()
        self._failures = 0
        return True

    def step(self) -> bool:
        """Price a part of what is stored; whether there is more. Raises duckdb.Error; `again` decides what then."""
        work = self._work
        if work is None:
            return False
        try:
            more = work.step()
        except FAULTS as error:
            self._failures += 1
            self.trouble = work.failure = f"costs could not be made anew: {without_paths(error)}"
            self.again()
            if isinstance(error, duckdb.Error):
                raise
            return self._work is not None
        if work.outcome is not None:
            self._work, self.trouble = None, None
            if work.outcome.version_before not in (None, work.outcome.version) or work.outcome.changed:
                self._told(work.outcome)
        return more

    def again(self) -> None:
        """Begin again, because the file may be an earlier one now; it says itself by what it is priced."""
        self._work = self._by(self.prices) if self._failures < TRIES else None

    def _by(self, prices: PriceTable) -> Repricing:
        return Repricing(self._store, prices.version, lambda calls: costs(calls, prices))
