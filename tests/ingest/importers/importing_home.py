"""A home folder into which files are imported, as users do it, and what can then be asked of it."""

from pathlib import Path
from typing import Any

import store
from cli.loading import load
from collector.home import Home
from collector.importing import Imported, files_in, import_files


def imported(home: Path, *paths: Path, strict: bool = False) -> Imported:
    """Import files or folders and load them."""
    done = import_files(Home(home), files_in(paths), strict=strict)
    load(Home(home))
    return done


def rows(home: Path, query: str) -> list[dict[str, Any]]:
    """The answer to a question."""
    with store.open(home) as reader:
        found: list[dict[str, Any]] = reader.sql(query).to_pylist()
    return found


def one(home: Path, query: str) -> Any:
    """The one value of an answer."""
    (row,) = rows(home, query)
    (value,) = row.values()
    return value
