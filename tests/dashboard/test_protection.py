"""The host check and the protecting headers."""

import socket

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from dashboard.protection import Protection, inline_scripts, own_name


async def talk(connection: WebSocket) -> None:
    await connection.accept()
    await connection.send_text("hello")
    await connection.close()


APP = Starlette(
    routes=[Route("/", lambda request: PlainTextResponse("page")), WebSocketRoute("/ws", talk)],
    middleware=[Middleware(Protection)],
)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8501", "127.0.0.1:8501", "[::1]:8501", "10.1.2.3", socket.gethostname()]
)
def test_own_names_are_served(host: str) -> None:
    answer = TestClient(APP).get("/", headers={"host": host})
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "'unsafe-inline'" not in policy.split("script-src")[1].split(";")[0]
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["evil.invalid", "evil.invalid:8501", "localhost.evil.invalid", "127.0.0.1.evil.invalid", "[::1", ""]
)
def test_a_foreign_name_gets_nothing(host: str) -> None:
    assert not own_name(host)
    assert TestClient(APP).get("/", headers={"host": host}).status_code == 421


def test_a_foreign_name_gets_no_connection() -> None:
    client = TestClient(APP)
    with client.websocket_connect("/ws", headers={"host": "localhost"}) as connection:
        assert connection.receive_text() == "hello"
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/ws", headers={"host": "evil.invalid"}):
        pass


def test_streamlits_inline_script_is_known_by_its_hash() -> None:
    assert inline_scripts().startswith("'sha256-")
