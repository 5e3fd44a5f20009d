"""The relations: questions about many sessions, one SQL file each, and what their headers say about them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
ORDER = (
    "session_events",
    "call_sightings",
    "model_calls",
    "tool_calls",
    "subagents",
    "turns",
    "reconciliation",
    "sessions",
    "costs",
    "limits",
    "gaps",
    "timeline",
    "records_by_source",
)
"""Every relation, each after those it reads."""


@dataclass(frozen=True, slots=True)
class Relation:
    """One question: its SQL and what its header documents."""

    name: str
    meaning: str
    """One sentence: what a row is."""

    grain: tuple[str, ...]
    """The columns that together name a row."""

    columns: dict[str, str]
    """Each column and what it holds; `*` stands for the columns of the table below."""

    sql: str

    def over(self, sources: Mapping[str, str]) -> str:
        """The SQL reading other tables in place of those it names, for example only the rows of some sessions."""
        return rename_tables(self.sql, sources)


def rename_tables(sql: str, names: Mapping[str, str]) -> str:
    """The SQL with whole words replaced; tables keep their alias because every relation gives one."""
    return re.sub(r"\b(from|join) (\w+)", lambda found: f"{found[1]} {names.get(found[2], found[2])}", sql)


@cache
def relations() -> dict[str, Relation]:
    """All relations by name, each after those it reads."""
    return {name: parse(name, (HERE / "relations" / f"{name}.sql").read_text()) for name in ORDER}


@cache
def rollup(name: str) -> str:
    """The SQL that recomputes something for the sessions a load touches; `gaps/KIND` for one kind of gap."""
    return (HERE / "rollups" / f"{name}.sql").read_text()


def parse(name: str, text: str) -> Relation:
    """A relation from its file: the header's sentence, grain and columns, and the SQL below."""
    lines = text.splitlines()
    size = next(at for at, line in enumerate(lines) if not line.startswith("--"))
    header = [line.removeprefix("--").rstrip() for line in lines[:size]]
    meaning = header[0].strip().removeprefix(f"{name}:").strip()
    grain = next(line.partition(":")[2].strip(" .") for line in header if line.strip().startswith("Grain:"))
    start = header.index(" Columns:") + 1
    pairs = (line.strip().partition(": ") for line in header[start:])
    columns = {column: sentence for column, _, sentence in pairs}
    return Relation(name, meaning, tuple(grain.split(", ")), columns, "\n".join(lines[size:]))
