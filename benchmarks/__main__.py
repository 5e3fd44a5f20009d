"""`make bench`: every measurement, or those named."""

import sys

from benchmarks import receiver

MEASUREMENTS = {"receiver": receiver.main}

if __name__ == "__main__":
    for name in sys.argv[1:] or MEASUREMENTS:
        print(f"== {name}")
        MEASUREMENTS[name]()
