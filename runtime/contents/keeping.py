"""Content behind refs: masked of secrets first, then kept under the hash of what is left."""

import asyncio
import codecs
import hashlib
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from models.errors import TachographError
from models.redaction import Counts, Redactor
from models.values import OutputRef
from runtime.contents.folder import ContentFolder, own_key

PREFIX = "sha256:"
PREVIEW_CHARACTERS = 200
STAGED_BYTES = 8 * 1024 * 1024
"""More than this does not wait in memory for its commit; it is written meanwhile."""

_REF = re.compile(r"sha256:([0-9a-f]{64})")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_BYTEWISE = frozenset({"utf-8", "ascii", "iso8859-1"})
"""Encodings in which the searched patterns are the same bytes as in UTF-8."""


class ContentMissing(TachographError):
    """There is no content behind a ref."""

    def __init__(self, ref: str) -> None:
        super().__init__(f"there is no content {ref[:100]}")
        self.ref = ref


class ContentDamaged(TachographError):
    """The file behind a ref is not what was stored."""

    def __init__(self, ref: str) -> None:
        super().__init__(f"the stored content {ref} is damaged: its hash is another", next_step="check the disk")
        self.ref = ref


class ContentUnwritable(TachographError):
    """Content could not be stored; it stays in memory and is tried again with the next."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"contents cannot be written to {path}: {reason}",
            next_step="free disk room or correct the rights of the folder, then try again",
        )


class Contents:
    """Keeps content of one runtime under `<folder>/contents`.

    `put` returns when it is durable. `stage` returns at once; `settle` waits until everything staged is durable, many
    at the price of one, and belongs before the commit of the facts that refer to it. Content staged or put can be read
    at once. The same content twice is kept once.
    """

    def __init__(self, folder: Path, *, redactor: Redactor | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = ContentFolder(folder / "contents")
        self.on_kept: Callable[[list[str]], None] = lambda _: None
        """Told which contents are new, in the writing thread."""

        self.redactor = redactor or Redactor(own_key(folder))
        """Masks whatever is kept here; facts that carry text themselves are masked by the same."""

        self._lock = threading.Lock()
        self._staged: dict[str, bytes] = {}
        self._writing: dict[str, bytes] = {}
        self._staged_bytes = 0
        self._durable: set[bytes] = set()
        self._now: Future[None] | None = None
        self._next: Future[None] | None = None
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="contents")

    # --- storing -----------------------------------------------------------------------------------------------

    def put(self, data: bytes | str, *, media_type: str = "text/plain", encoding: str = "utf-8") -> OutputRef:
        """Keep content, durably; raises ContentUnwritable. Not for an event loop: there, `stage` and `settle`."""
        ref = self.stage(data, media_type=media_type, encoding=encoding)
        self.settled().result()
        return ref

    def stage(self, data: bytes | str, *, media_type: str = "text/plain", encoding: str = "utf-8") -> OutputRef:
        """Mask and name content; it is on disk after `settle`."""
        return self.staged(data, media_type=media_type, encoding=encoding)[0]

    def staged(
        self, data: bytes | str, *, media_type: str = "text/plain", encoding: str = "utf-8"
    ) -> tuple[OutputRef, Counts]:
        """As `stage`, and how many secrets of which kind were masked."""
        content, text, counts = self._masked(data, encoding)
        sha256 = hashlib.sha256(content).hexdigest()
        self._stage(sha256, content)
        ref = OutputRef(
            ref=PREFIX + sha256,
            media_type=media_type,
            encoding=encoding if text is not None else None,
            size_bytes=len(content),
            sha256=sha256,
            preview=preview(text) if text is not None else None,
            redacted=bool(counts),
        )
        return ref, counts

    def _masked(self, data: bytes | str, encoding: str) -> tuple[bytes, str | None, Counts]:
        """What is kept, the same as text if it is text, and what was masked."""
        name = codecs.lookup(encoding).name
        if isinstance(data, bytes) and name in _BYTEWISE:
            content, counts = self.redactor.mask_bytes(data)
            return content, _decoded(content, name), counts
        text = _decoded(data, name) if isinstance(data, bytes) else data
        if text is None:
            content, counts = self.redactor.mask_bytes(bytes(data))  # type: ignore[arg-type]  # bytes, if not decoded
            return content, None, counts
        text, counts = self.redactor.mask_text(text)
        return text.encode(name, _errors(name)), text, counts

    def _stage(self, sha256: str, content: bytes) -> None:
        with self._lock:
            if bytes.fromhex(sha256) in self._durable or sha256 in self._staged or sha256 in self._writing:
                return
            self._staged[sha256] = content
            self._staged_bytes += len(content)
            early = self._staged_bytes > STAGED_BYTES
        if early:
            self.settled()

    async def settle(self) -> None:
        """Wait until everything staged so far is durable; raises ContentUnwritable."""
        settled = self.settled()
        if not settled.done() or settled.exception() is not None:
            # Shielded: others may wait for the same write.
            await asyncio.shield(asyncio.wrap_future(settled))

    def settled(self) -> "Future[None]":
        """Done when everything staged so far is durable. It is shared: not to be cancelled."""
        with self._lock:
            if self._staged:
                self._next = self._next or self._writer.submit(self._write)
                return self._next
            if self._now is not None:
                return self._now
        nothing: Future[None] = Future()
        nothing.set_result(None)
        return nothing

    def _write(self) -> None:
        """Write all that is staged: what comes while the disk is busy is written together the next time."""
        with self._lock:
            contents, self._staged, self._staged_bytes = self._staged, {}, 0
            self._writing, self._now, self._next = contents, self._next, None
        try:
            fresh = self.folder.write(contents)
        except OSError as problem:
            with self._lock:
                self._staged = contents | self._staged
                self._staged_bytes = sum(map(len, self._staged.values()))
            raise ContentUnwritable(self.folder.path, str(problem)) from problem
        else:
            with self._lock:
                self._durable.update(map(bytes.fromhex, contents))
        finally:
            with self._lock:
                self._writing, self._now = {}, None
        self.on_kept(fresh)

    # --- reading -----------------------------------------------------------------------------------------------

    def get(self, ref: str | OutputRef) -> bytes:
        """The content behind a ref, checked against it; raises ContentMissing or ContentDamaged."""
        sha256 = address(ref)
        with self._lock:
            held = self._staged.get(sha256, self._writing.get(sha256))
        content = held if held is not None else self.folder.read(sha256)
        if content is None:
            raise ContentMissing(PREFIX + sha256)
        if held is None and hashlib.sha256(content).hexdigest() != sha256:
            raise ContentDamaged(PREFIX + sha256)
        return content

    def text(self, ref: str | OutputRef) -> str:
        """The content as text; what is not valid in its encoding becomes U+FFFD."""
        name = codecs.lookup((ref.encoding if isinstance(ref, OutputRef) else None) or "utf-8").name
        content = self.get(ref)
        text = _decoded(content, name)
        return text if text is not None else content.decode(name, "replace")

    def has(self, ref: str | OutputRef) -> bool:
        """Whether there is content behind a ref; it may yet be damaged."""
        sha256 = address(ref)
        with self._lock:
            if sha256 in self._staged or sha256 in self._writing:
                return True
        return self.folder.file(sha256).exists()

    def close(self) -> None:
        """Write what is staged and let go; raises ContentUnwritable if that fails."""
        settled = self.settled()
        self._writer.shutdown()
        self.folder.close()
        settled.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def address(ref: str | OutputRef) -> str:
    """The hash in a ref; raises ContentMissing for anything that is no ref of ours."""
    text = (ref.ref or "") if isinstance(ref, OutputRef) else ref
    match = _REF.fullmatch(text)
    if match is None:
        raise ContentMissing(text)
    return match[1]


def preview(text: str) -> str:
    """A short beginning on one line; `text` is masked already."""
    return _UNSEEN.sub(" ", text[: 2 * PREVIEW_CHARACTERS]).strip()[:PREVIEW_CHARACTERS]


def _errors(encoding: str) -> str:
    # Half a surrogate pair, which some programs print, survives the way to disk and back.
    return "surrogatepass" if encoding.startswith("utf") else "replace"


def _decoded(content: bytes, encoding: str) -> str | None:
    """The text; None if it is none."""
    try:
        text = content.decode(encoding, _errors(encoding) if encoding.startswith("utf") else "strict")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text
