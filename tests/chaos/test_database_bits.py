"""One flipped bit in the database file: no wrong row is ever given, the file is put aside and made again, equal."""

import random
import shutil
import time
from pathlib import Path

import duckdb
import httpx
import orjson
import pytest

from collector.diagnosis import diagnose
from models.settings import Settings
from store import Layout, Store, database, quarantine
from tests.chaos.bits import flip
from tests.chaos.history import await_loaded
from tests.chaos.tables import digests, digests_of, load
from tests.running import Collector, tachograph

HEADERS = (0, 8, 12, 100, 4096, 4104, 4120, 4200, 8192, 8200, 8216, 8300)
"""Places in the file's three headers."""

HEADER_BYTES = 3 * 4096


def places(size: int, count: int) -> list[int]:
    source = random.Random(11)
    return [*HEADERS, *(source.randrange(HEADER_BYTES, size) for _ in range(count - len(HEADERS)))]


def copied(untroubled: Path, home: Path, place: int) -> Path:
    """A home whose database has one bit flipped."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(untroubled, home)
    flip(Layout(home).database, place, random.Random(place))
    return home


def test_a_flipped_bit_at_100_places_is_noticed_before_a_wrong_row_is_given(
    untroubled: Path, tmp_path: Path, expected: dict[str, object]
) -> None:
    path = tmp_path / "copy.duckdb"
    whole = Layout(untroubled).database.read_bytes()
    assert not Path(f"{Layout(untroubled).database}.wal").exists(), "there is no write-ahead log that could be damaged"
    noticed = 0
    for place in places(len(whole), 100):
        path.write_bytes(whole)
        flip(path, place, random.Random(place))
        found = read_all(path)
        if isinstance(found, duckdb.Error):
            assert database.shows_damage(found), f"byte {place}: {type(found)} {found}"
            noticed += 1
        else:
            assert found == expected, f"byte {place}: wrong rows"
    assert noticed >= 90


def read_all(path: Path) -> dict[str, object] | duckdb.Error:
    """Everything in the file, or why it cannot be read."""
    try:
        with database.connect(path, read_only=True) as connection:
            return digests_of(connection)
    except duckdb.Error as error:
        return error


def test_neither_a_query_nor_a_record_can_condemn_the_file(tmp_path: Path) -> None:
    text = "Corrupt database file: computed checksum 1 does not match stored checksum 2"
    with duckdb.connect() as connection:
        for statement in ("select error(?)", "select cast(? as integer)"):
            with pytest.raises(duckdb.Error) as caught:
                connection.execute(statement, [text])
            assert text in str(caught.value)
            assert not database.shows_damage(caught.value)


def mended(untroubled: Path, home: Path, place: int) -> dict[str, object]:
    """Open a damaged file, read all of it as queries do, and load what is missing; the digests then."""
    copied(untroubled, home, place)
    with Store.open(home) as store:
        try:
            with store.cursor() as cursor:
                digests_of(cursor)
        except duckdb.Error as error:
            store.quarantine(database.without_paths(error))
        load(home, store)
    (note,) = quarantine.notes(Layout(home))
    assert (Layout(home).quarantine / note.file).stat().st_size == Layout(untroubled).database.stat().st_size
    return digests(home)


@pytest.mark.parametrize("place", [9, 4100, 300_000, 1_500_000])
def test_a_damaged_file_is_put_aside_and_made_again_row_for_row(
    untroubled: Path, tmp_path: Path, expected: dict[str, object], place: int
) -> None:
    assert mended(untroubled, tmp_path / "home", place) == expected


@pytest.mark.long
def test_files_damaged_at_100_places_are_made_again_row_for_row(
    untroubled: Path, tmp_path: Path, expected: dict[str, object]
) -> None:
    for place in places(Layout(untroubled).database.stat().st_size, 100):
        assert mended(untroubled, tmp_path / "home", place) == expected, f"byte {place}"


def test_a_running_index_that_meets_damage_makes_itself_anew_and_tells(
    untroubled: Path, tmp_path: Path, expected: dict[str, object]
) -> None:
    home = copied(untroubled, tmp_path / "home", 9)  # met when the file is opened
    with Collector(home, everything=True):
        await_loaded(home, last_position(untroubled)).close()
    assert digests(home) == expected
    copied_block = damaged_block(untroubled, home)
    with Collector(home, everything=True) as collector, collector.client() as client:
        deadline = time.monotonic() + 30
        while answer_of(client) != httpx.codes.OK or not noted(home):
            assert time.monotonic() < deadline, "the damage was not mended"
        await_loaded(home, last_position(untroubled)).close()
        told = orjson.loads(tachograph("status", "--json", home=home).stdout)
        assert "Corrupt" in told["index"]["quarantines"][0]["reason"]
    assert digests(home) == expected, f"block at {copied_block}"
    check = next(check for check in diagnose(Settings(home=home)) if check.name == "index")
    assert not check.ok
    assert "put aside" in check.detail


def last_position(home: Path) -> int:
    with database.connect(Layout(home).database, read_only=True) as connection:
        return int(connection.execute("select position from progress").fetchall()[0][0])


def damaged_block(untroubled: Path, home: Path) -> int:
    """Damage a block that only a query meets: opening the file does not read it."""
    source = random.Random(3)
    size = Layout(untroubled).database.stat().st_size
    while True:
        place = source.randrange(HEADER_BYTES, size)
        copied(untroubled, home, place)
        try:
            with database.connect(Layout(home).database, read_only=True) as connection:
                connection.execute("select position from progress").fetchall()
                connection.execute("select md5(attributes::varchar), body from records").fetchall()
        except duckdb.Error:
            try:
                with database.connect(Layout(home).database, read_only=True) as connection:
                    connection.execute("select position from progress").fetchall()
                return place
            except duckdb.Error:
                continue


def answer_of(client: httpx.Client) -> int:
    """Ask for rows of the damaged block, and for all others."""
    body = {"sql": "select max(md5(attributes::varchar)), max(body) from records", "format": "json"}
    return client.post("/v1/query", json=body).status_code


def noted(home: Path) -> bool:
    return bool(quarantine.notes(Layout(home)))
