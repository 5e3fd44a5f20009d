"""The home folder: what lies where, and who is running on it."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Home:
    """Paths in the home folder."""

    path: Path

    @property
    def journal(self) -> Path:
        """The record of everything acknowledged."""
        return self.path / "journal"

    @property
    def tokens(self) -> Path:
        """Hashed tokens."""
        return self.path / "tokens.json"

    @property
    def blobs(self) -> Path:
        """Contents that events refer to, under their hash."""
        return self.path / "blobs"

    @property
    def running(self) -> Path:
        """One small file per running process."""
        return self.path / "run"

    def make(self) -> None:
        """Create the folder for its owner's eyes only."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.running.mkdir(exist_ok=True, mode=0o700)

    def redaction_key(self) -> bytes:
        """The key of this home's digests of secrets; made once, whoever comes first."""
        path = self.path / "redaction.key"
        if not path.exists():
            mine = path.with_name(f"{path.name}.{os.getpid()}")
            descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
                file.flush()
                os.fsync(file.fileno())
            with contextlib.suppress(FileExistsError):
                os.link(mine, path)
            mine.unlink()
        return path.read_bytes()

    @contextlib.contextmanager
    def announced(self, role: str, **facts: Any) -> Iterator[None]:
        """Tell other processes that this one is running, until it ends."""
        path = self.running / f"{role}-{os.getpid()}.json"
        path.write_bytes(orjson.dumps({"role": role, "pid": os.getpid(), **facts}))
        try:
            yield
        finally:
            path.unlink(missing_ok=True)

    def processes(self) -> list[dict[str, Any]]:
        """Who is running on this home; what a crash left behind is swept."""
        found = []
        for path in sorted(self.running.glob("*.json")) if self.running.is_dir() else []:
            with contextlib.suppress(FileNotFoundError, orjson.JSONDecodeError):
                facts = orjson.loads(path.read_bytes())
                if _alive(facts["pid"]):
                    found.append(facts)
                else:
                    path.unlink(missing_ok=True)
        return found


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
