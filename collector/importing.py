"""Bringing files into the record: the same checks and masking as for what comes over the wire."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from collector.home import Home
from ingest.event_check import check_lines
from ingest.importers import Piece, Problem, importer_for
from ingest.importers.importer import opened
from ingest.otlp.check import Checked, check
from journal import Entry, Journal
from models.errors import MalformedInput, TachographError
from models.redaction import Redactor


@dataclass(slots=True)
class Imported:
    """What came of an import."""

    files: int = 0
    items: int = 0
    redactions: int = 0
    position: int = 0
    """The last journal position written."""

    problems: list[Problem] = field(default_factory=list)


def files_in(paths: tuple[Path, ...]) -> list[Path]:
    """The files named, and those in the folders named, that some importer might read."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(inner for inner in path.rglob("*") if inner.is_file() and not inner.name.startswith("."))
        else:
            found.append(path)
    return found


def import_files(
    home: Home, paths: list[Path], *, strict: bool, told: Callable[[Path], None] = lambda _: None
) -> Imported:
    """Journal every file; a file or line that cannot be read costs itself and is reported.

    With `strict` a file that no importer recognises is a problem too; otherwise it is passed over.
    """
    home.make()
    done = Imported()
    redactor = Redactor(home.redaction_key())
    with Journal(home.journal, compress=False) as journal:
        for path in paths:
            told(path)
            try:
                _import_file(path, journal, redactor, done)
            except MalformedInput as problem:
                if strict:
                    done.problems.append(Problem(path, 1, problem.reason))
            except (OSError, EOFError) as problem:
                done.problems.append(Problem(path, 1, str(problem)))
    return done


def _import_file(path: Path, journal: Journal, redactor: Redactor, done: Imported) -> None:
    importer = importer_for(path)
    with opened(path) as content:
        for piece in importer.read(path, content):
            if isinstance(piece, Problem):
                done.problems.append(piece)
                continue
            for entry in _entries(path, piece, redactor, done):
                done.position = journal.append(entry)[-1]
    done.files += 1


def _entries(path: Path, piece: Piece, redactor: Redactor, done: Imported) -> Iterator[Entry]:
    try:
        checked = _checked(piece, redactor)
    except TachographError as problem:
        done.problems.append(Problem(path, piece.lines[0], problem.message))
        return
    if checked.rejected:
        done.problems.append(Problem(path, piece.lines[0], f"{checked.rejected} refused: {checked.message}"))
    done.items += checked.items
    done.redactions += sum(checked.redactions.values())
    if checked.items:
        kind = "events" if piece.source == "events" else f"otlp.{piece.source}"
        meta: dict[str, object] = {"content": piece.encoding, "file": path.name, "lines": piece.lines}
        if checked.redactions:
            meta["redactions"] = checked.redactions
        yield Entry(kind, checked.body, meta, checked.items)


def _checked(piece: Piece, redactor: Redactor) -> Checked:
    if piece.source == "events":
        return check_lines(piece.body, redactor, first_line=piece.lines[0])
    return check(piece.source, piece.body, piece.encoding, redactor)
