"""Files that will not open are put aside with a note, never deleted; the journal fills a fresh one."""

from datetime import UTC, datetime
from pathlib import Path

import orjson
from pydantic import AwareDatetime, BaseModel, ConfigDict

from store.layout import Layout


class Note(BaseModel):
    """What was put aside and why."""

    model_config = ConfigDict(frozen=True)

    time: AwareDatetime
    file: str
    """Name of the file within the quarantine folder."""

    reason: str
    size_bytes: int


def set_aside(layout: Layout, database: Path, reason: str) -> Note:
    """Move a database (and its write-ahead log, should there be one) to the quarantine and note why."""
    now = datetime.now(UTC)
    layout.quarantine.mkdir(parents=True, exist_ok=True)
    name = f"{now:%Y%m%dT%H%M%S.%fZ}-{database.name}"
    note = Note(time=now, file=name, reason=reason, size_bytes=database.stat().st_size)
    (layout.quarantine / f"{name}.json").write_bytes(
        orjson.dumps(note.model_dump(mode="json"), option=orjson.OPT_INDENT_2)
    )
    for path in (database, Path(f"{database}.wal")):
        if path.exists():
            path.rename(layout.quarantine / (name + path.name.removeprefix(database.name)))
    return note


def notes(layout: Layout) -> list[Note]:
    """Everything that was put aside, oldest first."""
    return [Note.model_validate_json(path.read_bytes()) for path in sorted(layout.quarantine.glob("*.json"))]
