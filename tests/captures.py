"""The bodies that real clients sent, as recorded in sample_traces/real."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingest.otlp.signals import SIGNALS, SignalName

REAL = Path(__file__).resolve().parent.parent / "sample_traces" / "real"


@dataclass(frozen=True)
class Capture:
    """One body as it was sent."""

    run: str
    signal: SignalName
    path: Path

    @property
    def body(self) -> bytes:
        return self.path.read_bytes()

    @property
    def encoding(self) -> str:
        return "protobuf" if self.path.suffix == ".pb" else "json"

    @property
    def content_type(self) -> str:
        return "application/x-protobuf" if self.path.suffix == ".pb" else "application/json"

    @property
    def decoded(self) -> dict[str, Any]:
        """The same as OTLP/JSON with hex ids, decoded by an independent program for protobuf bodies."""
        decoded = self.path.with_name(self.path.stem + ".decoded.json")
        found: dict[str, Any] = json.loads((decoded if decoded.exists() else self.path).read_text())
        return found


def captures() -> list[Capture]:
    """Every OTLP body of every run, in the order sent."""
    found = []
    for run in sorted(path.parent for path in REAL.glob("*/*/requests.jsonl")):
        for signal in SIGNALS:
            for path in sorted((run / signal).glob("*")):
                if path.suffix == ".pb" or (path.suffix == ".json" and ".decoded" not in path.name):
                    found.append(Capture(str(run.relative_to(REAL)), signal, path))
    return found
