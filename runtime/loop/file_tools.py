"""Tools that look into the workspace: read, list, find by name, find by content; each bounded in time and size."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

import re2

from runtime.loop.progress import Progress, Report, unheard
from runtime.loop.workspace import Entry, ToolFault, Workspace, is_binary

READ_LINES = 2_000
READ_BYTES = 256 * 1024
"""The most that one call of read_file returns."""

LIST_ENTRIES = 1_000
FOUND_PATHS = 1_000
FOUND_LINES = 500
LINE_CHARACTERS = 400
"""A longer line is cut where it is only a find."""

SEARCHED_FILE_BYTES = 4 * 1024 * 1024
SEARCHED_BYTES = 256 * 1024 * 1024
VISITED_ENTRIES = 200_000
SEARCH_SECONDS = 20.0
REPORT_ENTRIES = 1_000
REPORT_BYTES = 8 * 1024 * 1024
"""A search tells how far it is after so many files or bytes: not by the clock, so the same search tells the same."""

PATTERN_CHARACTERS = 1_000
SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache"})
"""Folders that are not searched unless they are named as the place to search."""


def read_file(workspace: Workspace, path: str, start_line: int = 1, line_count: int | None = None) -> str:
    """Some lines of a text file, with a word on how to go on where there are more."""
    content = workspace.read(path)
    if is_binary(content):
        return f"[{path} is not text: {len(content):,} bytes, beginning with {content[:16].hex(' ')}]"
    lines = content.decode("utf-8", "replace").splitlines(keepends=True)
    if not lines:
        return f"[{path} is empty]"
    if start_line > len(lines):
        raise ToolFault("invalid_arguments", f"{path} has {len(lines)} lines; start_line {start_line} is after the end")
    wanted = lines[start_line - 1 : start_line - 1 + min(line_count or READ_LINES, READ_LINES)]
    chosen: list[str] = []
    size = 0
    for line in wanted:
        size += len(line.encode("utf-8", "replace"))
        if size > READ_BYTES and chosen:
            break
        chosen.append(line)
    last = start_line - 1 + len(chosen)
    text = "".join(chosen)
    if start_line == 1 and last == len(lines):
        return text
    onwards = f"; go on with start_line={last + 1}" if last < len(lines) else ""
    return f"{text.rstrip(chr(10))}\n[lines {start_line}-{last} of {len(lines)} of {path}{onwards}]"


def list_files(workspace: Workspace, path: str = ".") -> str:
    """What a folder holds, one entry a line, folders with a slash at the end."""
    entries = workspace.entries(path)
    lines = [f"{entry.path}/" if entry.is_folder else f"{entry.path}  {entry.size_bytes} bytes" for entry in entries]
    if not lines:
        return f"[{path} is empty]"
    return _listed(lines, LIST_ENTRIES, "entries")


def glob(workspace: Workspace, pattern: str, path: str = ".", *, report: Report = unheard) -> str:
    """The files under a folder whose path fits a pattern."""
    fits = compile_glob(pattern)
    search = _Search(workspace, report)
    found: list[str] = []
    for entry in search.files(path):
        if fits.fullmatch(_below(entry.path, path)):
            found.append(entry.path)
            search.found(entry.path)
    if not found:
        return f"[no file fits {pattern}{search.told}]"
    return _listed(sorted(found), FOUND_PATHS, "files") + search.told


def grep(
    workspace: Workspace,
    pattern: str,
    path: str = ".",
    glob: str | None = None,
    ignore_case: bool = False,
    *,
    report: Report = unheard,
) -> str:
    """Lines that fit a regular expression, as `path:line:text`."""
    fits = _compile(pattern, ignore_case)
    named = compile_glob(glob) if glob is not None else None
    search = _Search(workspace, report)
    lines: list[str] = []
    for entry in search.readable(path):
        if named is not None and not named.fullmatch(_below(entry.path, path)):
            continue
        for number, line in search.lines(entry):
            if fits.search(line):
                lines.append(f"{entry.path}:{number}:{line[:LINE_CHARACTERS]}")
                search.found(lines[-1])
                if len(lines) >= FOUND_LINES:
                    return "\n".join(lines) + f"\n[stopped after {FOUND_LINES} lines; search more narrowly]"
    if not lines:
        return f"[nothing fits {pattern}{search.told}]"
    return "\n".join(lines) + search.told


@dataclass(frozen=True)
class _Bound:
    entries: int = VISITED_ENTRIES
    size_bytes: int = SEARCHED_BYTES
    seconds: float = SEARCH_SECONDS


class _Search:
    """A walk through the workspace that ends in time, and says so if it did not see all."""

    def __init__(self, workspace: Workspace, report: Report = unheard, bound: _Bound | None = None) -> None:
        self._workspace = workspace
        self._report = report
        self._bound = bound or _Bound()
        self._until = time.monotonic() + self._bound.seconds
        self._visited = 0
        self._read_bytes = 0
        self._stopped: str | None = None
        self._finds = 0
        self._latest: str | None = None
        self._reported = (0, 0)

    @property
    def told(self) -> str:
        """A sentence for the model if the walk was cut short."""
        return f"\n[the search stopped early: {self._stopped}; name a smaller folder]" if self._stopped else ""

    def found(self, find: str) -> None:
        """Something was found."""
        self._finds, self._latest = self._finds + 1, find

    def _tell(self) -> None:
        """Report, if enough was done since the last time."""
        entries, size_bytes = self._reported
        if self._visited - entries < REPORT_ENTRIES and self._read_bytes - size_bytes < REPORT_BYTES:
            return
        self._reported = (self._visited, self._read_bytes)
        message = f"{self._visited:,} files and folders seen, {self._read_bytes:,} bytes read, {self._finds:,} found"
        self._report(Progress(message, self._visited, self._latest))

    def _over(self) -> bool:
        if self._visited > self._bound.entries:
            self._stopped = f"more than {self._bound.entries:,} files"
        elif self._read_bytes > self._bound.size_bytes:
            self._stopped = f"more than {self._bound.size_bytes:,} bytes"
        elif time.monotonic() > self._until:
            self._stopped = f"more than {self._bound.seconds:g} seconds"
        return self._stopped is not None

    def files(self, path: str) -> Iterator[Entry]:
        """Every file under a folder; links to folders are not followed."""
        waiting = [self._workspace.name(path)]
        while waiting and not self._over():
            folder = waiting.pop()
            for entry in self._entries(folder, first=folder == path):
                self._visited += 1
                self._tell()
                if not entry.is_folder:
                    yield entry
                elif entry.path.rpartition("/")[2] not in SKIPPED_FOLDERS:
                    waiting.append(entry.path)

    def _entries(self, folder: str, *, first: bool) -> list[Entry]:
        try:
            return self._workspace.entries(folder)
        except ToolFault:
            if first:
                raise
            return []  # it went, or it may not be read

    def readable(self, path: str) -> Iterator[Entry]:
        """The files under a folder, or the file itself."""
        real = self._workspace.locate(path)
        if real.is_file():
            yield Entry(self._workspace.relative(real), False, real.stat().st_size)
            return
        if not real.exists():
            raise ToolFault("not_found", f"there is no {path}")
        yield from self.files(path)

    def lines(self, entry: Entry) -> Iterator[tuple[int, str]]:
        """The numbered lines of a text file; none of one that is large or not text."""
        if self._over() or entry.size_bytes > SEARCHED_FILE_BYTES:
            return
        try:
            content = self._workspace.read(entry.path, SEARCHED_FILE_BYTES)
        except ToolFault:
            return
        self._read_bytes += len(content)
        self._tell()
        if not is_binary(content):
            yield from enumerate(content.decode("utf-8", "replace").splitlines(), 1)


def compile_glob(pattern: str) -> "re2._Regexp":
    """A pattern for paths: `*` and `?` stay within a folder, `**` reaches through any number, `{a,b}` is either."""
    if len(pattern) > PATTERN_CHARACTERS:
        raise ToolFault("invalid_arguments", f"a pattern has at most {PATTERN_CHARACTERS} characters")
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|\{[^{}]*\})", pattern.removeprefix("./"))
    return _compile("".join(_glob_part(part) for part in parts), ignore_case=False)


def _glob_part(part: str) -> str:
    plain = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if part in plain:
        return plain[part]
    if part.startswith("[") and part.endswith("]") and len(part) > 2:
        inner = part[1:-1].replace("\\", "\\\\")
        return f"[^{inner[1:]}/]" if inner.startswith("!") else f"[{inner}]"
    if part.startswith("{") and part.endswith("}"):
        return (
            "(?:"
            + "|".join(
                _glob_part(choice) if choice in plain else re2.escape(choice) for choice in part[1:-1].split(",")
            )
            + ")"
        )
    return str(re2.escape(part))


def _compile(pattern: str, ignore_case: bool) -> "re2._Regexp":
    if len(pattern) > PATTERN_CHARACTERS:
        raise ToolFault("invalid_arguments", f"a pattern has at most {PATTERN_CHARACTERS} characters")
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    options.max_mem = 16 * 1024 * 1024
    try:
        return re2.compile(pattern, options)
    except re2.error as problem:
        raise ToolFault("invalid_arguments", f"not a regular expression (RE2): {_told(problem)}") from problem


def _told(problem: Exception) -> str:
    first = problem.args[0] if problem.args else problem
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(first)


def _below(path: str, folder: str) -> str:
    clean = folder.strip().removeprefix("./").strip("/")
    return path.removeprefix(f"{clean}/") if clean not in ("", ".") else path


def _listed(lines: list[str], most: int, what: str) -> str:
    shown = "\n".join(lines[:most])
    return shown if len(lines) <= most else f"{shown}\n[{len(lines) - most} more {what} are not shown]"
