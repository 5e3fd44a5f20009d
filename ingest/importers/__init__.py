"""Files that agents and collectors left behind, each format in its own module."""

from ingest.importers.event_jsonl import EventLines
from ingest.importers.importer import Importer, Piece, Problem, importer_for
from ingest.importers.otlp_file import OtlpJson, OtlpProtobuf

__all__ = ["EventLines", "Importer", "OtlpJson", "OtlpProtobuf", "Piece", "Problem", "importer_for"]
