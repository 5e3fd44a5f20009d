"""The workspace: the one folder that tools may touch, reached so that no path and no link leads out of it."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from secrets import token_hex

from models.errors import TachographError

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Larger files are neither read whole nor written."""

BINARY_PROBE_BYTES = 8_192
NEVER_WRITTEN = frozenset({".git", ".hg", ".svn"})
"""What is in here may be executed by other programs, so nobody writes it through us."""


class ToolFault(TachographError):
    """A tool could not do what it was asked for; the message is for the model, `category` for counting."""

    def __init__(self, category: str, message: str) -> None:
        super().__init__(message)
        self.category = category


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder of the workspace."""

    path: str
    """From the workspace's root, with slashes."""

    is_folder: bool
    size_bytes: int


class Workspace:
    """A folder and what may be done in it. Links that stay inside are followed; those that lead out are refused."""

    def __init__(self, root: Path, closed: tuple[Path, ...] = ()) -> None:
        self.root = root.resolve()
        inside = [path.resolve() for path in closed]
        self._closed = tuple(path for path in inside if self.root in path.parents)
        """Folders inside that tools may not reach, such as the runtime's own."""

    def locate(self, path: str) -> Path:
        """The real place of a path; raises ToolFault if it is not inside."""
        if "\x00" in path:
            raise ToolFault("invalid_arguments", "a path has no NUL characters")
        try:
            real = (self.root / path.strip()).resolve()
        except (OSError, RuntimeError) as problem:  # too long a name, or links that go in circles
            raise ToolFault("invalid_path", f"{path[:200]} is no usable path: {_reason(problem)}") from problem
        if real != self.root and self.root not in real.parents:
            raise ToolFault(
                "outside_workspace", f"{path[:200]} is outside the workspace; only paths inside are allowed"
            )
        if any(real == closed or closed in real.parents for closed in self._closed):
            raise ToolFault("outside_workspace", f"{path[:200]} belongs to the runtime and cannot be reached")
        return real

    def relative(self, real: Path) -> str:
        """The place as people write it."""
        return real.relative_to(self.root).as_posix()

    def name(self, path: str) -> str:
        """A path in its one spelling; as it is where it cannot be located."""
        try:
            return self.relative(self.locate(path))
        except ToolFault:
            return PurePosixPath(path).as_posix()

    # --- reading -----------------------------------------------------------------------------------------------

    def read(self, path: str, limit_bytes: int = MAX_FILE_BYTES) -> bytes:
        """The whole content of a file."""
        with self._opened(path) as descriptor:
            size = os.fstat(descriptor).st_size
            if size > limit_bytes:
                raise ToolFault("too_large", f"{path} has {size:,} bytes; at most {limit_bytes:,} can be read")
            with os.fdopen(os.dup(descriptor), "rb") as file:
                return file.read(limit_bytes + 1)[:limit_bytes]

    @contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """A file open for reading; raises ToolFault for what is no file."""
        real = self.locate(path)
        try:
            with self._folder(real.parent) as folder:
                # Not blocking: a pipe without a writer must not hold up anybody.
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                descriptor = os.open(real.name or ".", flags, dir_fd=folder)
        except OSError as problem:
            raise self._fault(path, problem) from problem
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise ToolFault("is_a_folder", f"{path} is a folder; list it with list_files")
            if not stat.S_ISREG(mode):
                raise ToolFault("not_a_file", f"{path} is no regular file")
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def _folder(self, real: Path, *, make: bool = False) -> Iterator[int]:
        """A folder, reached from the root step by step without following links.

        `real` has no links in it; a link met on the way was put there meanwhile, and is refused.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in real.relative_to(self.root).parts:
                if make:
                    _make_folder(name, descriptor)
                deeper = os.open(name, flags, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = deeper
            yield descriptor
        finally:
            os.close(descriptor)

    def entries(self, path: str) -> list[Entry]:
        """What a folder holds, by name; links are told as what they are, by their target if it is inside."""
        real = self.locate(path)
        try:
            with self._folder(real) as folder, os.scandir(folder) as found:
                return sorted(self._entries(real, list(found)), key=lambda entry: entry.path)
        except OSError as problem:
            raise self._fault(path, problem) from problem

    def _entries(self, real: Path, found: list[os.DirEntry[str]]) -> Iterator[Entry]:
        for one in found:
            place = real / one.name
            if any(place == closed for closed in self._closed):
                continue
            try:
                told = one.stat(follow_symlinks=False)
            except OSError:
                continue  # it is gone
            yield Entry(self.relative(place), stat.S_ISDIR(told.st_mode), told.st_size)

    # --- writing -----------------------------------------------------------------------------------------------

    def writable(self, path: str) -> Path:
        """The real place of a file that may be written."""
        real = self.locate(path)
        if real == self.root:
            raise ToolFault("is_a_folder", "the workspace itself is no file")
        if NEVER_WRITTEN.intersection(real.relative_to(self.root).parts):
            raise ToolFault("outside_workspace", f"{path} belongs to version control and cannot be written")
        if real.is_dir():
            raise ToolFault("is_a_folder", f"{path} is a folder")
        return real

    def write(self, path: str, content: bytes) -> None:
        """Replace a file, or make it with its folders: after a crash it is the old one or the new one, never a part."""
        if len(content) > MAX_FILE_BYTES:
            raise ToolFault("too_large", f"at most {MAX_FILE_BYTES:,} bytes can be written")
        real = self.writable(path)
        try:
            with self._folder(real.parent, make=True) as folder:
                self._replace(folder, real.name, content)
        except OSError as problem:
            raise self._fault(path, problem) from problem

    @staticmethod
    def _replace(folder: int, name: str, content: bytes) -> None:
        draft = f".{name[:200]}.{token_hex(4)}.tmp"
        try:
            mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except FileNotFoundError:
            mode = None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(draft, flags, 0o666, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                if mode is not None:
                    os.fchmod(file.fileno(), mode)
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            os.unlink(draft, dir_fd=folder)
            raise
        os.fsync(folder)

    @staticmethod
    def _fault(path: str, problem: OSError) -> ToolFault:
        if problem.errno == errno.ENOENT:
            return ToolFault("not_found", f"there is no {path[:200]}")
        if problem.errno in (errno.ENOTDIR, errno.ELOOP):
            return ToolFault("invalid_path", f"{path[:200]} cannot be reached: a part of it is no folder")
        if problem.errno in (errno.EACCES, errno.EPERM):
            return ToolFault("no_access", f"{path[:200]}: the operating system does not allow it")
        return ToolFault("io_error", f"{path[:200]}: {_reason(problem)}")


def _make_folder(name: str, folder: int) -> None:
    """Make a folder unless it is there."""
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return


def is_binary(content: bytes) -> bool:
    """Whether content is not text, by its beginning."""
    probe = content[:BINARY_PROBE_BYTES]
    if b"\x00" in probe:
        return True
    try:
        probe.decode()
    except UnicodeDecodeError as problem:
        return problem.start < len(probe) - 4 or len(content) <= BINARY_PROBE_BYTES
    return False


def _reason(problem: BaseException) -> str:
    return getattr(problem, "strerror", None) or type(problem).__name__
