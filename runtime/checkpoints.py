"""States of sessions on disk, so that a start need not fold a long journal; they save time and are never the truth."""

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from runtime.telemetry.identity import write_whole
from views.state import State, dump, load

logger = logging.getLogger("tachograph.runtime.checkpoints")

FIRST_AFTER = 1_000
"""A session gets its first checkpoint after so many facts, and the next when it has grown by half."""

GROWTH = 1.5


class CheckpointFiles:
    """One file per session. The time for writing them grows with the facts, not with their square."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._noted: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._under_way: Future[None] | None = None
        self.damaged: dict[str, str] = {}
        """Sessions whose snapshot was of no use, and why; they were folded from the beginning."""

    def offer(self, state: State) -> None:
        """Write the state in the background if enough was added since the last time."""
        last = self._noted.get(state.session_id, 0)
        if (state.sequence or 0) < max(FIRST_AFTER, last * GROWTH):
            return
        if self._under_way is None or self._under_way.done():
            self._noted[state.session_id] = state.sequence or 0
            self._under_way = self._pool.submit(self._write, state)

    def load(self, session_id: str, last: int, *, whole: bool = True) -> State | None:
        """The newest state on disk that is not newer than the journal's last fact; None: fold from the beginning."""
        try:
            state = load(self._path(session_id).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, LookupError, TypeError) as problem:
            logger.warning("the checkpoint of session %s is not used: %s", session_id, problem)
            self.damaged[session_id] = "its snapshot could not be read"
            return None
        if state.session_id != session_id or not 0 < (state.sequence or 0) <= last:
            if (state.sequence or 0) > last and whole:
                self.damaged[session_id] = "its snapshot was ahead of the facts"
            return None
        self._noted[session_id] = state.sequence or 0
        return state

    def close(self) -> None:
        """Wait for the one that is being written."""
        self._pool.shutdown()

    def _write(self, state: State) -> None:
        path = self._path(state.session_id)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_whole(path, dump(state))
        except OSError as problem:
            logger.warning("no checkpoint of session %s: %s", state.session_id, problem)

    def _path(self, session_id: str) -> Path:
        return self._folder / f"{sha256(session_id.encode()).hexdigest()[:32]}.state"
