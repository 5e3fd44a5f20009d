"""Searches whole requests for anything that may be a secret, as fast as it can be done.

Hyperscan looks for all patterns at once with vector instructions, at about 1.6 GB/s. RE2 needs 2.5 times as long; it
does the same where Hyperscan has no build for the machine.
"""

import threading
from collections.abc import Sequence
from typing import Any

import re2

try:
    import hyperscan
except ImportError:  # no build for this machine
    hyperscan = None  # type: ignore[assignment]  # the module itself is optional

Buffer = bytes | bytearray | memoryview


def re2_options(max_memory_bytes: int = 64 * 1024 * 1024) -> re2.Options:
    """Bytes, not characters: raw protobuf is no UTF-8, and what the filter sees must be what the masking sees."""
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = max_memory_bytes
    options.log_errors = False
    return options


class Re2Scan:
    """Whether any of the patterns matches, by RE2; those for JSON count in JSON only."""

    def __init__(self, patterns: Sequence[str], json_pattern: str) -> None:
        options = re2_options()
        options.never_capture = True
        self._protobuf = re2.compile("|".join(patterns).encode("ascii"), options)
        self._json = re2.compile("|".join((*patterns, json_pattern)).encode("ascii"), options)

    def __call__(self, data: Buffer, *, is_json: bool) -> bool:
        return (self._json if is_json else self._protobuf).search(data) is not None


class HyperscanScan:
    """The same by Hyperscan. Both release the GIL."""

    def __init__(self, patterns: Sequence[str], json_pattern: str) -> None:
        every = [pattern.encode("ascii") for pattern in (*patterns, json_pattern)]
        self._json_number = len(patterns)
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        flags = hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL
        self._database.compile(
            expressions=every, ids=list(range(len(every))), elements=len(every), flags=[flags] * len(every)
        )
        self._own = threading.local()

    def __call__(self, data: Buffer, *, is_json: bool) -> bool:
        # Working memory may serve one scan at a time, so each thread has its own.
        scratch = getattr(self._own, "scratch", None)
        if scratch is None:
            scratch = self._own.scratch = hyperscan.Scratch(self._database)
        buffer: Any = data  # the stubs know bytes alone
        try:
            self._database.scan(
                buffer, match_event_handler=_stop if is_json else self._stop_unless_json, scratch=scratch
            )
        except hyperscan.ScanTerminated:
            return True
        return False

    def _stop_unless_json(self, number: int, *_: object) -> bool:
        return number != self._json_number


def _stop(*_: object) -> bool:
    return True


Scan = HyperscanScan | Re2Scan


def scan_for(patterns: Sequence[str], json_pattern: str) -> Scan:
    """The faster of the two that this machine has."""
    if hyperscan is None:
        return Re2Scan(patterns, json_pattern)
    try:
        return HyperscanScan(patterns, json_pattern)
    except hyperscan.HyperscanError:  # a processor without the instructions it needs
        return Re2Scan(patterns, json_pattern)
