"""A process that appends to a journal from several threads and prints what was acknowledged."""

import random
import sys
import threading
from pathlib import Path

from journal import Entry, Journal

THREADS = 3
SIZES = (300, 4_000, 40_000, 150_000)


def body(name: str) -> bytes:
    """The body of a record, made from its name, so that a checker can make it again."""
    source = random.Random(name)
    half = source.choice(SIZES) // 2
    return name.encode() + b" " + source.randbytes(half) + bytes(half)


def work(journal: Journal, name: str) -> None:
    """Append without end."""
    for step in range(1_000_000):
        mine = f"{name}.{step}"
        journal.append(Entry("test", body(mine), {"name": mine}))
        sys.stdout.write(mine + "\n")
        sys.stdout.flush()


def main(folder: str, segment_bytes: str, name: str) -> None:
    """Run until killed."""
    journal = Journal(Path(folder), segment_bytes=int(segment_bytes), compress=False)
    for number in range(THREADS):
        threading.Thread(target=work, args=(journal, f"{name}.{number}"), daemon=True).start()
    while True:
        journal.compress_closed(rest_per_work=0)
        threading.Event().wait(0.02)


if __name__ == "__main__":
    main(*sys.argv[1:])
