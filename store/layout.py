"""Where things lie in the home folder."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one home folder."""

    home: Path

    @property
    def database(self) -> Path:
        """The index: everything in it can be made again from the journal."""
        return self.home / "index" / "tachograph.duckdb"

    @property
    def lock(self) -> Path:
        """Held by the one process that writes the index."""
        return self.home / "index" / "lock"

    @property
    def journal(self) -> Path:
        """The record itself."""
        return self.home / "journal"

    @property
    def quarantine(self) -> Path:
        """Files that would not open, kept with a note each."""
        return self.home / "quarantine"

    @property
    def socket(self) -> Path:
        """Where the running index answers questions."""
        return self.home / "index.sock"
