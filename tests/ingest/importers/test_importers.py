"""Files are recognised, read in pieces, and a bad part costs itself."""

import gzip
import json
from pathlib import Path

import pytest
import zstandard

from ingest.importers import Piece, Problem, importer_for
from ingest.importers.importer import MAX_LINE_BYTES, opened
from models.errors import MalformedInput
from tests.captures import captures

EVENT = {"type": "tool.result", "event_id": "1", "timestamp": "2026-01-01T00:00:00Z"}
REQUEST = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "hello"}}]}]}]}


def read(path: Path) -> list[Piece | Problem]:
    with opened(path) as content:
        return list(importer_for(path).read(path, content))


def test_every_recorded_body_is_read_as_what_it_is() -> None:
    for capture in captures():
        (piece,) = read(capture.path)
        assert isinstance(piece, Piece)
        assert (piece.source, piece.encoding, piece.body) == (capture.signal, capture.encoding, capture.body)


@pytest.mark.parametrize("fold", [bytes, gzip.compress, zstandard.compress])
def test_compressed_files_are_read(tmp_path: Path, fold: object) -> None:
    path = tmp_path / "requests.json"
    path.write_bytes(fold(json.dumps(REQUEST).encode()))  # type: ignore[operator]
    (piece,) = read(path)
    assert isinstance(piece, Piece)
    assert json.loads(piece.body) == REQUEST


def test_json_lines_are_one_request_each_and_a_foreign_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "exported.jsonl"
    path.write_text("\n".join([json.dumps(REQUEST), "", '{"other": 1}', json.dumps(REQUEST)]))
    first, problem, last = read(path)
    assert isinstance(first, Piece)
    assert isinstance(last, Piece)
    assert (first.lines, last.lines) == ((1, 1), (4, 4))
    assert isinstance(problem, Problem)
    assert (problem.line, str(problem).startswith(f"{path}:3:")) == (3, True)


def test_pretty_printed_json_is_one_request(tmp_path: Path) -> None:
    path = tmp_path / "pretty.json"
    path.write_text(json.dumps(REQUEST, indent=2))
    (piece,) = read(path)
    assert isinstance(piece, Piece)


def test_event_lines_come_together_with_their_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    camel = {"type": "x.y", "eventId": "2", "timestamp": "2026-01-01T00:00:00Z"}
    path.write_text("\n".join([json.dumps(EVENT), json.dumps(camel), "", json.dumps(EVENT)]))
    pieces = [piece for piece in read(path) if isinstance(piece, Piece)]
    assert [(piece.source, piece.lines) for piece in pieces] == [("events", (1, 2)), ("events", (4, 4))]
    assert b"\n".join(piece.body for piece in pieces).count(b"\n") == 2


def test_a_line_that_is_too_long_costs_itself(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    long = json.dumps(EVENT | {"payload": {"x": "y" * MAX_LINE_BYTES}})
    path.write_text("\n".join([json.dumps(EVENT), long, json.dumps(EVENT)]))
    found = read(path)
    assert [piece.line for piece in found if isinstance(piece, Problem)] == [2]
    assert sum(isinstance(piece, Piece) for piece in found) == 2


def test_what_nobody_recognises_is_said(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(MalformedInput, match="no importer recognises it"):
        importer_for(path)
