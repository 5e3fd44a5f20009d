"""Texts behind refs, and turns made of them, the ones used lately held in memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from runtime.contents import ContentDamaged, ContentMissing, Contents, fit
from runtime.loop.action import ResultPolicy
from runtime.loop.results import POLICIES

if TYPE_CHECKING:
    from runtime.loop.conversation import Conversation

HELD_CHARACTERS = 16 * 1024 * 1024
HELD_TURNS = 1_000


class Turns:
    """Turns that have ended, as a model gets them."""

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, str], Conversation] = OrderedDict()

    def get(self, key: tuple[str, str]) -> Conversation | None:
        """The turn of a session, if it is held."""
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)

    def hold(self, key: tuple[str, str], turn: Conversation) -> None:
        """Hold it, and let go of the one unused for longest."""
        self._held[key] = turn
        if len(self._held) > HELD_TURNS:
            self._held.popitem(last=False)


class Texts:
    """Reads contents as text. The conversation is read anew for every call of a model, so it is worth holding."""

    def __init__(self, contents: Contents, held_characters: int = HELD_CHARACTERS) -> None:
        self._contents = contents
        self._most = held_characters
        self._held: OrderedDict[str, str] = OrderedDict()
        self._characters = 0
        self.turns = Turns()

    def get(self, ref: str | None) -> str | None:
        """The text; None if it cannot be read."""
        if ref is None:
            return None
        if ref in self._held:
            self._held.move_to_end(ref)
            return self._held[ref]
        try:
            text = self._contents.text(ref)
        except (ContentMissing, ContentDamaged, OSError):
            return None
        self._hold(ref, text)
        return text

    def shown(self, ref: str, policy: ResultPolicy) -> str | None:
        """A stored result as the model gets it by a policy; None if it cannot be read."""
        name = f"{policy} {ref}"
        if name in self._held:
            self._held.move_to_end(name)
            return self._held[name]
        whole = self.get(ref)
        if whole is None:
            return None
        text = fit(self._contents, whole, POLICIES[policy]).text
        self._hold(name, text)
        return text

    def _hold(self, name: str, text: str) -> None:
        self._held[name] = text
        self._characters += len(text)
        while self._characters > self._most:
            self._characters -= len(self._held.popitem(last=False)[1])
