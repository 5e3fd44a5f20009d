"""Request bodies within bounds: how many bytes may be held at once, and how far a body may unfold."""

import io
import zlib
from collections.abc import AsyncIterator, Iterator

import zstandard

from ingest.otlp.refusals import TooLarge, Undecodable
from models.errors import TachographError

PIECE_BYTES = 1024 * 1024
MAX_WINDOW_BYTES = 16 * 1024 * 1024
"""A zstd frame that needs a larger window to unfold is refused: the window is memory."""

ENCODINGS = ("identity", "gzip", "zstd")


class Overloaded(TachographError):
    """More is in flight than may be held in memory; the sender should try again soon."""


class UnknownEncoding(TachographError):
    """A content encoding that is not served."""

    def __init__(self, encoding: str) -> None:
        super().__init__(f"content encoding {encoding!r} is not served; use one of {', '.join(ENCODINGS)}")


class Budget:
    """Bytes of requests that may be held in memory at once."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def hold(self) -> "Share":
        """A share for one request, empty at first."""
        return Share(self)


class Share:
    """What one request holds of the budget; given back when the request ends."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.held_bytes = 0

    def grow(self, size: int) -> None:
        """Take more, or raise Overloaded."""
        if self._budget.held_bytes + size > self._budget.limit_bytes:
            raise Overloaded("too many bytes in flight", next_step="try again")
        self._budget.held_bytes += size
        self.held_bytes += size

    def __enter__(self) -> "Share":
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.held_bytes -= self.held_bytes
        self.held_bytes = 0


async def collect(pieces: AsyncIterator[bytes], share: Share, limit_bytes: int) -> bytes:
    """A body as it came over the wire, with or without a length told beforehand."""
    whole = io.BytesIO()  # gives its bytes away without a copy
    async for piece in pieces:
        if whole.tell() + len(piece) > limit_bytes:
            raise TooLarge("max_body_bytes", limit_bytes)
        share.grow(len(piece))
        whole.write(piece)
    return whole.getvalue()


def unfold(body: bytes, encoding: str, share: Share, limit_bytes: int) -> bytes:
    """The body without its content encoding, in pieces, so that a bomb is noticed before it goes off."""
    if encoding == "identity":
        return body
    whole = io.BytesIO()
    try:
        for piece in _gzip(body) if encoding == "gzip" else _zstd(body):
            if whole.tell() + len(piece) > limit_bytes:
                raise TooLarge("max_body_bytes", limit_bytes)
            share.grow(len(piece))
            whole.write(piece)
    except (zlib.error, zstandard.ZstdError, EOFError) as problem:
        raise Undecodable(f"the body is not {encoding}: {problem}") from None
    return whole.getvalue()


def _gzip(body: bytes) -> Iterator[bytes]:
    rest = body
    while rest:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            piece = member.decompress(rest, PIECE_BYTES)
            rest = member.unconsumed_tail
            if not piece and not rest and not member.eof:
                raise EOFError("it breaks off")
            yield piece
        rest = member.unused_data


def _zstd(body: bytes) -> Iterator[bytes]:
    reader = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).stream_reader(
        io.BytesIO(body), read_across_frames=True
    )
    whole = False
    while piece := reader.read(PIECE_BYTES):
        whole = True
        yield piece
    if not whole and body:
        raise EOFError("it breaks off")
