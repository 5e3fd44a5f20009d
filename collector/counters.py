"""What came in and what was refused, per signal: kept across restarts and summed over several receivers."""

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

FLUSH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Count:
    """One line of the account."""

    signal: str
    outcome: str
    """`received`, `rejected` (records refused in `partial_success`) or `refused:<reason>` (whole requests)."""

    requests: int
    items: int
    size_bytes: int
    last_ns: int


class Counters:
    """Adds up in memory; writes the sums down every second. A crash costs at most that second of counts, no records."""

    def __init__(self, home: Path, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self._path = home / "counters.sqlite"
        self._clock_ns = clock_ns
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, str], list[int]] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._flush_forever, name="counters", daemon=True)
        self._thread.start()

    def add(self, signal: str, outcome: str, *, items: int = 0, size_bytes: int = 0) -> None:
        """Count one request."""
        with self._lock:
            line = self._sums.setdefault((signal, outcome), [0, 0, 0, 0])
            line[:] = [line[0] + 1, line[1] + items, line[2] + size_bytes, self._clock_ns()]

    def _flush_forever(self) -> None:
        while not self._stopping.wait(FLUSH_SECONDS):
            with suppress(sqlite3.Error):  # a full disk: the sums stay in memory until it has room
                self.flush()

    def flush(self) -> None:
        """Write the sums down."""
        with self._lock:
            sums, self._sums = self._sums, {}
        if not sums:
            return
        try:
            with closing(_connect(self._path)) as connection:
                connection.executemany(
                    "insert into counters values (?, ?, ?, ?, ?, ?) on conflict (signal, outcome) do update set "
                    "requests = requests + excluded.requests, items = items + excluded.items, "
                    "size_bytes = size_bytes + excluded.size_bytes, last_ns = max(last_ns, excluded.last_ns)",
                    [(*key, *line) for key, line in sums.items()],
                )
                connection.commit()
        except sqlite3.Error:
            with self._lock:
                for key, line in sums.items():
                    newer = self._sums.setdefault(key, [0, 0, 0, 0])
                    newer[:] = [newer[n] + line[n] for n in range(3)] + [max(newer[3], line[3])]
            raise

    def close(self) -> None:
        """Stop, writing down what is left."""
        self._stopping.set()
        self._thread.join()
        with suppress(sqlite3.Error):
            self.flush()


def read(home: Path) -> list[Count]:
    """The account so far."""
    path = home / "counters.sqlite"
    if not path.exists():
        return []
    with closing(_connect(path)) as connection:
        return [Count(*row) for row in connection.execute("select * from counters order by signal, outcome")]


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=10.0)
    connection.execute(
        "create table if not exists counters (signal text not null, outcome text not null, requests integer not null, "
        "items integer not null, size_bytes integer not null, last_ns integer not null, primary key (signal, outcome))"
        " strict"
    )
    return connection
