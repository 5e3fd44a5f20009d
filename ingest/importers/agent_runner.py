"""AgentRunner result streams: one result of a run per line."""

import re
from pathlib import Path
from typing import Any

from ingest.importers.json_text import moment_ns, text_of
from ingest.importers.transcript import About, LineTranscript, Memory

RESULTS = frozenset(
    {"message.delta", "message.completed", "tool.call.started", "tool.call.completed", "artifact.created"}
    | {"state.updated", "action.requested", "run.completed", "run.failed"}
)
TYPE = re.compile(
    rb'"type"\s*:\s*"(?:message\.(?:delta|completed)|tool\.call\.\w+|artifact\.created|state\.updated|action\.requested'
    rb'|run\.(?:completed|failed))"'
)


class RunMemory(Memory):
    """Nothing: each result names its run."""

    def note(self, value: dict[str, Any]) -> About:
        """A result; the run is the session, and its number within it tells two equal pieces apart."""
        run = text_of(value.get("run_id")) or text_of(value.get("runId"))
        place = value.get("sequence")
        return About(
            name=text_of(value.get("type")),
            session=run or self.path.name,
            key=f"{run}:{place}" if run and isinstance(place, int) else None,
            time_ns=moment_ns(value.get("timestamp")),
        )


class AgentRunner(LineTranscript, name="AgentRunner result stream"):
    """What a runner returned while it ran."""

    format = "agent_runner"
    known = RESULTS
    memory = RunMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By the run and the kind of the first result."""
        first = head.lstrip(b"\xef\xbb\xbf \r\n\t").split(b"\n", 1)[0]
        return first[:1] == b"{" and TYPE.search(first) is not None and b'"data"' in first and b"vent_id" not in first
