"""A runtime in a process of its own that records facts without end, and prints each that is safe."""

import sys
from pathlib import Path

from models.payloads.turn import TurnStarted
from runtime.telemetry import Telemetry
from tests.runtime.runtimes import IDS, settings

if __name__ == "__main__":
    folder, address = sys.argv[1:]
    with Telemetry(Path(folder), settings=settings(address)) as telemetry:
        print("runtime", telemetry.runtime_id, flush=True)
        while True:
            with telemetry.spans.turn(IDS):
                event = telemetry.record(TurnStarted(status="running"), IDS)
            print(event.sequence, event.event_id, flush=True)
