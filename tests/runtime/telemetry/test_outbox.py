"""Delivery: in order, at least once, by itself, whatever happens to the collector or to us."""

import contextlib
import gzip
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse

from models.event import Event
from models.payloads.runtime_fault import RuntimeWarned
from models.payloads.session import SessionCreated
from models.payloads.turn import TurnStarted
from runtime.samples import sample_session
from runtime.telemetry import Endpoint, ExportSettings, Telemetry
from runtime.telemetry.emitter import SET_ASIDE
from tests.running import Collector
from tests.runtime.runtimes import IDS, QUICK, held, over_grpc, records, settings

PROJECT = Path(__file__).resolve().parents[3]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def on_port(home: Path, port: int) -> Collector:
    return Collector(home, "--otlp-http", f"127.0.0.1:{port}")


def in_vain(telemetry: Telemetry, seconds: float = 10) -> str:
    """Wait until sending has failed; why it did."""
    deadline = time.monotonic() + seconds
    while telemetry.backlog().trouble is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return telemetry.backlog().trouble or ""


def test_a_collector_that_was_down_for_a_whole_run_gets_all_of_it_in_order_and_once(tmp_path: Path) -> None:
    port = free_port()
    with Telemetry(tmp_path / "runtime", settings=settings(f"http://127.0.0.1:{port}")) as telemetry:
        emitted = sample_session(telemetry, session_id="s")
        assert not telemetry.flush(0.3)
        assert "cannot be reached" in in_vain(telemetry)
        assert telemetry.backlog().records > len(emitted)  # the spans count as well
        with on_port(tmp_path / "home", port):
            assert telemetry.flush(30)
    arrived = held(tmp_path / "home")
    assert [event.event_id for event in arrived.events] == [event.event_id for event in emitted]
    assert len(arrived.spans) == len({span["span_id"] for span in arrived.spans}) > 20
    assert len(arrived.requests) < 20  # sent together, not one by one


def test_a_collector_killed_in_the_middle_misses_nothing(tmp_path: Path) -> None:
    port = free_port()
    collector = on_port(tmp_path / "home", port)
    with Telemetry(tmp_path / "runtime", settings=settings(f"http://127.0.0.1:{port}")) as telemetry:
        emitted = sample_session(telemetry, session_id="s-0")
        for number in range(1, 4):
            collector.kill()
            emitted += sample_session(telemetry, session_id=f"s-{number}")
            collector = on_port(tmp_path / "home", port)
            emitted += [telemetry.record(TurnStarted(status="running"), IDS) for _ in range(20)]
        assert telemetry.flush(30)
    collector.stop()
    assert [event.event_id for event in held(tmp_path / "home").unique] == [event.event_id for event in emitted]


@pytest.mark.req("AR-17", "AR-31", "AR-33")
def test_kill_9_of_the_runtime_loses_nothing_it_recorded_and_the_numbers_go_on(tmp_path: Path) -> None:
    safe: list[tuple[int, str]] = []
    runtimes: set[str] = set()
    with Collector(tmp_path / "home") as collector:
        for _ in range(4):
            runtime, printed = killed_after(0.7, tmp_path / "runtime", collector.http)
            runtimes.add(runtime)
            safe += printed
        with Telemetry(tmp_path / "runtime", settings=settings(collector.http)) as telemetry:
            last = telemetry.record(TurnStarted(status="running"), IDS)
            runtimes.add(telemetry.runtime_id)
            assert telemetry.flush(30)
    events = held(tmp_path / "home").unique
    assert len(safe) > 100
    assert len(runtimes) == 1
    assert {event.runtime_id for event in events} == runtimes
    assert set(safe) <= {(event.sequence, event.event_id) for event in events}
    assert [event.sequence for event in events] == list(range(1, (last.sequence or 0) + 1))


def killed_after(seconds: float, folder: Path, address: str) -> tuple[str, list[tuple[int, str]]]:
    """What a runtime had recorded when it was killed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.runtime.telemetry.crashing", str(folder), address],
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )
    assert process.stdout is not None
    runtime = process.stdout.readline().split()[1]  # ready
    threading.Timer(seconds, process.send_signal, [signal.SIGKILL]).start()
    *whole, _ = process.stdout.read().split("\n")  # the last line may be torn
    process.stdout.close()
    process.wait()
    return runtime, [(int(number), event_id) for number, event_id in map(str.split, whole)]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_both_protocols_with_and_without_compression(tmp_path: Path, protocol: str, compression: str) -> None:
    with Collector(tmp_path / "home") as collector:
        if protocol == "grpc":
            chosen = over_grpc(collector, compression=compression)
        else:
            logs, traces = (
                Endpoint(url=f"{collector.http}/v1/{name}", compression=compression) for name in ("logs", "traces")
            )
            chosen = ExportSettings(logs=logs, traces=traces, **QUICK)
        with Telemetry(tmp_path / "runtime", settings=chosen) as telemetry, telemetry.spans.turn(IDS):
            emitted = [telemetry.record(TurnStarted(status="running"), IDS) for _ in range(50)]
            assert telemetry.flush(20)
    arrived = held(tmp_path / "home")
    assert [event.event_id for event in arrived.events] == [event.event_id for event in emitted]
    assert {record.meta["transport"] for record in arrived.requests} == {"grpc" if protocol == "grpc" else "http"}


def test_over_grpc_a_collector_that_was_down_gets_everything(tmp_path: Path) -> None:
    port = free_port()
    way = Endpoint(url=f"http://127.0.0.1:{port}", protocol="grpc")
    with Telemetry(tmp_path / "runtime", settings=ExportSettings(logs=way, traces=way, **QUICK)) as telemetry:
        emitted = telemetry.record(TurnStarted(status="running"), IDS)
        assert "UNAVAILABLE" in in_vain(telemetry)
        with Collector(tmp_path / "home", "--otlp-grpc", f"127.0.0.1:{port}"):
            assert telemetry.flush(20)
    assert [event.event_id for event in held(tmp_path / "home").events] == [emitted.event_id]


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_what_is_too_large_for_the_collector_goes_in_smaller_requests_or_is_set_aside(
    tmp_path: Path, protocol: str
) -> None:
    port, size = free_port(), 20_000
    address = f"127.0.0.1:{port}"
    way = Endpoint(url=f"http://{address}", protocol="grpc", timeout_s=5)
    chosen = ExportSettings(logs=way, traces=way, **QUICK) if protocol == "grpc" else settings(f"http://{address}")
    with Telemetry(tmp_path / "runtime", settings=chosen) as telemetry:
        small = [telemetry.record(TurnStarted(status="running"), IDS) for _ in range(60)]
        huge = telemetry.record(SessionCreated(title="x" * 2 * size), IDS)
        small += [telemetry.record(TurnStarted(status="running"), IDS) for _ in range(60)]
        option = "--otlp-grpc" if protocol == "grpc" else "--otlp-http"
        with Collector(tmp_path / "home", option, address, TACHOGRAPH_MAX_BODY_BYTES=str(size)):
            assert telemetry.flush(30)
            assert telemetry.flush(30)  # the warning
            assert telemetry.backlog().set_aside == 1
    events = held(tmp_path / "home").events
    assert [event.event_id for event in events[:-1]] == [event.event_id for event in small]
    assert isinstance(events[-1].payload, RuntimeWarned)
    assert events[-1].payload.metadata is not None
    assert events[-1].payload.metadata["event_id"] == huge.event_id
    assert (events[-1].session_id, events[-1].sequence) == ("s-1", 122)


# --- a receiver that answers as told, for what a real collector does only in rare trouble ----------------------------


@dataclass
class Receiver:
    """Takes OTLP/HTTP and keeps it, with answers for the first requests to be set beforehand."""

    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    poison: set[str] = field(default_factory=set)
    refuses_all: bool = False
    partial: int = 0
    at: list[float] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    """The event ids of accepted facts."""

    address: str = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        self.at.append(time.monotonic())
        self.headers.append(headers)
        if self.answers:
            return *self.answers.pop(0), b""
        if not path.endswith("/v1/logs"):
            return 200, {}, b""
        request = ExportLogsServiceRequest.FromString(gzip.decompress(body) if "content-encoding" in headers else body)
        ids = [
            attribute.value.string_value
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
            for attribute in record.attributes
            if attribute.key == "agent_runtime.event_id"
        ]
        if self.refuses_all or self.poison & set(ids):
            return 400, {}, b"no"
        self.logs += ids
        answer = ExportLogsServiceResponse()
        answer.partial_success.rejected_log_records, self.partial = self.partial, 0
        return 200, {}, answer.SerializeToString()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    taking = Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, headers, content = taking.take(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    taking.address = f"http://127.0.0.1:{server.server_address[1]}"
    yield taking
    server.shutdown()
    thread.join()
    server.server_close()


@contextlib.contextmanager
def sending(folder: Path, receiver: Receiver, count: int = 1) -> Iterator[tuple[Telemetry, list[Event]]]:
    with Telemetry(folder, settings=settings(receiver.address)) as telemetry:
        yield telemetry, [telemetry.record(TurnStarted(status="running"), IDS) for _ in range(count)]


def test_the_receiver_s_retry_after_is_kept_to(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answers = [(503, {"retry-after": "1"}), (429, {"retry-after": "1"})]
    with sending(tmp_path, receiver) as (telemetry, emitted):
        assert telemetry.flush(10)
    first, second, third = receiver.at
    assert second - first >= 1
    assert third - second >= 1
    assert receiver.logs == [emitted[0].event_id]


@pytest.mark.parametrize("status", [401, 404, 408, 429, 500, 502, 503, 504])
def test_whatever_may_pass_is_tried_again(tmp_path: Path, receiver: Receiver, status: int) -> None:
    receiver.answers = [(status, {})] * 3
    with sending(tmp_path, receiver) as (telemetry, emitted):
        assert telemetry.flush(10)
    pauses = [after - before for before, after in zip(receiver.at, receiver.at[1:], strict=False)]
    assert len(pauses) == 3
    assert pauses[0] < pauses[2]  # each longer than the one before it
    assert receiver.logs == [emitted[0].event_id]


def test_a_record_refused_for_good_is_set_aside_and_the_rest_goes_on(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answers = [(503, {"retry-after": "1"})]  # so that all of them are sent together
    with sending(tmp_path, receiver, 40) as (telemetry, emitted):
        bad = emitted[17].event_id
        receiver.poison = {bad}
        assert telemetry.flush(20)
        assert telemetry.backlog().set_aside == 1
        assert telemetry.flush(20)  # the warning
        runtime_id = telemetry.runtime_id
    good = [event.event_id for event in emitted if event.event_id != bad]
    assert receiver.logs[: len(good)] == good
    assert receiver.logs[len(good) :] == [f"{runtime_id}-refused-18-18"]
    noted = [record.meta for record in records(tmp_path / "journal") if record.kind == SET_ASIDE]
    assert len(noted) == 1
    assert noted[0]["event_id"] == bad
    assert noted[0]["positions"] == [18, 18]
    assert "400" in noted[0]["reason"]


def test_a_warning_that_is_refused_too_warns_of_nothing_more(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answers = [(503, {"retry-after": "1"})]
    with sending(tmp_path, receiver, 3) as (telemetry, emitted):
        warning = f"{telemetry.runtime_id}-refused-3-3"
        receiver.poison = {emitted[2].event_id, warning}
        assert telemetry.flush(10)
        assert telemetry.flush(10)  # the warning
        assert telemetry.backlog().set_aside == 2
        assert telemetry.flush(10)
        assert telemetry.backlog().records == 0
    assert receiver.logs == [event.event_id for event in emitted[:2]]
    kinds = [record.kind for record in records(tmp_path / "journal")]
    assert kinds == ["otlp.logs"] * 3 + [SET_ASIDE, "otlp.logs", SET_ASIDE]


def test_when_even_an_empty_request_is_refused_nothing_is_set_aside(tmp_path: Path, receiver: Receiver) -> None:
    receiver.refuses_all = True
    with sending(tmp_path, receiver, 5) as (telemetry, emitted):
        assert not telemetry.flush(1)
        assert telemetry.backlog().set_aside == 0
        assert telemetry.backlog().records == 5
        receiver.refuses_all = False  # it is put right
        assert telemetry.flush(10)
    assert receiver.logs == [event.event_id for event in emitted]


def test_what_is_refused_in_part_is_counted_and_not_sent_again(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answers = [(503, {"retry-after": "1"})]
    receiver.partial = 2
    with sending(tmp_path, receiver, 5) as (telemetry, emitted):
        assert telemetry.flush(10)
        assert telemetry.flush(10)
        assert telemetry.backlog().set_aside == 2
    assert receiver.logs[:5] == [event.event_id for event in emitted]
    assert len(receiver.logs) == 6  # and the warning


def test_headers_of_the_settings_are_sent(tmp_path: Path, receiver: Receiver) -> None:
    way = Endpoint(url=f"{receiver.address}/v1/logs", headers={"authorization": "Bearer t"}, compression="gzip")
    with Telemetry(tmp_path, settings=ExportSettings(logs=way, traces=None, **QUICK)) as telemetry:
        telemetry.record(SessionCreated(title="x"), IDS)
        assert telemetry.flush(10)
    assert receiver.headers[0]["authorization"] == "Bearer t"
    assert receiver.headers[0]["content-encoding"] == "gzip"


def test_a_receiver_that_does_not_answer_never_holds_up_recording(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        way = Endpoint(url=f"http://127.0.0.1:{silent.getsockname()[1]}/v1/logs", timeout_s=2)
        with Telemetry(tmp_path, settings=ExportSettings(logs=way, traces=None, **QUICK)) as telemetry:
            telemetry.record(TurnStarted(status="running"), IDS)
            time.sleep(0.2)  # a request is under way
            begun = time.monotonic()
            for _ in range(50):
                telemetry.record(TurnStarted(status="running"), IDS)
            assert time.monotonic() - begun < 1.5


def test_what_was_sent_before_a_restart_is_not_sent_again(tmp_path: Path, receiver: Receiver) -> None:
    with sending(tmp_path, receiver, 5) as (telemetry, first):
        assert telemetry.flush(10)
    with sending(tmp_path, receiver, 5) as (telemetry, second):
        assert telemetry.flush(10)
    assert receiver.logs == [event.event_id for event in [*first, *second]]
