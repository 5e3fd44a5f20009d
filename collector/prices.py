"""The prices a home goes by: which table and which file of the user's own, both kept in the home folder."""

import contextlib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import orjson
from genai_prices import data_snapshot

from journal.segment import sync_folder
from models import price_data, price_file
from models.errors import MalformedInput, UsageError
from models.price_file import OwnPrices
from models.pricing import TABLE_VERSION, PriceTable, installed
from store.repricing import Outcome

INSTALLED = "installed"
"""In place of a version: whatever table comes with the program."""

MAX_FILE_BYTES = 64 * 1024 * 1024
_MEND = "choose prices with `tachograph reprice`"


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen: the version of a table, or `installed`, and the digest of a file of the user's own."""

    table: str = INSTALLED
    own: str | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A table or a file that this home has, so that it can be gone back to."""

    version: str
    path: Path


class Prices:
    """The folder `prices` of a home.

    `choice.json` says what is gone by; everything that makes the index reads it, so a rebuild gives the same costs. The
    tables and files themselves are kept beside it as they were when they were chosen: a version named by a cost can be
    looked up, and gone back to, when the program is upgraded or the user's file has changed.
    """

    def __init__(self, home: Path) -> None:
        self.folder = home / "prices"

    def table(self) -> PriceTable:
        """What the home goes by; raises MalformedInput if what was chosen cannot be read any more."""
        choice = self.choice()
        own = None if choice.own is None else self._own(choice.own)
        if choice.table in (INSTALLED, TABLE_VERSION):
            self._keep_installed()
            return installed() if own is None else PriceTable(data_snapshot.get_snapshot(), TABLE_VERSION, own)
        return PriceTable(self._snapshot(choice.table), choice.table, own)

    def choice(self) -> Choice:
        """What was chosen; before anything was, the installed table alone."""
        path = self.folder / "choice.json"
        try:
            told = orjson.loads(path.read_bytes())
            return Choice(str(told["table"]), told["own"])
        except FileNotFoundError:
            return Choice()
        except (orjson.JSONDecodeError, KeyError, TypeError) as problem:
            raise MalformedInput(f"cannot be read: {problem}", str(path), next_step=_MEND) from None

    def choose(self, asked: Sequence[str], own: Path | None) -> PriceTable:
        """Go by the tables, files and versions asked for; by none: the installed table and the user's own file.

        `own` is that file as set; without it the one that was chosen before stays. Raises UsageError or MalformedInput,
        and then everything stays as it was.
        """
        if asked:
            choice = self._resolved(asked)
        else:
            choice = Choice(INSTALLED, self.keep_own(own) if own is not None else self.choice().own)
        before = self.choice() if (self.folder / "choice.json").exists() else None
        self._write("choice.json", orjson.dumps(asdict(choice)))
        try:
            return self.table()
        except MalformedInput:
            if before is not None:
                self._write("choice.json", orjson.dumps(asdict(before)))
            raise

    def take_own(self, path: Path) -> None:
        """Go by a file of the user's own from now on, beside the table that is chosen."""
        digest = self.keep_own(path)
        choice = self.choice()
        if choice.own != digest:
            self._write("choice.json", orjson.dumps(asdict(Choice(choice.table, digest))))

    def keep_own(self, path: Path) -> str:
        """Check a price file and keep a copy; its digest. Raises MalformedInput, which names the line and the field."""
        content = _read(path)
        digest = _check_own(content, path.name).digest
        if self._own_path(digest) is None:
            self._write(f"own/{digest}/{path.name}", content)
        return digest

    def keep_table(self, path: Path) -> str:
        """Check a table of genai-prices and keep a copy; its version."""
        content = _read(path)
        price_data.parse(content, path.name)
        version = price_data.version(content)
        self._write(f"tables/{version}.json", content)
        return version

    def kept(self) -> list[Kept]:
        """Tables and files that can be gone back to."""
        tables = [Kept(path.stem, path) for path in sorted((self.folder / "tables").glob("*.json"))]
        own = [
            Kept(f"{path.name} sha256:{path.parent.name[: price_file.DIGEST_CHARS]}", path)
            for path in sorted((self.folder / "own").glob("*/*"))
        ]
        return tables + own

    def note(self, outcome: Outcome) -> None:
        """Write down that costs were made anew, and what came of it."""
        told = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **asdict(outcome)}
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "repricings.jsonl").open("ab") as file:
            file.write(orjson.dumps(told) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _resolved(self, asked: Sequence[str]) -> Choice:
        """What the words of the command line stand for."""
        tables: list[str] = []
        own: list[str] = []
        for word in (part.strip() for text in asked for part in text.split(" + ")):
            path = Path(word)
            if word == INSTALLED:
                tables.append(INSTALLED)
            elif path.is_file():
                is_table = price_data.is_table(_read(path))
                (tables if is_table else own).append(self.keep_table(path) if is_table else self.keep_own(path))
            else:
                found = self._version(word)
                digest = found.path.parent.name if found.path.parent.parent.name == "own" else None
                (own if digest else tables).append(digest or found.version)
        if len(tables) > 1 or len(own) > 1:
            raise UsageError("only one table, and one file of your own beside it, can be gone by")
        return Choice(tables[0] if tables else INSTALLED, own[0] if own else None)

    def _version(self, word: str) -> Kept:
        self._keep_installed()
        fitting = [one for one in self.kept() if word in (one.version, *one.version.replace("sha256:", " ").split())]
        if len(fitting) == 1:
            return fitting[0]
        known = "; ".join(one.version for one in self.kept())
        raise UsageError(f"there is no file and no known version {word!r}", next_step=f"this home knows: {known}")

    def _keep_installed(self) -> None:
        if not (self.folder / "tables" / f"{TABLE_VERSION}.json").exists():
            document = price_data.document(data_snapshot.get_snapshot().providers)
            self._write(f"tables/{TABLE_VERSION}.json", document)

    def _snapshot(self, version: str) -> data_snapshot.DataSnapshot:
        path = self.folder / "tables" / f"{version}.json"
        try:
            return data_snapshot.DataSnapshot(price_data.parse(path.read_bytes(), str(path)), from_auto_update=False)
        except OSError as problem:
            raise MalformedInput(f"the chosen table is gone: {problem}", str(path), next_step=_MEND) from None

    def _own_path(self, digest: str) -> Path | None:
        return next((self.folder / "own" / digest).glob("*"), None)

    def _own(self, digest: str) -> OwnPrices:
        path = self._own_path(digest)
        if path is None:
            folder = str(self.folder / "own" / digest)
            raise MalformedInput("the chosen price file is gone", folder, next_step=_MEND)
        found = _check_own(path.read_bytes(), path.name)
        if found.digest != digest:
            raise MalformedInput("the chosen price file was changed", str(path), next_step=_MEND)
        return found

    def _write(self, name: str, content: bytes) -> None:
        """Whole or not at all, also if the machine stops."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        mine = self.folder / f".{hashlib.sha256(name.encode()).hexdigest()[:16]}.{os.getpid()}"
        try:
            with mine.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            mine.replace(path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                mine.unlink()
        sync_folder(path.parent)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise MalformedInput(f"is larger than {MAX_FILE_BYTES} bytes", str(path))
        return path.read_bytes()
    except OSError as problem:
        raise MalformedInput(problem.strerror or str(problem), str(path)) from None


def _check_own(content: bytes, name: str) -> OwnPrices:
    try:
        return price_file.parse(content.decode(), name)
    except UnicodeDecodeError:
        raise MalformedInput("is not UTF-8 text", name) from None
