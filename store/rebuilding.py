"""Makes the index again from nothing, beside the old one, and swaps it in by renaming when it is whole."""

import os
from collections.abc import Callable
from pathlib import Path

from journal.segment import sync_folder
from models.failpoints import reached
from store.layout import Layout
from store.lock import FileLock
from store.writer import Store


def rebuild(home: Path, fill: Callable[[Store], None]) -> None:
    """Replace the index by one that `fill` has filled.

    Until the swap the old one stays as it is; a rebuild that is interrupted changes nothing. Raises Locked while
    another process writes the index.
    """
    layout = Layout(home)
    with FileLock(layout.lock):
        fresh = layout.database.with_name(layout.database.name + ".rebuilding")
        fresh.unlink(missing_ok=True)
        with Store(fresh) as store:
            fill(store)
            store.checkpoint()
        with fresh.open("rb") as file:
            os.fsync(file.fileno())
        reached("store.rebuilt")
        fresh.replace(layout.database)
        reached("store.rebuilt.swapped")
        sync_folder(layout.database.parent)
