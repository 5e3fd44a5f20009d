"""JSON lines of event envelopes become records."""

import json
from datetime import UTC, datetime

import pyarrow as pa

from ingest.event_lines import decode_lines
from store.schema import RECORDS, arrow_schema

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LINE = b'{"type":"tool.result","eventId":"e-1","timestamp":"2026-01-01T00:00:00.000001Z","payload":{"toolName":"x"}}'


def rows(body: bytes) -> list[dict[str, object]]:
    table: pa.Table = decode_lines(body, journal_position=3, received=NOW).records
    assert table.schema == arrow_schema(RECORDS)
    found: list[dict[str, object]] = table.to_pylist()
    return found


def test_a_line_is_a_record_in_the_form_of_our_log_records() -> None:
    (row,) = rows(LINE)
    assert row["signal"] == "event"
    assert row["record_id"] == "e-1"
    assert row["time_ns"] == 1767225600000001000
    assert row["body"] == '{"tool_name":"x"}'
    assert json.loads(str(row["attributes"])) == {"agent_runtime.event_id": "e-1"}


def test_reading_the_same_body_again_gives_the_same_ids() -> None:
    body = LINE + b"\nnot json\nnot json\n"
    assert [row["record_id"] for row in rows(body)] == [row["record_id"] for row in rows(body)]
    assert len({row["record_id"] for row in rows(body)}) == 3


def test_a_line_that_is_no_event_is_kept_as_it_came_and_costs_no_other_line() -> None:
    broken, good = rows(b'{"type": "tool.res\n' + LINE)
    assert json.loads(str(broken["body"])) == '{"type": "tool.res'
    assert broken["name"] is None
    assert good["name"] == "tool.result"
    assert [broken["ordinal"], good["ordinal"]] == [0, 1]


def test_an_empty_body_has_no_records() -> None:
    assert rows(b"\n  \n") == []
