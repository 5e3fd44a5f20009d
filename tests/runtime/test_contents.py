"""Content behind refs: masked, durable, checked; cut for readers; sent until the collector has it."""

import asyncio
import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from collector.tokens import TokenStore
from models.payload import Payload
from models.payloads.output import OutputRedacted, OutputSpilled, OutputTruncated, SpillPolicy
from models.redaction import Redactor
from models.values import OutputRef
from runtime.contents import (
    ContentDamaged,
    ContentMissing,
    Contents,
    ContentUnwritable,
    Fitted,
    Uploader,
    blob_endpoint,
    fit,
)
from runtime.telemetry import Endpoint, ExportSettings
from tests.collector.test_secrets_on_disk import CANARY, bytes_on_disk
from tests.running import Collector
from tests.runtime.runtimes import settings
from tests.runtime.telemetry.test_outbox import free_port, on_port

PROJECT = Path(__file__).resolve().parents[2]
LARGE = random.Random(9).randbytes(9 * 1024 * 1024)


@pytest.fixture
def contents(tmp_path: Path) -> Iterator[Contents]:
    with Contents(tmp_path / "runtime") as made:
        yield made


# --- keeping ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", ["", "täxt\n" * 100, b"\x89PNG\x00\xff", "half \ud83d pair", "x" * 10_000_000])
def test_what_is_kept_comes_back_also_after_a_restart(tmp_path: Path, data: str | bytes) -> None:
    with Contents(tmp_path) as contents:
        ref = contents.put(data)
    with Contents(tmp_path) as contents:
        assert contents.has(ref)
        assert (contents.text(ref) if isinstance(data, str) else contents.get(ref)) == data
        whole = contents.get(ref.ref or "")
        assert ref.ref == f"sha256:{hashlib.sha256(whole).hexdigest()}"
        assert ref.size_bytes == len(whole)
        assert contents.put(data) == ref


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1252", "shift_jis"])
def test_other_encodings_are_read_as_they_were_written(contents: Contents, encoding: str) -> None:
    text = "plain" if encoding == "shift_jis" else "Größe"
    for data in (text, text.encode(encoding)):
        ref = contents.put(data, encoding=encoding)
        assert contents.text(ref) == text
        assert contents.get(ref) == text.encode(encoding)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", None])
def test_secrets_are_masked_before_the_hash_is_taken(tmp_path: Path, encoding: str | None) -> None:
    text = f"export KEY={CANARY} # and more\n" * 3
    data = b"\xff\xfe\x00" + text.encode() if encoding is None else text.encode(encoding)
    with Contents(tmp_path) as contents:
        ref = contents.put(data, encoding=encoding or "utf-8")
        again = contents.put(data, encoding=encoding or "utf-8")
        whole = contents.get(ref)
    assert ref.redacted
    assert again == ref
    assert hashlib.sha256(whole).hexdigest() == ref.sha256
    assert CANARY not in (ref.preview or "")
    on_disk = bytes_on_disk(tmp_path)
    assert CANARY.encode() not in on_disk
    assert CANARY.encode("utf-16-le") not in on_disk
    with Contents(tmp_path) as contents:
        assert contents.put(data, encoding=encoding or "utf-8") == ref  # the key of the digests is kept


def test_a_preview_is_short_on_one_line_and_can_travel_in_events(contents: Contents) -> None:
    ref = contents.put("a\tline\r\n\x1b[31mred \ud83d" + "y" * 1000)
    preview = ref.preview or ""
    assert preview.startswith("a line [31mred  y")
    assert len(preview) == 200
    preview.encode()
    assert contents.put(b"\x00\x01").preview is None


def test_a_ref_to_nothing_and_a_damaged_file_are_told_apart(contents: Contents) -> None:
    for ref in ("sha256:" + "0" * 64, "sha256:../../etc/passwd", "", OutputRef()):
        with pytest.raises(ContentMissing):
            contents.get(ref)
    ref = contents.put("precious")
    contents.folder.file(ref.sha256 or "").write_bytes(b"Precious")
    with pytest.raises(ContentDamaged):
        contents.get(ref)


def test_keeping_the_same_again_after_a_restart_mends_a_damaged_file(tmp_path: Path) -> None:
    with Contents(tmp_path) as contents:
        ref = contents.put("precious")
    contents.folder.file(ref.sha256 or "").write_bytes(b"Precious")
    with Contents(tmp_path) as contents:
        assert contents.put("precious") == ref
        assert contents.get(ref) == b"precious"


def test_staged_content_can_be_read_at_once_and_is_on_disk_when_settled(contents: Contents) -> None:
    async def run() -> None:
        refs = [contents.stage(f"content {number}") for number in range(50)]
        assert all(contents.has(ref) and contents.get(ref) for ref in refs)
        assert not any(contents.folder.file(ref.sha256 or "").exists() for ref in refs)
        await contents.settle()
        assert all(contents.folder.file(ref.sha256 or "").exists() for ref in refs)
        await contents.settle()  # nothing to do

    asyncio.run(run())


def test_one_that_stops_waiting_takes_nothing_from_the_others(contents: Contents) -> None:
    async def waiting(number: int) -> OutputRef:
        ref = contents.stage(f"by {number}")
        await contents.settle()
        return ref

    async def run() -> list[OutputRef | BaseException]:
        tasks = [asyncio.create_task(waiting(number)) for number in range(40)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    refs = [ref for ref in asyncio.run(run()) if isinstance(ref, OutputRef)]
    assert len(refs) == 26
    assert all(contents.folder.file(ref.sha256 or "").exists() for ref in refs)


def test_threads_may_put_at_the_same_time(contents: Contents) -> None:
    found: list[bytes] = []

    def work(number: int) -> None:
        refs = [contents.put(f"{number % 3} {turn}") for turn in range(10)]
        found.extend(contents.get(ref) for ref in refs)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 60
    assert len(contents.folder.unsent()) == 30


def test_a_disk_that_refuses_is_told_and_the_content_is_written_once_it_can_be(contents: Contents) -> None:
    new, hidden = contents.folder.path / "new", contents.folder.path / "hidden"
    new.rename(hidden)
    with pytest.raises(ContentUnwritable):
        contents.put("patience")
    ref = contents.stage("more")
    with pytest.raises(ContentUnwritable):
        asyncio.run(contents.settle())
    assert contents.get(ref) == b"more"
    hidden.rename(new)
    other = contents.put("and more")
    texts = {contents.folder.file(name).read_text() for name in contents.folder.unsent()}
    assert texts == {"patience", "more", "and more"}
    assert contents.has(other)


def storing(folder: Path, address: str, **environment: str) -> "subprocess.Popen[str]":
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.storing", str(folder), address],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
        env=os.environ | environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def printed(process: "subprocess.Popen[str]") -> list[str]:
    """The refs a process had printed when it ended."""
    assert process.stdout is not None
    *whole, _ = process.stdout.read().split("\n")  # the last line may be torn
    process.stdout.close()
    process.wait()
    return whole


@pytest.mark.parametrize("point", ["contents.marked:3", "contents.named:3", None])
def test_kill_9_loses_nothing_that_was_put_and_all_of_it_reaches_the_collector(
    tmp_path: Path, point: str | None
) -> None:
    with Collector(tmp_path / "home") as collector:
        process = storing(tmp_path / "runtime", collector.http, **({"TACHOGRAPH_FAILPOINT": point} if point else {}))
        if point is None:
            threading.Timer(0.7, process.send_signal, [signal.SIGKILL]).start()
        refs = printed(process)
        assert len(refs) >= 2
        with Contents(tmp_path / "runtime") as contents, collector.client() as client:
            assert not list((contents.folder.path / "new").iterdir())
            uploader = Uploader(contents, settings(collector.http))
            uploader.start()
            assert uploader.flush()
            uploader.stop()
            for ref in refs:
                assert client.get(f"/v1/blobs/{ref.removeprefix('sha256:')}").content == contents.get(ref)
            assert contents.folder.unsent() == []


def test_opening_beside_a_living_runtime_clears_nothing_away(tmp_path: Path) -> None:
    with Contents(tmp_path) as living:
        (living.folder.path / "new" / "being-written").write_bytes(b"x")
        (living.folder.waiting / ("0" * 64)).touch()
        with Contents(tmp_path):
            assert living.folder.unsent() == ["0" * 64]
            assert (living.folder.path / "new" / "being-written").exists()
    with Contents(tmp_path) as after_a_crash:
        assert after_a_crash.folder.unsent() == []
        assert not list((living.folder.path / "new").iterdir())


# --- fitting ----------------------------------------------------------------------------------------------------


def facts(fitted: Fitted) -> dict[type[Payload], Payload]:
    for fact in fitted.facts:
        assert not list(fact.emission_problems())
    return {type(fact): fact for fact in fitted.facts}


LINES = "".join(f"line {number:05}\n" for number in range(1000))  # 11 bytes each


def test_what_fits_is_given_whole_without_facts(contents: Contents) -> None:
    fitted = fit(contents, LINES, SpillPolicy(max_event_payload_bytes=11_000, max_result_tokens=2750))
    assert fitted.text == LINES
    assert fitted.facts == ()
    assert contents.text(fitted.output) == LINES


@pytest.mark.req("AR-146", "AR-147")
def test_a_large_output_is_kept_whole_and_its_head_and_tail_are_given(contents: Contents) -> None:
    policy = SpillPolicy(max_event_payload_bytes=1000, max_result_tokens=75)
    fitted = fit(contents, LINES, policy, source_kind="process")
    told = facts(fitted)
    head, marker, tail = fitted.text.partition("\n[")[0], fitted.text, fitted.text.rpartition("]\n")[2]
    assert LINES.startswith(head)
    assert LINES.endswith(tail)
    assert head.endswith("line 00017")
    assert tail.startswith("line 0099")
    cut = told[OutputTruncated]
    assert isinstance(cut, OutputTruncated)
    assert cut.retained_bytes == len(head) + len(tail) <= 300
    assert (cut.original_bytes, cut.kept, cut.source_kind) == (11_000, "head_and_tail", "process")
    assert (cut.original_tokens, cut.retained_tokens) == (None, None)  # nobody counted
    assert f"[{11_000 - cut.retained_bytes:,} of 11,000 bytes are left out here" in marker
    assert fitted.output.ref in marker  # type: ignore[operator]  # a ref was made
    spilled = told[OutputSpilled]
    assert isinstance(spilled, OutputSpilled)
    assert (spilled.size_bytes, spilled.inline_limit_bytes, spilled.output_ref) == (11_000, 1000, fitted.output.ref)
    assert contents.text(fitted.output) == LINES


@pytest.mark.parametrize(
    ("head", "tail", "kept"), [(40, None, "head"), (None, 40, "tail"), (40, 40, "head_and_tail"), (0, 0, "head")]
)
def test_the_policy_says_how_much_of_each_end(contents: Contents, head: int, tail: int, kept: str) -> None:
    text = "äöü€" * 1000  # cuts fall between characters
    fitted = fit(contents, text, SpillPolicy(head_bytes=head, tail_bytes=tail))
    [cut] = fitted.facts
    assert isinstance(cut, OutputTruncated)
    assert cut.kept == kept
    assert (head or 0) + (tail or 0) - 6 <= (cut.retained_bytes or 0) <= (head or 0) + (tail or 0)
    assert "�" not in fitted.text


def test_tokens_are_told_where_they_are_counted(contents: Contents) -> None:
    def count(text: str) -> int:
        return len(text.split())

    fitted = fit(contents, LINES, SpillPolicy(max_result_tokens=200), count_tokens=count)
    [cut] = fitted.facts
    assert isinstance(cut, OutputTruncated)
    assert cut.original_tokens == 2000
    assert 150 < (cut.retained_tokens or 0) <= 200
    assert fit(contents, LINES, SpillPolicy(max_result_tokens=2000), count_tokens=count).facts == ()


@pytest.mark.req("AR-148")
def test_masked_secrets_are_a_fact_and_the_model_does_not_get_them(contents: Contents) -> None:
    fitted = fit(contents, f"key: {CANARY}", SpillPolicy())
    [masked] = fitted.facts
    assert isinstance(masked, OutputRedacted)
    assert masked.redactions == {"anthropic": 1}
    assert CANARY not in fitted.text
    assert fitted.text == contents.text(fitted.output)


def test_content_that_is_no_text_is_described(contents: Contents) -> None:
    fitted = fit(contents, b"\x89PNG\x00" * 5, SpillPolicy(max_event_payload_bytes=10), media_type="image/png")
    assert fitted.text == f"[25 bytes of image/png, not text; kept as {fitted.output.ref}]"
    assert set(facts(fitted)) == {OutputSpilled, OutputTruncated}


# --- sending ----------------------------------------------------------------------------------------------------


def test_contents_go_where_the_telemetry_goes() -> None:
    def found(logs: Endpoint | None, traces: Endpoint | None = None, **other: bool) -> str | None:
        endpoint = blob_endpoint(ExportSettings(logs=logs, traces=traces, **other))
        return endpoint.url if endpoint else None

    http = Endpoint(url="https://c:4318/base/v1/logs", headers={"authorization": "Bearer x"})
    assert found(http) == "https://c:4318/base/v1/blobs"
    assert found(None, Endpoint(url="http://c/v1/traces")) == "http://c/v1/blobs"
    assert found(Endpoint(url="http://c:4317", protocol="grpc")) == "http://c:4318/v1/blobs"
    assert found(Endpoint(url="http://c:9999", protocol="grpc")) is None
    assert found(None) is None
    assert found(http, disabled=True) is None
    endpoint = blob_endpoint(ExportSettings(logs=http))
    assert endpoint is not None
    assert endpoint.headers == http.headers


def test_a_collector_that_was_down_gets_everything_once_it_is_up(tmp_path: Path, contents: Contents) -> None:
    port = free_port()
    uploader = Uploader(contents, settings(f"http://127.0.0.1:{port}"))
    uploader.start()
    refs = [contents.put(f"content {number}") for number in range(20)] + [contents.put(LARGE)]
    assert not uploader.flush(0.3)
    backlog = uploader.backlog()
    assert (backlog.contents, backlog.refused) == (21, 0)
    assert "cannot be reached" in (backlog.trouble or "")
    with on_port(tmp_path / "home", port) as collector, collector.client() as client:
        assert uploader.flush()
        assert [client.get(f"/v1/blobs/{ref.sha256}").content for ref in refs] == [contents.get(ref) for ref in refs]
    assert uploader.backlog().contents == 0
    assert uploader.backlog().trouble is None
    uploader.stop()


def test_the_rest_of_a_large_content_is_sent_after_the_collector_was_killed(tmp_path: Path, contents: Contents) -> None:
    port = free_port()
    ref = contents.put(LARGE)
    half = 4 * 1024 * 1024
    collector = on_port(tmp_path / "home", port)
    with collector.client() as client:
        span = {"content-range": f"bytes 0-{half - 1}/{len(LARGE)}"}
        assert client.put(f"/v1/blobs/{ref.sha256}", content=LARGE[:half], headers=span).status_code == 202
    collector.kill()
    with on_port(tmp_path / "home", port) as collector:
        uploader = Uploader(contents, settings(collector.http))
        uploader.start()
        assert uploader.flush()
        uploader.stop()
        with collector.client() as client:
            assert client.get(f"/v1/blobs/{ref.sha256}").content == LARGE


def test_a_beginning_that_somebody_else_sent_wrongly_is_sent_anew(tmp_path: Path, contents: Contents) -> None:
    ref = contents.put(LARGE)
    with Collector(tmp_path / "home") as collector, collector.client() as client:
        span = {"content-range": f"bytes 0-999/{len(LARGE)}"}
        assert client.put(f"/v1/blobs/{ref.sha256}", content=b"!" * 1000, headers=span).status_code == 202
        uploader = Uploader(contents, settings(collector.http))
        uploader.start()
        assert uploader.flush()
        uploader.stop()
        assert client.get(f"/v1/blobs/{ref.sha256}").content == LARGE


def test_what_the_collector_refuses_is_told_and_holds_up_nothing(tmp_path: Path, contents: Contents) -> None:
    refused: list[tuple[str, str]] = []
    damaged, large, fine = contents.put("will be damaged"), contents.put(LARGE), contents.put("fine")
    contents.folder.file(damaged.sha256 or "").write_bytes(b"is damaged now")
    with Collector(tmp_path / "home", TACHOGRAPH_MAX_BLOB_BYTES="2000000") as collector, collector.client() as client:
        uploader = Uploader(contents, settings(collector.http))
        uploader.on_refused = lambda ref, reason: refused.append((ref, reason))
        uploader.start()
        assert uploader.flush()
        assert (uploader.backlog().contents, uploader.backlog().refused) == (2, 2)
        uploader.stop()
        assert client.get(f"/v1/blobs/{fine.sha256}").content == b"fine"
    assert {ref for ref, _ in refused} == {damaged.ref, large.ref}
    assert any("damaged here" in reason for _, reason in refused)
    assert any("2000000" in reason for _, reason in refused)
    assert set(contents.folder.unsent()) == {damaged.sha256, large.sha256}  # tried again after a restart


def test_the_same_content_of_two_runtimes_is_stored_once(tmp_path: Path) -> None:
    redactor = Redactor(b"the same key for both runtimes..")
    with Collector(tmp_path / "home") as collector:
        for name in ("one", "two"):
            with Contents(tmp_path / name, redactor=redactor) as contents:
                ref = contents.put("the same")
                uploader = Uploader(contents, settings(collector.http))
                uploader.start()
                assert uploader.flush()
                uploader.stop()
        assert [path.name for path in (tmp_path / "home" / "blobs").glob("??/*")] == [ref.sha256]


@contextlib.contextmanager
def other_receiver() -> Iterator[str]:
    """A web server that knows no blobs."""

    class Quiet(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_receiver_without_blobs_is_not_bothered_every_second(contents: Contents) -> None:
    with other_receiver() as url:
        uploader = Uploader(contents, settings(url))
        uploader.start()
        contents.put("x")
        deadline = time.monotonic() + 5
        while uploader.backlog().trouble is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "does not take contents" in (uploader.backlog().trouble or "")
        started = time.monotonic()
        uploader.stop()  # although it waits for a minute
        assert time.monotonic() - started < 2


def test_a_token_of_scope_ingest_is_enough(tmp_path: Path, contents: Contents) -> None:
    (tmp_path / "home").mkdir()
    tokens = TokenStore(tmp_path / "home" / "tokens.json")
    token, _ = tokens.create(["ingest"])
    reading, _ = tokens.create(["read"])
    refs = [contents.put(LARGE), contents.put("small")]
    with Collector(tmp_path / "home") as collector:
        logs = Endpoint(url=f"{collector.http}/v1/logs", headers={"authorization": f"Bearer {token}"})
        uploader = Uploader(contents, ExportSettings(logs=logs))
        uploader.start()
        assert uploader.flush()
        uploader.stop()
        for ref in refs:
            url = f"{collector.http}/v1/blobs/{ref.sha256}"
            assert httpx.get(url, headers={"authorization": f"Bearer {reading}"}).content == contents.get(ref)
