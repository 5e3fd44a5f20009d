"""SWE-agent's trajectories: `.traj`, one JSON document; it tells no times."""

import re
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from ingest.file_lines import FileLine
from ingest.importers.importer import Problem
from ingest.importers.json_text import table
from ingest.importers.transcript import About, DocumentTranscript, Memory, Reading, add_part

MARK = re.compile(rb'"(?:trajectory|history)"\s*:\s*\[')


class SweAgentMemory(Memory):
    """Which part of the trajectory comes now."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.session: str | None = None
        self.name = "info"

    def note(self, value: dict[str, Any]) -> About:
        """A step, a message, or what is said about the whole."""
        return About(self.name, self.session)


class SweAgent(DocumentTranscript, name="SWE-agent trajectory"):
    """The steps of a trajectory; of one that has none (a demonstration), its messages."""

    format = "swe_agent"
    service = "swe-agent"
    known = frozenset({"info", "step", "message", "history"})
    memory = SweAgentMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By its name, and by its lists."""
        return path.suffix == ".traj" and head.lstrip()[:1] == b"{"

    def taken_apart(self, path: Path, value: Any) -> Iterator[FileLine | Problem]:
        """What is said about the whole last, since it sums up. Nothing in it names the run, so its content does."""
        whole = table(value)
        memory = SweAgentMemory(path)
        content = blake2b(orjson.dumps(whole), digest_size=4).hexdigest()
        memory.session = f"{path.stem}:{content}"
        reading = Reading(path, memory)
        steps, history = whole.get("trajectory") or [], whole.get("history") or []
        rest = {key: told for key, told in whole.items() if key not in ("trajectory", "history")}
        parts = [("step", step) for step in steps]
        parts += [("history" if steps else "message", message) for message in history]
        for number, (name, part) in enumerate([*parts, ("info", rest)], 1):
            memory.name = name
            yield from add_part(reading, path, number, table(part))
        yield from reading.finish()
