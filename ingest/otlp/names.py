"""The words for OTLP's numbered kinds, severities and statuses."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from ingest.otlp.columns import TEXT

SPAN_KINDS = {0: "unspecified", 1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
STATUSES = {0: "unset", 1: "ok", 2: "error"}
TEMPORALITIES = {0: "unspecified", 1: "delta", 2: "cumulative"}
_GROUPS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
SEVERITIES = dict(enumerate(["", *(name + step for name in _GROUPS for step in ("", "2", "3", "4"))]))


def lookup(words: Mapping[int, str], number: int) -> str:
    """The word for a number; a number newer than we know stands for itself."""
    return words.get(number, str(number))


def lookup_all(words: Mapping[int, str], numbers: pa.Array) -> pa.Array:
    """The words for many numbers."""
    known, index = np.unique(numbers.to_numpy(), return_inverse=True)
    return pa.array([lookup(words, int(number)) for number in known], TEXT).take(pa.array(index))
