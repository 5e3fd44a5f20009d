"""Blobs on disk: content under its SHA-256, checked before anyone sees it, masked before it is kept."""

import contextlib
import errno
import fcntl
import hashlib
import mmap
import os
import re
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from models import failpoints
from models.errors import LimitHit, MalformedInput, TachographError
from models.redaction import Counts, Redactor

WINDOW_BYTES = 4 * 1024 * 1024
OVERLAP_BYTES = 64 * 1024
"""No secret is longer than this; a window of a large blob is cut at least so far before its end."""

STALE_SECONDS = 24 * 3600.0
SWEEP_SECONDS = 3600.0
_SHA256 = re.compile(r"[0-9a-f]{64}")


class NotTheHash(MalformedInput):
    """What came has another hash than its address says."""


class NoRoom(LimitHit):
    """The disk has too little room left; the sender should come back later."""


class BlobUnwritable(TachographError):
    """The disk does not take it, for another reason than room."""


class BlobDamaged(TachographError):
    """The stored file is not what was stored; it was put aside."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored blob."""

    sha256: str
    """Its address: the hash of what was sent."""

    stored_sha256: str
    """The hash of what is stored; another one if secrets were masked on arrival."""

    size_bytes: int
    redactions: Counts
    path: Path


class Part:
    """An upload that is not complete; one writer at a time, also across processes."""

    def __init__(self, descriptor: int, path: Path, *, private: bool = False) -> None:
        self.path = path
        self._private = private
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._open = True

    def append(self, block: bytes) -> None:
        """Add to its end."""
        with self._held() as descriptor:
            view = memoryview(block)
            while view:
                count = os.pwrite(descriptor, view, self.size)
                view, self.size = view[count:], self.size + count

    def rewind(self, size: int) -> None:
        """Forget what comes after so many bytes."""
        with self._held() as descriptor:
            os.ftruncate(descriptor, size)
            self.size = size

    @contextlib.contextmanager
    def _held(self) -> Iterator[int]:
        # The event loop may give up on a write that a thread is at; the descriptor must not become another file's.
        with self._lock, _told():
            if not self._open:
                raise BlobUnwritable("the upload was given up")
            yield self._descriptor

    def sha256(self) -> str:
        """The hash of what is there, as it is on disk."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def close(self) -> None:
        """Let go of it; what came stays for another attempt, unless it is private."""
        with self._lock:
            if self._open:
                self._open = False
                if self._private:
                    self.path.unlink(missing_ok=True)
                os.close(self._descriptor)


class BlobStore:
    """The blobs of one home; several receivers may work in it at once.

    `ab/<sha256>` is a blob, `<sha256>.note` beside it says what was masked in it, `incoming/` is not complete yet and
    never read, `damaged/` was found to be another content than it was.
    """

    def __init__(self, folder: Path, redactor: Redactor, *, reserve_bytes: int = 0) -> None:
        self.folder = folder
        self._redactor = redactor
        self._reserve_bytes = reserve_bytes
        self._incoming = folder / "incoming"
        self._swept_at: float | None = None

    # --- reading -----------------------------------------------------------------------------------------------

    def find(self, sha256: str) -> Blob | None:
        """A blob that is there; None otherwise."""
        path = self._file(sha256)
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return None
        try:
            note = orjson.loads(_note(path).read_bytes())
            return Blob(sha256, note["stored_sha256"], size, note["redactions"], path)
        except (FileNotFoundError, ValueError, LookupError, TypeError):  # with a damaged note it will fail its check
            return Blob(sha256, sha256, size, {}, path)

    def checked(self, sha256: str) -> Blob | None:
        """As `find`, its content compared with its hash; raises BlobDamaged."""
        blob = self.find(sha256)
        if blob is None:
            if (self.folder / "damaged" / sha256).exists():
                raise _damaged(sha256)
            return None
        try:
            with blob.path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:  # put aside by another reader in this moment
            raise _damaged(sha256) from None
        if digest != blob.stored_sha256:
            aside = self.folder / "damaged"
            aside.mkdir(exist_ok=True, mode=0o700)
            with contextlib.suppress(FileNotFoundError):  # another reader was first
                blob.path.replace(aside / sha256)
            raise _damaged(sha256)
        return blob

    def offset(self, sha256: str) -> int:
        """How many bytes of an incomplete upload are there."""
        try:
            return self._part_file(sha256).stat().st_size
        except FileNotFoundError:
            return 0

    # --- storing -----------------------------------------------------------------------------------------------

    def require_room(self, size_bytes: int) -> None:
        """Refuse what would leave too little room for the journal; raises NoRoom."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        room = os.statvfs(self.folder)
        if room.f_bavail * room.f_frsize - size_bytes < self._reserve_bytes:
            raise NoRoom("blob_reserve_bytes", self._reserve_bytes, next_step="free some disk room")

    def keep(self, sha256: str, data: bytes) -> Blob:
        """Store a whole blob from memory, durably; its secrets never touch the disk."""
        if hashlib.sha256(data).hexdigest() != sha256:
            raise NotTheHash("the body's SHA-256 is not the one in the address")
        masked, counts = self._redactor.mask_bytes(data)
        with _told():
            path = self._temporary(sha256)
            try:
                path.write_bytes(masked)
                return self._publish(sha256, path, counts)
            except BaseException:
                path.unlink(missing_ok=True)
                raise

    def part(self, sha256: str, *, resumable: bool) -> Part | None:
        """The incomplete upload, for one writer; None if another has it. Not resumable: a private one, for once."""
        self._sweep()
        with _told():
            if not resumable:
                path = self._temporary(sha256)
                return Part(_locked(path), path, private=True)
            self._incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self._part_file(sha256)
            while True:
                try:
                    descriptor = _locked(path)
                except BlockingIOError:
                    return None
                with contextlib.suppress(FileNotFoundError):
                    if os.fstat(descriptor).st_ino == path.stat().st_ino:
                        return Part(descriptor, path)
                os.close(descriptor)  # it was completed, or swept, between opening and locking

    def append(self, part: Part, block: bytes) -> None:
        """Add to an incomplete upload while there is room."""
        self.require_room(len(block))
        part.append(block)

    def complete(self, sha256: str, part: Part) -> Blob:
        """Turn a full upload into a blob, durably; raises NotTheHash, and then nothing of it stays."""
        with _told():
            if part.sha256() != sha256:
                part.path.unlink(missing_ok=True)
                raise NotTheHash("the SHA-256 of what came is not the one in the address")
            masked = self._masked(sha256, part.path)
            if masked is None:
                return self._publish(sha256, part.path, {})
            path, counts = masked
            blob = self._publish(sha256, path, counts)
            part.path.unlink(missing_ok=True)
            return blob

    def discard(self, part: Part) -> None:
        """Forget an incomplete upload."""
        part.path.unlink(missing_ok=True)

    def _masked(self, sha256: str, path: Path) -> tuple[Path, Counts] | None:
        """A masked copy, and what was masked; None if there is nothing to mask. Large files are never held whole."""
        counts: Counter[str] = Counter()
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            with memoryview(content) as view:
                suspected = self._redactor.suspects(view)
            if not suspected:
                return None
            copy = self._temporary(sha256)
            try:
                with copy.open("wb") as target:
                    for piece, found in masked_pieces(content, self._redactor):
                        target.write(piece)
                        counts.update(found)
            except BaseException:
                copy.unlink(missing_ok=True)
                raise
        if counts:
            return copy, dict(counts)
        copy.unlink()
        return None

    def _publish(self, sha256: str, path: Path, counts: Counts) -> Blob:
        """Give content its name, when it is on disk."""
        with path.open("rb") as file:
            os.fsync(file.fileno())
            stored = hashlib.file_digest(file, "sha256").hexdigest() if counts else sha256
            size = os.fstat(file.fileno()).st_size
        final = self._file(sha256)
        if not final.parent.is_dir():
            final.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sync(self.folder)
        note = _note(final)
        if counts:  # first, so that masked content is never without it
            told = {"stored_sha256": stored, "redactions": counts}
            unfinished = self._temporary(sha256)
            with unfinished.open("wb") as file:
                file.write(orjson.dumps(told))
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(note)
        else:
            note.unlink(missing_ok=True)
        failpoints.reached("blobs.before_publish")
        path.replace(final)
        _sync(final.parent)
        failpoints.reached("blobs.after_publish")
        (self.folder / "damaged" / sha256).unlink(missing_ok=True)
        return Blob(sha256, stored, size, counts, final)

    def _file(self, sha256: str) -> Path:
        if not _SHA256.fullmatch(sha256):  # the last of several checks that a name is no path
            raise MalformedInput("a blob's address is its SHA-256 in 64 lower-case hex digits")
        return self.folder / sha256[:2] / sha256

    def _part_file(self, sha256: str) -> Path:
        return self._incoming / f"{self._file(sha256).name}.part"

    def _temporary(self, sha256: str) -> Path:
        self._incoming.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(prefix=f"{sha256[:16]}.", suffix=".tmp", dir=self._incoming)
        os.close(descriptor)
        return Path(name)

    def _sweep(self) -> None:
        """Remove uploads that nobody continued for a day."""
        if self._swept_at is not None and time.monotonic() - self._swept_at < SWEEP_SECONDS:
            return
        self._swept_at = time.monotonic()
        oldest = time.time() - STALE_SECONDS
        for path in self._incoming.iterdir() if self._incoming.is_dir() else ():
            with contextlib.suppress(FileNotFoundError, BlockingIOError):
                if path.stat().st_mtime < oldest:
                    descriptor = _locked(path)
                    path.unlink()
                    os.close(descriptor)


def masked_pieces(content: bytes | mmap.mmap, redactor: Redactor) -> Iterator[tuple[bytes, Counts]]:
    """Content masked in windows: each is cut where masking both sides alone gives the same as masking them together."""
    position = 0
    while position < len(content):
        window = content[position : position + WINDOW_BYTES]
        masked, counts = redactor.mask_bytes(window)
        cut = len(window)
        if position + len(window) < len(content):
            for nth in range(1, 9):
                place = len(window) - nth * OVERLAP_BYTES
                left, left_counts = redactor.mask_bytes(window[:place])
                if left + redactor.mask_bytes(window[place:])[0] == masked:
                    cut, masked, counts = place, left, left_counts
                    break
        yield masked, counts
        position += cut


def _damaged(sha256: str) -> BlobDamaged:
    return BlobDamaged(
        f"the stored blob {sha256} is damaged and was put aside", next_step="send it again; and check the disk"
    )


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.note")


def _locked(path: Path) -> int:
    """Open a file for one writer; raises BlockingIOError if another has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """The disk's trouble in our words; a lock that another holds is none."""
    try:
        yield
    except BlockingIOError:
        raise
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoRoom("disk room", next_step="free some disk room") from problem
        raise BlobUnwritable(f"blobs cannot be written: {problem.strerror}") from problem
