"""The index: tables made from the journal, written by one process and read by everyone through `open`."""

from store.layout import Layout
from store.reader import Reader, Status
from store.reader import open_reader as open
from store.writer import Appended, Store, Undecoded

__all__ = ["Appended", "Layout", "Reader", "Status", "Store", "Undecoded", "open"]
