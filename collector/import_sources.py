"""Where agents on this machine keep their sessions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

CLAUDE_FILES = ("**/*.jsonl", "**/agent-*.meta.json")
CODEX_FILES = ("**/rollout-*.jsonl*",)
GEMINI_FILES = ("*/chats/**/session-*.json*", "*/chats/**/*.jsonl")
INSPECT_FILES = ("**/*.eval", "**/*.json")


@dataclass(frozen=True, slots=True)
class Source:
    """A folder in which a client keeps sessions."""

    client: str
    folder: Path
    patterns: tuple[str, ...]

    def files(self) -> list[Path]:
        """Its session files, the oldest first."""
        found = {path for pattern in self.patterns for path in self.folder.glob(pattern) if path.is_file()}
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path))


@dataclass(frozen=True, slots=True)
class Holding:
    """What lies in a source now."""

    source: Source
    files: int
    size_bytes: int
    first: datetime
    last: datetime
    """When the oldest and the newest file were last written."""


def sources(environment: Mapping[str, str], user_home: Path) -> list[Source]:
    """The folders that exist, by the clients' own defaults and environment variables."""
    return [source for source in _all(environment, user_home) if source.folder.is_dir()]


def _all(environment: Mapping[str, str], user_home: Path) -> Iterator[Source]:
    moved = environment.get("CLAUDE_CONFIG_DIR", "")
    roots = [Path(part.strip()).expanduser() for part in moved.split(",") if part.strip()]
    for root in roots or [user_home / ".claude", user_home / ".config" / "claude"]:
        yield Source("Claude Code", root / "projects", CLAUDE_FILES)
    codex = Path(environment.get("CODEX_HOME") or user_home / ".codex").expanduser()
    yield Source("Codex", codex / "sessions", CODEX_FILES)
    yield Source("Codex (archived)", codex / "archived_sessions", CODEX_FILES)
    gemini = Path(environment.get("GEMINI_CLI_HOME") or user_home).expanduser()
    yield Source("Gemini CLI", gemini / ".gemini" / "tmp", GEMINI_FILES)
    logs = environment.get("INSPECT_LOG_DIR", "")
    if logs and "://" not in logs:
        yield Source("Inspect", Path(logs).expanduser(), INSPECT_FILES)


def holding(source: Source) -> Holding | None:
    """How much a source holds; None if nothing."""
    facts = [path.stat() for path in source.files()]
    if not facts:
        return None
    times = [fact.st_mtime for fact in facts]
    first, last = (datetime.fromtimestamp(moment, UTC) for moment in (min(times), max(times)))
    return Holding(source, len(facts), sum(fact.st_size for fact in facts), first, last)
