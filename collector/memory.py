"""How the index allocates memory: fresh large buffers cost as much as the work done in them, so they are kept."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables that must be set before a process starts."""

    values: dict[str, str]

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Set for processes started inside; what the user set himself stays."""
        added = {name: value for name, value in self.values.items() if name not in os.environ}
        os.environ.update(added)
        try:
            yield
        finally:
            for name in added:
                del os.environ[name]


ALLOCATOR = Environment(
    {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "4000000000",
        "MALLOC_TOP_PAD_": "100000000",
    }
)
