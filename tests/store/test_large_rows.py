"""Rows so large that a row group of them does not fit into memory are stored like any others."""

import json
from pathlib import Path

import duckdb
import pytest

from store import Store
from tests.store.frames import events, record, records

MEMORY_LIMIT = "300MB"
TEXT_CHARS = 100_000
BATCHES, PER_BATCH = 13, 400


def attributes(number: int) -> str:
    return json.dumps({"text": f"{number} " + "x" * TEXT_CHARS})


@pytest.mark.parametrize("small_checkpoints", [True, False])
def test_large_rows_need_no_more_memory_than_there_is(tmp_path: Path, small_checkpoints: bool) -> None:
    """Merged by DuckDB itself, the row groups would be 500 MB in memory; so would they without a checkpoint."""
    with Store.open(tmp_path, memory_limit=MEMORY_LIMIT) as store:
        for batch in range(BATCHES):
            numbers = range(batch * PER_BATCH, (batch + 1) * PER_BATCH)
            rows = records(*(record(f"r{number}", number, attributes=attributes(number)) for number in numbers))
            store.append(rows, events(), position=batch + 1)
            if small_checkpoints:
                store.checkpoint()
            assert store.position() == batch + 1
    with Store.open(tmp_path, memory_limit=MEMORY_LIMIT) as store, store.cursor() as cursor:
        found = cursor.execute("select count(*), min(length(attributes)) from records").fetchall()
    assert found == [(BATCHES * PER_BATCH, len(attributes(0)))]


def test_a_batch_that_does_not_fit_fails_as_lack_of_memory_and_the_next_is_stored(tmp_path: Path) -> None:
    """The loader waits memory out; for any other reason it would pass the record over in the end."""
    text = attributes(0)
    too_many = records(*(record(f"r{number}", number, attributes=text) for number in range(5_000)))
    with Store.open(tmp_path, memory_limit=MEMORY_LIMIT) as store:
        with pytest.raises(duckdb.OutOfMemoryException):
            store.append(too_many, events(), position=1)
        assert store.position() == 0
        store.append(too_many.slice(0, 100), events(), position=1)
        assert store.position() == 1
