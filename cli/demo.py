"""`tachograph demo`: a collector with recorded sessions in it, to look around in."""

import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import httpx

import store
from cli.output import progress
from cli.settings import settings
from ingest.importers import Piece, importer_for
from ingest.importers.importer import opened
from models.address import Address
from models.errors import CheckFailed, TachographError
from runtime.samples import sample_session
from runtime.telemetry import ExportSettings, Telemetry

RECORDINGS = Path(__file__).resolve().parent.parent / "sample_traces" / "real"
CONTENT_TYPES = {"protobuf": "application/x-protobuf", "json": "application/json"}
LOAD_SECONDS = 60.0
READY = re.compile(r"ready otlp-http=(\S+) otlp-grpc=(\S+)(?: dashboard=(\S+))?")


@click.command("demo")
@click.option(
    "--otlp-http", metavar="HOST:PORT", help="Address of OTLP/HTTP.  [default: 127.0.0.1:4318, or a free port]"
)
@click.option(
    "--otlp-grpc", metavar="HOST:PORT", help="Address of OTLP/gRPC.  [default: 127.0.0.1:4317, or a free port]"
)
@click.option(
    "--dashboard", metavar="HOST:PORT", help="Address of the dashboard.  [default: 127.0.0.1:8501, or a free port]"
)
@click.option("--no-dashboard", is_flag=True, help="Without the dashboard.")
@click.pass_context
def command(
    ctx: click.Context, otlp_http: str | None, otlp_grpc: str | None, dashboard: str | None, no_dashboard: bool
) -> None:
    """Start a collector and a dashboard with a sample session and recordings of real agents in them.

    Runs until Ctrl-C. What it recorded stays in the home folder; running it again shows the same.
    """
    home = settings(ctx).home
    options = [
        "--otlp-http", otlp_http or _free("127.0.0.1:4318"),
        "--otlp-grpc", otlp_grpc or _free("127.0.0.1:4317"),
        *(["--no-dashboard"] if no_dashboard else ["--dashboard", dashboard or _free("127.0.0.1:8501")]),
    ]  # fmt: skip
    program = [sys.executable, "-m", "cli.main", "--home", str(home), "up", *options]
    collector = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)  # noqa: S603 (our own program)
    try:
        match = READY.match(collector.stdout.readline() if collector.stdout else "")
        if match is None:
            raise CheckFailed("the collector did not start", next_step=f"try `tachograph --home {home} doctor`")
        _fill(home, f"http://{match[1]}")
        _invite(home, match[1], match[3])
        signal.signal(signal.SIGTERM, lambda *_: collector.send_signal(signal.SIGTERM))
        ctx.exit(collector.wait())
    except KeyboardInterrupt:
        ctx.exit(collector.wait())  # Ctrl-C reached it too
    finally:
        if collector.poll() is None:
            collector.terminate()
            collector.wait()


def _free(text: str) -> str:
    """The address, or another port of its host where that one is taken."""
    address = Address.parse(text)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address.host, address.port))
        except OSError:
            click.echo(f"{text} is taken; using another port", err=True)
            return f"{address.host}:0"
    return text


def _fill(home: Path, url: str) -> None:
    """Send everything once; a home that was filled before stays as it is."""
    mark = home / "demo-filled"
    if mark.exists():
        return
    pieces = [piece for path in sorted(RECORDINGS.rglob("*")) if _is_recording(path) for piece in _pieces(path)]
    with httpx.Client(base_url=url, timeout=60) as client, progress(len(pieces), "recordings of real agents") as bar:
        for piece in pieces:
            headers = {"content-type": CONTENT_TYPES[piece.encoding]}
            client.post(f"/v1/{piece.source}", content=piece.body, headers=headers).raise_for_status()
            bar.update(1)
    with Telemetry(
        home / "runtime", settings=ExportSettings.from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": url})
    ) as telemetry:
        events = sample_session(telemetry, session_id="demo-session")
        if not telemetry.flush(LOAD_SECONDS):
            raise CheckFailed("the sample session could not be delivered")
    _wait(home, "demo-session", len(events))
    mark.touch()


def _is_recording(path: Path) -> bool:
    return path.parent.name in ("traces", "logs", "metrics") and not path.name.endswith(".decoded.json")


def _pieces(path: Path) -> list[Piece]:
    with opened(path) as content:
        return [piece for piece in importer_for(path).read(path, content) if isinstance(piece, Piece)]


def _wait(home: Path, session_id: str, events: int) -> None:
    """Until the sample session can be asked for."""
    deadline = time.monotonic() + LOAD_SECONDS
    while time.monotonic() < deadline:
        try:
            with store.open(home) as reader:
                query = "select events from sessions where session_id = ?"
                if any(row["events"] >= events for row in reader.sql(query, [session_id]).to_pylist()):
                    return
        except TachographError:
            pass  # it is loading
        time.sleep(0.1)


def _invite(home: Path, http: str, dashboard: str | None) -> None:
    with store.open(home) as reader:
        counts = reader.sql(
            "select count(*) as sessions, sum(model_calls) as calls, sum(tool_calls) as tools from sessions"
        ).to_pylist()[0]
    click.echo(f"recorded {counts['sessions']} sessions, {counts['calls']} model calls, {counts['tools']} tool calls")
    if dashboard:
        click.echo(f"dashboard  {dashboard}")
    click.echo(f"OTLP       http://{http}  (send your own agent's telemetry there)")
    program = f"{sys.argv[0]} --home {home}"
    click.echo(f"terminal   {program} sessions")
    click.echo(
        f'SQL        {program} sql "select model, count(*) as calls, sum(cost_usd) as usd from model_calls group by 1"'  # noqa: S608
    )
    click.echo("Ctrl-C ends it.", err=True)
    sys.stdout.flush()
