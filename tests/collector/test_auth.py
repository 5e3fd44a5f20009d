"""Every route against every kind of token: the exact answer, and no route without an entry."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import httpx
import pytest
from starlette.routing import Route

from collector.counters import Counters
from collector.http_server import create_app
from collector.receiver import Receiver
from collector.tokens import TokenStore
from ingest.otlp.signals import SIGNALS
from journal import Journal
from models.redaction import Redactor
from models.settings import Settings
from tests.running import Collector

JSON = {"content-type": "application/json"}
QUERY = b'{"sql": "select 1"}'

# For each route what each kind of token gets. Reads answer 503 behind the door here, since no index is running: what
# counts is who gets past it.
KINDS = ("none", "bad", "ingest", "read", "sql", "admin", "expired", "revoked")
INGEST = (401, 401, 200, 403, 403, 200, 401, 401)
READ = (401, 401, 403, 503, 403, 503, 401, 401)
SQL = (401, 401, 403, 403, 503, 503, 401, 401)
OPEN = (200,) * 8
# An address that is no hash: 400 behind the door.
BLOB_PUT = (401, 401, 400, 403, 403, 400, 401, 401)
BLOB_GET = (401, 401, 403, 400, 403, 400, 401, 401)
ROUTES: dict[tuple[str, str], tuple[bytes, tuple[int, ...]]] = {
    ("POST", "/v1/logs"): (b"{}", INGEST),
    ("POST", "/v1/traces"): (b"{}", INGEST),
    ("POST", "/v1/metrics"): (b"{}", INGEST),
    ("POST", "/v1/events"): (b"", INGEST),
    ("POST", "/v1/query"): (QUERY, SQL),
    ("GET", "/v1/stream"): (b"", READ),
    ("GET", "/v1/index"): (b"", READ),
    ("PUT", "/v1/blobs/{sha256}"): (b"x", BLOB_PUT),
    ("GET", "/v1/blobs/{sha256}"): (b"", BLOB_GET),
    ("GET", "/livez"): (b"", OPEN),
    ("GET", "/readyz"): (b"", OPEN),
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collector, dict[str, str | None]]]:
    """A receiver with tokens, and one token of each kind."""
    home = tmp_path_factory.mktemp("auth") / "home"
    home.mkdir()
    tokens = TokenStore(home / "tokens.json")
    made: dict[str, str | None] = {"none": None}
    for scope in ("ingest", "read", "sql", "admin"):
        made[scope] = tokens.create([scope])[0]
    soon = TokenStore(home / "tokens.json", now=lambda: datetime.now(UTC) - timedelta(days=2))
    made["expired"] = soon.create(["admin"], "", datetime.now(UTC) - timedelta(days=1))[0]
    made["revoked"], revoked = tokens.create(["admin"])
    tokens.revoke(revoked.id)
    genuine = made["admin"] or ""
    made["bad"] = genuine[:-6] + "AAAAAA"
    with Collector(home) as collector:
        yield collector, made


def headers(token: str | None) -> dict[str, str]:
    return JSON | ({"authorization": f"Bearer {token}"} if token else {})


def test_every_route_has_an_entry(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    counters = Counters(tmp_path)
    receiver = Receiver(
        Journal(tmp_path / "journal"), Redactor(b"k" * 32), counters, TokenStore(tmp_path / "tokens.json"), settings
    )
    try:
        served = {
            (method, route.path)
            for route in create_app(receiver).routes
            if isinstance(route, Route)
            for method in (route.methods or set()) - {"HEAD"}
        }
    finally:
        receiver.close()
    assert served == set(ROUTES)


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("kind", KINDS)
def test_each_token_on_each_route(
    guarded: tuple[Collector, dict[str, str | None]], method: str, path: str, kind: str
) -> None:
    collector, tokens = guarded
    body, expected = ROUTES[method, path]
    with collector.client() as client:
        answer = client.request(method, path, content=body, headers=headers(tokens[kind]))
    assert answer.status_code == expected[KINDS.index(kind)], answer.text
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("kind", KINDS)
def test_each_token_over_grpc(guarded: tuple[Collector, dict[str, str | None]], kind: str) -> None:
    collector, tokens = guarded
    expected = {
        "ingest": None,
        "admin": None,
        "read": grpc.StatusCode.PERMISSION_DENIED,
        "sql": grpc.StatusCode.PERMISSION_DENIED,
    }.get(kind, grpc.StatusCode.UNAUTHENTICATED)
    metadata = (("authorization", f"Bearer {tokens[kind]}"),) if tokens[kind] else ()
    with grpc.insecure_channel(collector.grpc) as channel:
        export = channel.unary_unary(SIGNALS["logs"].method, None, None)
        if expected is None:
            assert export(b"", metadata=metadata, timeout=20) == b""
        else:
            with pytest.raises(grpc.RpcError) as refusal:
                export(b"", metadata=metadata, timeout=20)
            assert refusal.value.code() == expected


@pytest.mark.parametrize("place", ["?token={}", "?access_token={}", "?authorization=Bearer%20{}"])
def test_a_token_in_the_address_counts_for_nothing(
    guarded: tuple[Collector, dict[str, str | None]], place: str
) -> None:
    collector, tokens = guarded
    with collector.client() as client:
        answer = client.post("/v1/logs" + place.format(tokens["admin"]), content=b"{}", headers=JSON)
    assert answer.status_code == 401


@pytest.mark.parametrize("form", ["bearer {}", "Bearer  {}", "Bearer%20{}", "Basic {}", "{}", "Bearer {} x"])
def test_other_spellings_of_the_header(guarded: tuple[Collector, dict[str, str | None]], form: str) -> None:
    collector, tokens = guarded
    with collector.client() as client:
        header = {"authorization": form.format(tokens["admin"])}
        answer = client.post("/v1/logs", content=b"{}", headers=JSON | header)
    lenient = ("bearer {}", "Bearer  {}", "Bearer%20{}")
    assert answer.status_code == (200 if form in lenient else 401)
