"""Named points at which a test may end the process, as a crash there would; without the variable they do nothing."""

import os
import signal

VARIABLE = "TACHOGRAPH_FAILPOINT"
"""`NAME` or `NAME:N`: die at the first, or the Nth, time the process reaches that point."""

_name, _, _nth = os.environ.get(VARIABLE, "").partition(":")
_left = int(_nth or 1)


def reached(name: str) -> None:
    """Tell that a point is reached; costs one comparison."""
    global _left
    if name == _name:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
