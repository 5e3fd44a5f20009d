"""Brings the facts of one turn to the kernel, those of the same moment together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from models.payload import Payload
from runtime.kernel import Draft, Kernel
from runtime.telemetry.spans import current_ids

Merge = Callable[[list[Draft]], list[Draft]]


def as_told(drafts: list[Draft]) -> list[Draft]:
    """Facts as they are."""
    return drafts


class Recorder:
    """Stores facts in the order they are told, one commit at a time.

    While a commit is on its way to the disk, what is told meanwhile waits and goes together with the next: many facts
    cost one write. Content that was staged before a fact was told is durable before the fact is.
    """

    def __init__(self, kernel: Kernel, session_id: str, merge: Merge = as_told) -> None:
        self._kernel = kernel
        self._session_id = session_id
        self._merge = merge
        self._waiting: list[Draft] = []
        self._stored: asyncio.Future[None] | None = None
        """Of the facts that wait."""

        self._under_way: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    def tell(self, *drafts: Draft) -> asyncio.Future[None]:
        """Hand over facts; the future is done when they are durable and part of the state."""
        if self._failure is not None:
            raise self._failure
        if self._stored is None:
            self._stored = asyncio.get_running_loop().create_future()
            self._stored.add_done_callback(_noticed)
        self._waiting.extend(_in_span(draft) for draft in drafts)
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._store(), name=f"facts of {self._session_id}")
        return self._stored

    async def record(self, *drafts: Draft) -> None:
        """Store facts, durably."""
        if drafts:
            # Shielded: the facts are on their way, whoever told them may go.
            await asyncio.shield(self.tell(*drafts))

    async def _store(self) -> None:
        try:
            while self._waiting:
                drafts, self._waiting = self._waiting, []
                stored, self._stored = self._stored, None
                try:
                    await self._kernel.contents.settle()
                    await self._kernel.record(self._session_id, *self._merge(drafts))
                except BaseException as problem:
                    self._failure = problem
                    _fail(stored, problem)
                    _fail(self._stored, problem)
                    raise
                if stored is not None and not stored.done():
                    stored.set_result(None)
        finally:
            self._under_way = None

    async def settle(self) -> None:
        """Wait until everything told is stored, even while being cancelled."""
        while (task := self._under_way) is not None:
            await asyncio.wait({task})


def _fail(future: asyncio.Future[None] | None, problem: BaseException) -> None:
    if future is not None and not future.done():
        future.set_exception(problem)


def _noticed(future: asyncio.Future[None]) -> None:
    """Nobody may wait for it; the next fact told raises the failure again."""
    if not future.cancelled():
        future.exception()


def _in_span(draft: Draft) -> Draft:
    """The fact with the ids of the span it is told in: it is stored by another task, outside of the span."""
    if draft.ids.trace_id is not None or not (told := current_ids()):
        return draft
    return draft._replace(ids=draft.ids.model_copy(update=told))


def merged(drafts: list[Draft]) -> list[Draft]:
    """Facts with the pieces of one stream joined, as long as nothing else was told between them."""
    told: list[Draft] = []
    for draft in drafts:
        joined = _joined(told[-1], draft) if told else None
        if joined is None:
            told.append(draft)
        else:
            told[-1] = joined
    return told


def _joined(first: Draft, second: Draft) -> Draft | None:
    kind = first.payload.event_type
    if kind not in PIECES or kind != second.payload.event_type or first.ids != second.ids:
        return None
    one, other = first.payload, second.payload
    if _stream(one) != _stream(other):
        return None
    text = (getattr(one, "text", None) or "") + (getattr(other, "text", None) or "")
    return first._replace(payload=one.model_copy(update={"text": text, "chars": len(text)}))


PIECES = frozenset({"model.delta", "reasoning.delta"})


def _stream(payload: Payload) -> tuple[object, ...]:
    return tuple(getattr(payload, name, None) for name in ("kind", "content_index", "redacted"))
