"""Blobs: stored once, whole, checked, durable and masked, whatever their sender or the disk does."""

import contextlib
import hashlib
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from collector.blobs import BlobStore, masked_pieces
from collector.tokens import TokenStore
from models.redaction import Redactor
from tests.collector.test_secrets_on_disk import CANARY, bytes_on_disk
from tests.running import Collector

MIB = 1024 * 1024
LARGE = random.Random(5).randbytes(5 * MIB + 17)


def address(data: bytes) -> str:
    return f"/v1/blobs/{hashlib.sha256(data).hexdigest()}"


def span(start: int, end: int, total: int) -> dict[str, str]:
    return {"content-range": f"bytes {start}-{end - 1}/{total}"}


def stored(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "blobs").glob("??/*"))


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with Collector(tmp_path_factory.mktemp("blobs") / "home") as running:
        yield running


@pytest.fixture
def client(collector: Collector) -> Iterator[httpx.Client]:
    with collector.client() as made:
        yield made


@pytest.mark.parametrize("data", [b"", b"x", b"\x00\xff" * 700, LARGE], ids=["empty", "small", "binary", "large"])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_blob_is_new_once_and_comes_back_as_it_was(client: httpx.Client, data: bytes, chunked: bool) -> None:
    data = data + bytes([chunked]) if data else data
    first = client.put(address(data), content=iter([data]) if chunked else data)
    again = client.put(address(data), content=data)
    assert (first.status_code, again.status_code) == (201 if data or not chunked else 200, 200), first.text
    assert first.json()["size_bytes"] == len(data)
    got = client.get(address(data))
    assert got.content == data
    assert client.head(address(data)).headers["content-length"] == str(len(data))


def test_content_nobody_vouches_for_is_not_rendered_by_a_browser(client: httpx.Client) -> None:
    page = b"<script>alert(1)</script>"
    client.put(address(page), content=page, headers={"content-type": "text/html"})
    headers = client.get(address(page)).headers
    assert headers["content-type"] == "application/octet-stream"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-disposition"].startswith("attachment")
    assert headers["content-security-policy"] == "default-src 'none'; sandbox"


@pytest.mark.parametrize(
    "name",
    [
        "abc",
        "A" * 64,
        "g" * 64,
        "0" * 63,
        "0" * 65,
        "%2e%2e%2ftokens.json",
        "..%2f" * 20,
        "0" * 64 + "%0a",
        "0" * 62 + "%00a",
    ],
)
def test_an_address_that_is_no_hash_is_refused(client: httpx.Client, name: str) -> None:
    for answer in (client.put(f"/v1/blobs/{name}", content=b"x"), client.get(f"/v1/blobs/{name}")):
        assert answer.status_code in (400, 404), answer.text
        assert answer.status_code == 400 or "/" in httpx.URL(f"http://x/v1/blobs/{name}").path[10:]


@pytest.mark.parametrize("data", [b"not it", LARGE[:-1]], ids=["small", "large"])
def test_another_content_than_the_address_says_is_refused_and_leaves_nothing(collector: Collector, data: bytes) -> None:
    wanted = address(data + b"else")
    with collector.client() as client:
        assert client.put(wanted, content=data).status_code == 400
        assert client.get(wanted).status_code == 404
        assert client.head(wanted).headers["upload-offset"] == "0"
    assert not list((collector.home / "blobs" / "incoming").iterdir())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-range": "bytes 0-1"}, 400),
        ({"content-range": "bytes 5-1/10"}, 400),
        ({"content-range": "bytes 0-10/10"}, 400),
        ({"content-range": "items 0-3/4"}, 400),
        ({"content-range": f"bytes 0-3/{'9' * 30}"}, 400),
        ({"content-range": "bytes 0-8/9"}, 400),  # the body has 4 bytes
        ({"content-range": f"bytes 0-3/{300 * MIB}"}, 413),
        ({"content-range": "bytes 4-7/8"}, 409),  # nothing is there yet
        ({"content-encoding": "gzip"}, 415),
    ],
)
def test_contradictions_are_refused(client: httpx.Client, headers: dict[str, str], status: int) -> None:
    answer = client.put(address(b"never stored"), content=b"abcd", headers=headers)
    assert answer.status_code == status, answer.text
    assert client.get(address(b"never stored")).status_code == 404


def test_a_body_of_another_length_than_its_range_is_refused(client: httpx.Client) -> None:
    data = b"0123456789"
    for body in (b"0123", b"0123456789ab"):
        answer = client.put(address(data), content=iter([body]), headers=span(0, 10, 10))
        assert answer.status_code == 400, answer.text
    assert client.head(address(data)).status_code == 404


def test_pieces_make_a_blob_and_a_wrong_place_is_told(client: httpx.Client) -> None:
    data = LARGE[: 3 * MIB] + b"pieces"
    half = len(data) // 2
    assert client.put(address(data), content=data[:half], headers=span(0, half, len(data))).status_code == 202
    asked = client.head(address(data))
    assert (asked.status_code, asked.headers["upload-offset"]) == (404, str(half))
    assert asked.headers["upload-limit"] == f"max-size={256 * MIB}"
    assert client.get(address(data)).status_code == 404  # not before it is whole
    wrong = client.put(address(data), content=data[half + 1 :], headers=span(half + 1, len(data), len(data)))
    assert (wrong.status_code, wrong.headers["upload-offset"]) == (409, str(half))
    assert client.put(address(data), content=data[half:], headers=span(half, len(data), len(data))).status_code == 201
    assert client.get(address(data)).content == data


def half_sent(collector: Collector, data: bytes, sent: int) -> socket.socket:
    """A connection on which so many bytes of a PUT were sent; the rest never comes."""
    host, port = collector.http.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    head = f"PUT {address(data)} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(data)}\r\n\r\n"
    connection.sendall(head.encode() + data[:sent])
    return connection


def offset(collector: Collector, data: bytes, at_least: int) -> int:
    deadline = time.monotonic() + 10
    with collector.client() as client:
        while (found := int(client.head(address(data)).headers.get("upload-offset", -1))) < at_least:
            assert time.monotonic() < deadline, found
            time.sleep(0.01)
    return found


def test_kill_9_in_the_middle_of_an_upload_and_the_rest_is_enough(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "home")
    with half_sent(collector, LARGE, 3 * MIB + 5):
        offset(collector, LARGE, 3 * MIB)
        collector.kill()
    assert stored(tmp_path / "home") == []
    with Collector(tmp_path / "home") as again, again.client() as client:
        start = offset(again, LARGE, 3 * MIB)
        rest = client.put(address(LARGE), content=LARGE[start:], headers=span(start, len(LARGE), len(LARGE)))
        assert rest.status_code == 201
        assert client.get(address(LARGE)).content == LARGE


@pytest.mark.parametrize("point", ["blobs.before_publish", "blobs.after_publish"])
@pytest.mark.parametrize("data", [b"small " + CANARY.encode(), LARGE + b"\n" + CANARY.encode()], ids=["small", "large"])
def test_kill_9_around_the_moment_it_is_seen_leaves_all_or_nothing(tmp_path: Path, point: str, data: bytes) -> None:
    collector = Collector(tmp_path / "home", TACHOGRAPH_FAILPOINT=point)
    with collector.client() as client, pytest.raises(httpx.TransportError):
        client.put(address(data), content=data)
    collector.kill()
    with Collector(tmp_path / "home") as again, again.client() as client:
        answer = client.put(address(data), content=data)
        assert answer.status_code == (201 if point == "blobs.before_publish" else 200)
        assert answer.json()["redactions"] == {"anthropic": 1}
        assert CANARY.encode() not in client.get(address(data)).content
        assert client.get(address(data)).status_code == 200


def test_a_sender_that_hangs_up_can_go_on_where_it_was(collector: Collector) -> None:
    data = LARGE + b"hang up"
    half_sent(collector, data, 2 * MIB + 100).close()
    start = offset(collector, data, 2 * MIB + 100)
    assert start == 2 * MIB + 100
    with collector.client() as client:
        answer = client.put(address(data), content=data[start:], headers=span(start, len(data), len(data)))
    assert answer.status_code == 201


def test_a_slow_body_is_let_go_and_what_came_is_kept(tmp_path: Path) -> None:
    with Collector(tmp_path / "home", TACHOGRAPH_BODY_TIMEOUT_S="0.5") as collector:
        with half_sent(collector, LARGE, 2 * MIB) as connection:
            connection.settimeout(10)
            assert b" 408 " in connection.recv(4096).split(b"\r\n")[0]
        assert offset(collector, LARGE, 0) == 2 * MIB


def test_many_senders_of_one_blob_at_once_store_it_once(collector: Collector) -> None:
    data = LARGE + b"at once"
    barrier = threading.Barrier(8)

    def send(number: int) -> int:
        with collector.client() as client:
            barrier.wait()
            if number % 4 == 3:
                return client.put(address(data), content=data, headers=span(0, len(data), len(data))).status_code
            return client.put(address(data), content=data).status_code

    with half_sent(collector, data, 2 * MIB), ThreadPoolExecutor(8) as pool:  # one that never ends holds up nobody
        offset(collector, data, MIB)
        statuses = list(pool.map(send, range(8)))
    assert set(statuses) <= {200, 201, 409}
    assert all(statuses[number] in (200, 201) for number in range(8) if number % 4 != 3)
    with collector.client() as client:
        assert client.get(address(data)).content == data


def test_a_blob_that_is_there_is_not_asked_for(collector: Collector) -> None:
    data = LARGE + b"there"
    host, port = collector.http.removeprefix("http://").split(":")
    expecting = (
        f"PUT {address(data)} HTTP/1.1\r\nhost: {host}\r\nexpect: 100-continue\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(expecting.encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 100 ")
        connection.sendall(data)
        assert connection.recv(4096).startswith(b"HTTP/1.1 201 ")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(expecting.encode())
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_what_is_too_large_is_refused_told_or_not(tmp_path: Path) -> None:
    data = LARGE[: 2 * MIB]
    with (
        Collector(tmp_path / "home", TACHOGRAPH_MAX_BLOB_BYTES=str(MIB + 5)) as collector,
        collector.client() as client,
    ):
        assert client.put(address(data), content=data).status_code == 413
        assert client.head(address(data)).headers["upload-limit"] == f"max-size={MIB + 5}"

        def endless() -> Iterator[bytes]:
            for _ in range(2000):
                yield bytes(65536)

        with contextlib.suppress(httpx.TransportError):  # it may be cut off while it is still sending
            assert client.put(address(data), content=endless()).status_code == 413
        assert client.put(address(data[:MIB]), content=data[:MIB]).status_code == 201
    assert not list((tmp_path / "home" / "blobs" / "incoming").iterdir())


def test_a_disk_with_too_little_room_says_come_back(tmp_path: Path) -> None:
    with (
        Collector(tmp_path / "home", TACHOGRAPH_BLOB_RESERVE_BYTES=str(2**60)) as collector,
        collector.client() as client,
    ):
        answer = client.put(address(b"x"), content=b"x")
        assert (answer.status_code, answer.headers["retry-after"]) == (507, "30")
        assert client.post("/v1/logs", content=b"{}", headers={"content-type": "application/json"}).status_code == 200
    assert stored(tmp_path / "home") == []


def test_a_damaged_file_is_not_given_out_and_sending_again_mends_it(collector: Collector) -> None:
    data = b"precious" * 1000
    with collector.client() as client:
        client.put(address(data), content=data)
        [path] = (collector.home / "blobs").glob(f"??/{hashlib.sha256(data).hexdigest()}")
        path.write_bytes(data[:-1] + b"!")
        for _ in range(2):
            answer = client.get(address(data))
            assert answer.status_code == 410
            assert "damaged" in answer.json()["error"]
        assert client.put(address(data), content=data).status_code == 201
        assert client.get(address(data)).content == data


@pytest.mark.parametrize("filler", [b"", b"harmless line of text\n" * 300_000], ids=["small", "large"])
def test_secrets_that_the_sender_did_not_mask_are_masked_here(tmp_path: Path, filler: bytes) -> None:
    data = filler + f"export ANTHROPIC_API_KEY={CANARY}\n".encode() + filler
    with Collector(tmp_path / "home") as collector, collector.client() as client:
        answer = client.put(address(data), content=data)
        assert answer.status_code == 201
        assert answer.json()["redactions"] == {"anthropic": 1}
        got = client.get(address(data))
        assert got.headers["x-redactions"] == "anthropic=1"
        assert got.headers["etag"] == f'"{hashlib.sha256(got.content).hexdigest()}"'
        assert got.content.startswith(filler + b"export ANTHROPIC_API_KEY=[REDACTED:anthropic:")
        assert got.content.endswith(b"]\n" + filler)
        assert client.put(address(data), content=data).status_code == 200
        [path] = (collector.home / "blobs").glob(f"??/{hashlib.sha256(data).hexdigest()}")
        path.write_bytes(b"other")
        assert client.get(address(data)).status_code == 410
    assert CANARY.encode() not in bytes_on_disk(tmp_path / "home")


def test_masking_in_windows_gives_what_masking_at_once_gives() -> None:
    redactor = Redactor(b"a key for tests only, 32 bytes!!")
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(["Ab3/" * 16] * 400) + "\n-----END RSA PRIVATE KEY-----\n"
    random_source = random.Random(7)
    for _ in range(6):
        filler = b"some line of a log\n" * random_source.randrange(215_000, 225_000)
        data = filler + (key + f"token: {CANARY}\n").encode() * 40 + filler
        pieces = list(masked_pieces(data, redactor))
        assert len(pieces) > 1
        assert b"".join(piece for piece, _ in pieces) == redactor.mask_bytes(data)[0]


def test_uploads_that_nobody_continues_are_swept_after_a_day(tmp_path: Path) -> None:
    redactor = Redactor(b"a key for tests only, 32 bytes!!")
    old, held, young = ("a" * 64, "b" * 64, "c" * 64)
    store = BlobStore(tmp_path, redactor)
    parts = {name: store.part(name, resumable=True) for name in (old, held, young)}
    for name, part in parts.items():
        assert part is not None
        part.append(b"begun")
        if name != held:
            part.close()
        if name != young:
            os.utime(part.path, (time.time() - 90_000,) * 2)
    fresh = BlobStore(tmp_path, redactor)
    assert fresh.part(held, resumable=True) is None
    assert [fresh.offset(name) for name in (old, held, young)] == [0, 5, 5]
    kept = parts[held]
    assert kept is not None
    kept.close()


def test_asking_what_is_there_needs_either_scope(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    tokens = TokenStore(tmp_path / "home" / "tokens.json")
    made = {scope: tokens.create([scope])[0] for scope in ("ingest", "read", "sql", "admin")}
    with Collector(tmp_path / "home") as collector, collector.client() as client:

        def ask(method: str, scope: str) -> int:
            header = {"authorization": f"Bearer {made[scope]}"} if scope in made else {}
            body = b"x" if method == "PUT" else None
            return client.request(method, address(b"x"), headers=header, content=body).status_code

        assert [ask("PUT", scope) for scope in ("none", "read", "sql", "ingest")] == [401, 403, 403, 201]
        assert [ask("HEAD", scope) for scope in ("none", "ingest", "read", "sql", "admin")] == [401, 200, 200, 403, 200]
        assert [ask("GET", scope) for scope in ("none", "ingest", "read", "sql", "admin")] == [401, 403, 200, 403, 200]


def test_a_foreign_web_page_cannot_read_blobs_while_no_token_is_set(client: httpx.Client) -> None:
    client.put(address(b"private"), content=b"private")
    assert client.get(address(b"private"), headers={"host": "evil.example"}).status_code == 403
    assert client.get(address(b"private"), headers={"origin": "https://evil.example"}).status_code == 403
