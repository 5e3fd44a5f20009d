"""The sample session: ten minutes of a coding agent at work, with everything that can happen to one."""

from datetime import datetime, timedelta

from models.event import Event
from runtime.samples.closing import close_session
from runtime.samples.delegation import delegation_turn
from runtime.samples.limits import limits_turn
from runtime.samples.opening import open_session, start_thread
from runtime.samples.recovery import recovery_turn
from runtime.samples.repair import repair_turn
from runtime.samples.script import Script
from runtime.telemetry import Telemetry

LENGTH = timedelta(minutes=11)
"""Longer than the story, so that none of it lies in the future."""

PAUSE_MS = 90_000
"""How long the user reads and thinks between two turns."""


def sample_session(
    telemetry: Telemetry, *, session_id: str, start: datetime | None = None, seed: int = 0
) -> list[Event]:
    """Record the session, with its spans, and give its events in order.

    It tells every type of fact. Unless told when it starts, it has just ended by the telemetry's clock. The same
    session id, start and seed tell the same story; ids of events and spans are the telemetry's.
    """
    script = Script(telemetry, session_id, start or telemetry.clock() - LENGTH, seed)
    open_session(script)
    with script.within(thread_id=script.name("thread")):
        start_thread(script)
        for chapter in (repair_turn, delegation_turn, limits_turn, recovery_turn):
            chapter(script)
            script.wait(PAUSE_MS)
        close_session(script)
    return script.events
