"""Tools that change files of the workspace, each change whole or not at all."""

import difflib
import hashlib
from dataclasses import dataclass

from runtime.loop.workspace import ToolFault, Workspace, is_binary

DIFF_LINES = 5_000
"""Longer files are not compared line by line."""

SHOWN_MATCHES = 5


@dataclass(frozen=True, slots=True)
class Change:
    """What happened to a file."""

    path: str
    before: bytes | None
    """None: there was none."""

    after: bytes

    @property
    def kind(self) -> str:
        """`created` or `updated`."""
        return "created" if self.before is None else "updated"

    @property
    def sha256(self) -> str:
        """Digest of the new content."""
        return hashlib.sha256(self.after).hexdigest()

    @property
    def previous_sha256(self) -> str | None:
        """Digest of the content before."""
        return None if self.before is None else hashlib.sha256(self.before).hexdigest()

    def diff(self) -> tuple[str, int, int] | None:
        """The difference, lines added and lines removed; None if it is not worth telling or not text."""
        before, after = self.before or b"", self.after
        if is_binary(before) or is_binary(after):
            return None
        old, new = before.decode("utf-8", "replace").splitlines(), after.decode("utf-8", "replace").splitlines()
        if max(len(old), len(new)) > DIFF_LINES:
            return None
        lines = list(difflib.unified_diff(old, new, f"a/{self.path}", f"b/{self.path}", lineterm=""))[2:]
        added = sum(line.startswith("+") for line in lines)
        removed = sum(line.startswith("-") for line in lines)
        return "\n".join((f"--- a/{self.path}", f"+++ b/{self.path}", *lines)), added, removed


def write_file(workspace: Workspace, path: str, content: str) -> tuple[str, Change]:
    """Put a text into a file, new or not."""
    place = workspace.relative(workspace.writable(path))
    before = _before(workspace, place)
    change = Change(place, before, content.encode("utf-8", "surrogatepass"))
    workspace.write(place, change.after)
    lines = content.count("\n") + (not content.endswith("\n") and bool(content))
    return f"{change.kind} {place}: {len(change.after):,} bytes, {lines:,} lines", change


def edit_file(
    workspace: Workspace, path: str, old_text: str, new_text: str, replace_all: bool = False
) -> tuple[str, Change]:
    """Replace a text in a file by another; it has to be there exactly once, unless all are meant."""
    if not old_text:
        raise ToolFault("invalid_arguments", "old_text is empty; use write_file to make a file")
    if old_text == new_text:
        raise ToolFault("invalid_arguments", "old_text and new_text are the same")
    place = workspace.relative(workspace.writable(path))
    before = workspace.read(place)
    if is_binary(before):
        raise ToolFault("not_text", f"{place} is not text")
    text = before.decode("utf-8", "surrogateescape")
    count = text.count(old_text)
    if count == 0:
        raise ToolFault("no_match", _no_match(place, text, old_text))
    if count > 1 and not replace_all:
        raise ToolFault("many_matches", _many_matches(place, text, old_text, count))
    after = text.replace(old_text, new_text) if replace_all else text.replace(old_text, new_text, 1)
    change = Change(place, before, after.encode("utf-8", "surrogateescape"))
    workspace.write(place, change.after)
    return f"updated {place}: {count} {'place' if count == 1 else 'places'} replaced", change


def _before(workspace: Workspace, path: str) -> bytes | None:
    try:
        return workspace.read(path)
    except ToolFault as problem:
        if problem.category == "not_found":
            return None
        raise


def _no_match(path: str, text: str, wanted: str) -> str:
    if wanted.replace("\r\n", "\n") in text.replace("\r\n", "\n"):
        return f"old_text is in {path} only with other line ends (CRLF); repeat them exactly"
    first = next((line.strip() for line in wanted.splitlines() if line.strip()), "")
    near = [number for number, line in enumerate(text.splitlines(), 1) if first and line.strip() == first]
    hint = f"; its first line is on line {', '.join(map(str, near[:SHOWN_MATCHES]))}, the rest differs" if near else ""
    return f"old_text is not in {path}{hint}; read the file and repeat the text exactly, blanks included"


def _many_matches(path: str, text: str, wanted: str, count: int) -> str:
    lines: list[int] = []
    at = -1
    while len(lines) < SHOWN_MATCHES and (at := text.find(wanted, at + 1)) >= 0:
        lines.append(text.count("\n", 0, at) + 1)
    where = ", ".join(map(str, lines))
    return f"old_text is in {path} {count} times (lines {where}); add lines around it, or set replace_all"
