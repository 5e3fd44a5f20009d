"""Queries that take all memory or time: they end with a clear error, while the receiver goes on and nothing is lost."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.settings import Settings
from tests.collector.asking import answered, ask, event, loaded, rows, send
from tests.running import Collector

MIB = 1024 * 1024
MARGIN_BYTES = 1_500_000_000
SMALL_LIMIT_BYTES = 256 * MIB
DEFAULT_LIMIT_BYTES = int(Settings.model_fields["index_memory_bytes"].default)
LOOK_SECONDS = 0.01

BOMBS = {
    "a list beyond accounting": "select len(range(1000000000))",
    "a text beyond accounting": "select length(repeat('x', 4000000000))",
    "an endless recursion": "with recursive r(i) as (select 1 union all select i + 1 from r) select max(i) from r",
    "a recursion that keeps rows": "with recursive r(i) as (select 1 union select i + 1 from r) select count(*) from r",
    "a huge sort": "select i, repeat('x', 100) || i as s from range(100000000) as t(i) order by s",
    "a huge list": "select list(i) from range(1000000000) as t(i)",
    "a cross join": "select count(*) from range(10000000) as a, range(10000000) as b where a.range * b.range % 7 = 3",
    "a slow reduction": "select list_reduce(range(50000000), lambda a, b: a + b)",
    "a slow distance": "select levenshtein(repeat('ab', 60000), repeat('cd', 60000))",
    "a hundred thousand terms": "select 1 where " + " or ".join(f"1={number}" for number in range(2, 100_000)),
    "as many terms as fit": "select 1 from events where " + " or ".join(f"sequence={number}" for number in range(3500)),
    "deep parentheses": "select " + "(" * 30_000 + "1" + ")" * 30_000,
}
HARMLESS = "as many terms as fit"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(SMALL_LIMIT_BYTES, id="small"),
        pytest.param(DEFAULT_LIMIT_BYTES, id="default", marks=pytest.mark.long),
    ],
)
def collector(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    home = tmp_path_factory.mktemp("bombs") / "home"
    limit = {} if request.param == DEFAULT_LIMIT_BYTES else {"TACHOGRAPH_INDEX_MEMORY_BYTES": str(request.param)}
    with Collector(home, everything=True, **limit) as running:
        with running.client() as client:
            send(client, *(event(number, f"s{number % 3}") for number in range(300)))
            loaded(client)
        yield running


class Watcher(threading.Thread):
    """Keeps sending, and notes the most memory the index has had."""

    def __init__(self, collector: Collector, session: str) -> None:
        super().__init__()
        self.collector = collector
        self.session = session
        self.begun, self.stopping = threading.Event(), threading.Event()
        self.peak_bytes = 0
        self.sent = 0
        self.slowest_s = 0.0

    def run(self) -> None:
        with self.collector.client() as client:
            while not self.stopping.wait(LOOK_SECONDS):
                self.peak_bytes = max(self.peak_bytes, self._resident())
                if self.stopping.wait(LOOK_SECONDS):
                    return
                started = time.monotonic()
                send(client, event(self.sent, self.session))
                self.slowest_s = max(self.slowest_s, time.monotonic() - started)
                self.sent += 1
                self.begun.set()

    def _resident(self) -> int:
        try:
            pid = self.collector.pid("index")
            # The kernel's own high-water mark: no moment between two looks is missed.
            status = Path(f"/proc/{pid}/status").read_text()
            return int(status.split("VmHWM:")[1].split()[0]) * 1024
        except (AssertionError, OSError, IndexError):
            return 0  # it is being started again


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_with_a_clear_error_while_receiving_goes_on(
    collector: Collector, name: str, request: pytest.FixtureRequest
) -> None:
    limit_bytes = request.node.callspec.params["collector"]
    watcher = Watcher(collector, f"during {name}")
    with collector.client() as client:
        answered(client)
        watcher.start()
        watcher.begun.wait(10)
        try:
            answer = ask(client, BOMBS[name], timeout_s=3)
            back_s = answered(client)
        finally:
            watcher.stopping.set()
            watcher.join()
        over = watcher.peak_bytes - limit_bytes
        print(f"{name}: {answer.status_code}; {over / 1e6:+.0f} MB over the limit; reads back after {back_s:.1f} s")
        assert answer.status_code in ((200, 422) if name == HARMLESS else (400, 413, 422)), answer.text
        assert answer.status_code == 200 or answer.json()["error"]
        assert watcher.peak_bytes < limit_bytes + MARGIN_BYTES
        assert back_s < 10
        assert watcher.sent > 0
        assert watcher.slowest_s < 5
        loaded(client, 30)
        mine = rows(client, "select count(*) from events where session_id = ?", params=[watcher.session])
        assert mine == [[watcher.sent]]
        assert rows(client, "select count(*) from events where session_id in ('s0', 's1', 's2')") == [[300]]
