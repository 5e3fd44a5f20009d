"""`make bench`: every measurement, or those named."""

import sys

from benchmarks import hostile, ingest, rebuild, receiver, redaction

MEASUREMENTS = {
    "receiver": receiver.main,
    "ingest": ingest.main,
    "rebuild": rebuild.main,
    "redaction": redaction.main,
    "hostile": hostile.main,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or MEASUREMENTS:
        print(f"== {name}", flush=True)
        MEASUREMENTS[name]()
