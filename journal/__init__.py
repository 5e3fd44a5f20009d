"""An append-only durable log of byte records with named cursors, on SQLite."""

from journal.log import Journal, Total
from journal.reading import Finding
from journal.record import Entry, Record

__all__ = ["Entry", "Finding", "Journal", "Record", "Total"]
