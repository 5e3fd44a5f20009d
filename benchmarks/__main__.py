"""`make bench`: every measurement, or those named."""

import sys

from benchmarks import (
    dialects,
    hostile,
    ingest,
    latency,
    peers,
    reads,
    rebuild,
    receiver,
    redaction,
    runtime,
    shapes,
    state,
)

MEASUREMENTS = {
    "receiver": receiver.main,
    "ingest": ingest.main,
    "rebuild": rebuild.main,
    "redaction": redaction.main,
    "hostile": hostile.main,
    "latency": latency.main,
    "peers": peers.main,
    "shapes": shapes.main,
    "reads": reads.main,
    "dialects": dialects.main,
    "state": state.main,
    "runtime": runtime.main,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or MEASUREMENTS:
        print(f"== {name}", flush=True)
        MEASUREMENTS[name]()
