"""What every answer of the dashboard carries so that hostile text in a trace, or a hostile site, gets nowhere."""

import base64
import hashlib
import ipaddress
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


def inline_scripts() -> str:
    """Streamlit's own inline scripts by their hashes, the only ones that may run."""
    page = (Path(st.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    found = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in found)
    return " ".join(f"'sha256-{each}'" for each in hashes)


POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data: blob:",
        "style-src 'self' 'unsafe-inline'",
        # Vega makes functions of its expressions.
        f"script-src 'self' 'unsafe-eval' blob: {inline_scripts()}",
        "font-src 'self' data:",
        "connect-src 'self' blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    )
)
"""Nothing is loaded from, or told to, another host."""

HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
}


class Protection:
    """Refuses foreign host names and adds the protecting headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif own_name(Headers(scope=scope).get("host")):
            await self._app(scope, receive, self._protected(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            refusal = PlainTextResponse("this host name is not served here\n", status_code=421)
            await refusal(scope, receive, self._protected(send))

    @staticmethod
    def _protected(send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        return sending


def own_name(host: str | None) -> bool:
    """Whether a Host header can be meant for us.

    A site that lets its name point here (DNS rebinding) has a name of its own; so numbers, this machine's names and
    what `server.allowedHosts` lists are served, and nothing else.
    """
    try:
        name = urlsplit(f"//{host or ''}").hostname
    except ValueError:
        return False
    if not name:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.rstrip(".") in _names()
    return True


def _names() -> set[str]:
    allowed = [str(name) for name in st.get_option("server.allowedHosts")]
    return {name.lower() for name in ("localhost", socket.gethostname(), *allowed)}
