"""The engine: starts the next turn of each thread, one at a time, and ends what is interrupted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from models.errors import TachographError
from models.event import Correlation
from models.payloads.runtime_fault import RuntimeErred
from models.payloads.turn import TurnFailed, TurnStarted
from runtime.control.turn_commands import queue_change
from runtime.kernel import Draft
from runtime.loop.turn_run import TurnRun
from views.state import State

if TYPE_CHECKING:
    from runtime.runtime import Runtime

logger = logging.getLogger("tachograph.runtime.engine")

HELD = "held"
"""The queue after an interrupt: what waits is not begun before the thread is resumed."""


class Engine:
    """Carries out turns. What it does next follows from the state alone, so it goes on after a restart."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._threads: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._reasons: dict[str, str] = {}
        self._stopping = False

    # --- what is going on --------------------------------------------------------------------------------------

    def is_running(self, session_id: str, thread_id: str) -> bool:
        """Whether a turn of the thread is being carried out here and now."""
        task = self._threads.get((session_id, thread_id))
        return task is not None and not task.done()

    @staticmethod
    def is_busy(state: State, thread_id: str) -> bool:
        """Whether a new turn of the thread has to wait: one is under way, others wait, or the queue is held."""
        return next_turn(state, thread_id) is not None or is_held(state, thread_id)

    def wake(self, session_id: str, thread_id: str) -> None:
        """Look whether the thread has something to do."""
        if self._stopping or not self._runtime.options.work or self.is_running(session_id, thread_id):
            return
        task = asyncio.create_task(self._work(session_id, thread_id), name=f"thread {thread_id}")
        self._threads[session_id, thread_id] = task
        task.add_done_callback(lambda done: self._finished(session_id, thread_id, done))

    def interrupt(self, session_id: str, thread_id: str, turn_id: str, reason: str) -> None:
        """Stop a turn; the wish itself is on record."""
        self._reasons[turn_id] = reason
        if turn_id in self._turns:
            self._turns[turn_id].cancel()
        else:
            self.wake(session_id, thread_id)

    def interrupt_tasks(self, session_id: str, task_ids: Collection[str], reason: str) -> list[asyncio.Task[None]]:
        """Stop the turns that work on these tasks; gives what is being stopped."""
        state = self._runtime.kernel.state(session_id)
        stopped = []
        for turn_id, running in self._turns.items():
            if turn_id in state.turns and state.turns[turn_id].task_id in task_ids:
                self._reasons[turn_id] = reason
                running.cancel()
                stopped.append(running)
        return stopped

    async def stop_tasks(self, session_id: str, task_ids: Collection[str], reason: str) -> None:
        """Stop the turns that work on these tasks, and wait until they have ended."""
        if self.interrupt_tasks(session_id, task_ids, reason):
            await self._runtime.kernel.until(
                session_id,
                lambda state: (
                    not any(
                        state.turns[str(turn)].task_id in task_ids and state.turns[str(turn)].started_at
                        for turn in state.open_keys("turns")
                    )
                ),
            )

    async def stop(self) -> None:
        """Let go of every turn where it is; the next start goes on from the facts."""
        self._stopping = True
        tasks = [*self._turns.values(), *self._threads.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def idle(self) -> None:
        """Wait until no thread has anything to do."""
        while running := [task for task in self._threads.values() if not task.done()]:
            await asyncio.wait(running)

    # --- one thread --------------------------------------------------------------------------------------------

    async def _work(self, session_id: str, thread_id: str) -> None:
        kernel = self._runtime.kernel
        while not self._stopping:
            async with kernel.writing(session_id) as state:
                if is_held(state, thread_id) and not state.threads[thread_id].active_turn_id:
                    return
                turn_id = next_turn(state, thread_id)
                if turn_id is None:
                    return
                await self._begin(state, thread_id, turn_id)
            await self._carry_out(session_id, thread_id, turn_id)

    async def _begin(self, state: State, thread_id: str, turn_id: str) -> None:
        """Record that a turn starts, unless it was under way before a restart."""
        turn = state.turns[turn_id]
        if turn.started_at is not None:
            return
        drafts = []
        queue = state.queue(thread_id)
        if any(one.queued_turn_id == turn_id for one in queue):
            rest = tuple(one for one in queue if one.queued_turn_id != turn_id)
            drafts.append(queue_change("started", thread_id, rest, turn_id))
        waited = (
            (self._runtime.kernel.clock() - turn.submitted_at).total_seconds() * 1000 if turn.submitted_at else None
        )
        ids = Correlation(thread_id=thread_id, turn_id=turn_id, task_id=turn.task_id)
        drafts.append(Draft(TurnStarted(status="running", queue_wait_ms=waited), ids))
        await self._runtime.kernel.commit(state.session_id, drafts)

    async def _carry_out(self, session_id: str, thread_id: str, turn_id: str) -> None:
        run = TurnRun(self._runtime, session_id, thread_id, turn_id)
        task = self._turns[turn_id] = asyncio.create_task(run.run(), name=f"turn {turn_id}")
        if self._runtime.kernel.state(session_id).turns[turn_id].status == "cancelling":
            task.cancel()  # the wish to stop it is older than this start
        try:
            await asyncio.wait({task})
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
            self._turns.pop(turn_id, None)
        if self._stopping:
            return
        if task.cancelled():
            await self._end_interrupted(run)
        elif (failure := task.exception()) is not None:
            await self._end_failed(run, failure)

    async def _end_interrupted(self, run: TurnRun) -> None:
        """Close what the turn left open, end it, and hold the queue."""
        kernel = self._runtime.kernel
        async with kernel.writing(run.session_id) as state:
            reason = self._reasons.pop(run.turn_id, None) or "interrupted"
            failed = TurnFailed(
                status="cancelled", failure_category="interrupted", message=reason, interrupted=True, retryable=True,
                duration_ms=run.elapsed_ms(),
            )  # fmt: skip
            drafts = [*run.closing_facts(state, "cancelled", reason), Draft(failed, run.ids)]
            if queue := state.queue(run.thread_id):
                drafts.append(queue_change("paused", run.thread_id, queue, reason=reason, status="blocked"))
            await kernel.commit(run.session_id, drafts)

    async def _end_failed(self, run: TurnRun, failure: BaseException) -> None:
        """The turn ended in a way the loop did not foresee: tell it as a fault of the runtime."""
        logger.error("turn %s failed", run.turn_id, exc_info=failure)
        expected = isinstance(failure, TachographError)
        message = str(failure) if expected else f"{type(failure).__name__} in the runtime; see its log"
        kernel = self._runtime.kernel
        async with kernel.writing(run.session_id) as state:
            fault = RuntimeErred(
                code="turn.failed", message=message, component="loop", failure_category="runtime_error", fatal=False
            )
            failed = TurnFailed(
                status="failed", failure_category="runtime_error", message=message, retryable=True,
                duration_ms=run.elapsed_ms(),
            )  # fmt: skip
            closing = run.closing_facts(state, "failed", message)
            await kernel.commit(run.session_id, [*closing, Draft(fault, run.ids), Draft(failed, run.ids)])

    def _finished(self, session_id: str, thread_id: str, task: asyncio.Task[None]) -> None:
        if self._threads.get((session_id, thread_id)) is task:
            del self._threads[session_id, thread_id]
        if not task.cancelled() and (failure := task.exception()) is not None:
            logger.error("thread %s stopped", thread_id, exc_info=failure)
        elif not self._stopping and not task.cancelled():
            state = self._runtime.kernel.state(session_id)
            if next_turn(state, thread_id) is not None and not is_held(state, thread_id):
                self.wake(session_id, thread_id)  # submitted while the last look was under way


def is_held(state: State, thread_id: str) -> bool:
    """Whether what waits in the queue is held back."""
    return bool(state.queue(thread_id)) and state.queues[thread_id].resume_state == HELD


def next_turn(state: State, thread_id: str) -> str | None:
    """The turn of a thread to work on: the one under way, else the accepted one, else the first that waits."""
    thread = state.threads.get(thread_id)
    if thread is None:
        return None
    if thread.active_turn_id is not None:
        return thread.active_turn_id
    for key in state.open_keys("turns"):
        turn = state.turns[str(key)]
        if turn.thread_id == thread_id and turn.status == "accepted":
            return turn.turn_id
    queue = state.queue(thread_id)
    return queue[0].queued_turn_id if queue else None
