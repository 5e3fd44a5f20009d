"""The text of an answer, told as it comes in and masked before any of it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from models.payload import Payload
from models.redaction import Redactor
from runtime.providers import facts
from runtime.providers.provider import Chunk, LimitChunk, ReasoningChunk, TextChunk, ToolArgsChunk

LOOK_BACK = 256
"""So many characters told before may give away that what follows is a secret."""

KEY_BEGIN, KEY_END = "-----BEGIN", "-----END"
KEY_CHARACTERS = 64 * 1024
"""A private key is not longer; what is longer is none."""


class MaskedStream:
    """Gives out a text word by word, and never a part of a secret, over however many pieces it is spread.

    A secret has no blanks in it, or the words before it give it away; only a private key is longer than a line. So a
    word is told when it is whole, but a line that may hold a secret when it has ended, and a key when it has.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before = ""
        """What was told of the line, as far as it matters."""

        self._held = ""
        self._suspect = False
        """Whether the line may hold a secret."""

    def take(self, piece: str) -> str:
        """Add a piece; gives what can be told now."""
        self._held += piece
        told = ""
        if "\n" in piece and (end := self._lines()):
            told = self._masked(self._held[:end])
            self._held, self._before, self._suspect = self._held[end:], "", False
        if not self._suspect and (" " in piece or "\t" in piece):
            told += self._words()
        return told

    def end(self) -> str:
        """The text has ended; gives the rest."""
        rest, self._held = self._masked(self._held), ""
        self._before, self._suspect = "", False
        return rest

    def _lines(self) -> int:
        """How much of what is held are whole lines that can be masked by themselves."""
        end = self._held.rfind("\n") + 1
        begin = self._held.rfind(KEY_BEGIN, 0, end)
        if begin < 0 or self._held.find(KEY_END, begin, end) >= 0 or end - begin > KEY_CHARACTERS:
            return end
        return self._held.rfind("\n", 0, begin) + 1

    def _words(self) -> str:
        """The whole words of what is held, if nothing about the line is suspect."""
        end = max(self._held.rfind(" "), self._held.rfind("\t")) + 1
        words = self._held[:end]
        self._suspect = self._redactor.suspects((self._before + words).encode("utf-8", "surrogatepass"))
        if self._suspect:
            return ""
        self._held, self._before = self._held[end:], (self._before + words)[-LOOK_BACK:]
        return words

    def _masked(self, text: str) -> str:
        masked, _ = self._redactor.mask_text(self._before + text)
        return masked.removeprefix(self._before)


Piece = TextChunk | ReasoningChunk | ToolArgsChunk
Key = tuple[type[Piece], int]


class Pieces:
    """Tells the pieces of one answer as facts; text and reasoning are told to their end before anything else is."""

    def __init__(self, redactor: Redactor, tell: Callable[[Payload], None]) -> None:
        self._redactor = redactor
        self._tell = tell
        self._streams: dict[Key, tuple[MaskedStream, Piece]] = {}
        self._last: Key | None = None
        self._told = 0

    def take(self, chunk: Chunk) -> None:
        """A chunk came; those that are no pieces of text only end the text before them."""
        if isinstance(chunk, LimitChunk):
            return
        key = _key(chunk)
        if key != self._last and self._last is not None and self._last[0] is not ToolArgsChunk:
            self._end(self._last)  # arguments of several calls may come by turns, so those end with the answer
        self._last = key
        if key is None or not isinstance(chunk, Piece):
            return
        stream = self._streams[key][0] if key in self._streams else MaskedStream(self._redactor)
        self._streams[key] = (stream, chunk)
        self._fact(chunk, stream.take(chunk.text))

    def end(self) -> None:
        """The answer has ended, one way or another."""
        for key in list(self._streams):
            self._end(key)
        self._last = None

    def _end(self, key: Key) -> None:
        if (held := self._streams.pop(key, None)) is not None:
            stream, chunk = held
            if rest := stream.end():
                self._fact(chunk, rest)

    def _fact(self, chunk: Piece, text: str) -> None:
        withheld = isinstance(chunk, ReasoningChunk) and chunk.redacted
        payload = facts.fact(replace(chunk, text=text), self._told) if text or withheld else None
        if payload is not None:
            self._told += 1
            self._tell(payload)


def _key(chunk: Chunk) -> Key | None:
    match chunk:
        case TextChunk():
            return TextChunk, chunk.content_index
        case ReasoningChunk():
            return ReasoningChunk, int(chunk.redacted)
        case ToolArgsChunk():
            return ToolArgsChunk, chunk.index
        case _:
            return None
