"""What looking for secrets costs: CPU time of the receiver per span, with and without, in interleaved pairs."""

import multiprocessing
import os
import shutil
import statistics
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.sending import send_from_process

SPANS, PER_REQUEST = 51_200, 512
PAIRS = 7
BAR = 0.15


def serve(pipe: Connection, home: Path, masking: bool) -> None:
    """A receiver as `tachograph receiver` runs it; without masking only here, where nothing of it is kept."""
    import uvloop

    from collector import receiving
    from models.redaction import Redactor
    from models.settings import Settings

    class Unsuspecting(Redactor):
        def suspects(self, raw: bytes | bytearray | memoryview) -> bool:
            return False

    if not masking:
        receiving.Redactor = Unsuspecting  # type: ignore[attr-defined]  # not to be exported, only replaced here
    settings = Settings(home=home, otlp_http="127.0.0.1:0", otlp_grpc="127.0.0.1:0")
    uvloop.run(receiving.serve(settings, lambda listening: pipe.send(str(listening.http))))


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def receive(masking: bool) -> float:
    """CPU microseconds of the receiver per span."""
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    folder = Path(tempfile.mkdtemp(prefix="tachograph-bench-"))
    process = context.Process(target=serve, args=(child, folder / "home", masking))
    try:
        process.start()
        address = parent.recv()
        assert process.pid is not None
        send_from_process(address, (PER_REQUEST * 4, PER_REQUEST, 9))  # warm
        before = cpu_seconds(process.pid)
        sent = send_from_process(address, (SPANS, PER_REQUEST, 1))
        spent = cpu_seconds(process.pid) - before
        assert sent.retries == 0, "refusals would spoil the figure"
    finally:
        process.terminate()
        process.join()
        shutil.rmtree(folder)
    return spent / SPANS * 1e6


def main(pairs: int = PAIRS) -> None:
    """Print the receiver's CPU time per span with and without, pair by pair, and the share."""
    shares, costs = [], []
    print(f"{SPANS} spans in requests of {PER_REQUEST}, 2.9 KB each, no secret among them (the rule)")
    for number in range(pairs):
        order = (True, False) if number % 2 else (False, True)
        measured = {masking: receive(masking) for masking in order}
        costs.append(measured[True] - measured[False])
        shares.append(costs[-1] / measured[True])
        print(
            f"pair {number + 1}: with {measured[True]:.1f} µs, without {measured[False]:.1f} µs per span; "
            f"redaction is {shares[-1]:.0%} of the receiver"
        )
    print(
        f"redaction, median of {pairs} pairs: {statistics.median(costs):.1f} µs per span, "
        f"{statistics.median(shares):.0%} of the receiver's CPU time (bar: {BAR:.0%})"
    )


if __name__ == "__main__":
    main()
