"""A headless Chromium, driven over its debugging protocol: loads pages, waits, clicks, and sees every request."""

import base64
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
LISTENING = re.compile(r"DevTools listening on (ws://\S+)")


class Browser:
    """One tab. What the page asked of the network, said on its console and threw is kept."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._last = 0
        self._tab: str | None = None
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._tab = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        self._connection.send(json.dumps(message | ({"sessionId": self._tab} if self._tab else {})))
        while True:
            answer = json.loads(self._connection.recv(timeout=30))
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                found: dict[str, Any] = answer["result"]
                return found
            self._note(answer)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event["method"] == "Network.webSocketCreated":
            self.requests.append(params["url"])
        elif event["method"] == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"].get("text", ""))
        elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(params["entry"]["text"])

    def open(self, url: str) -> None:
        """Load a page; Streamlit draws it afterwards, so wait for what it should show."""
        self._call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def text(self) -> str:
        """What the page says."""
        return str(self.run("document.body ? document.body.innerText : ''"))

    def wait_for(self, script: str, seconds: float = 30.0) -> None:
        """Wait until an expression is true; fails with what the page says instead."""
        deadline = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < deadline, f"never: {script}\n{self.text()}\n{self.complaints}"
            time.sleep(0.1)

    def wait_for_text(self, text: str, seconds: float = 30.0) -> None:
        """Wait until the page says something."""
        self.wait_for(f"(document.body ? document.body.innerText : '').includes({json.dumps(text)})", seconds)

    def settle(self, seconds: float = 30.0) -> None:
        """Wait until Streamlit has finished its run and drawn it."""
        self.wait_for("!!document.querySelector('.stApp[data-test-script-state=\"notRunning\"]')", seconds)
        time.sleep(0.7)

    def click(self, x: float, y: float) -> None:
        """Press and release the left button at a place in the window."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def dark(self) -> None:
        """Prefer dark pages from now on."""
        self._call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def screenshot(self, path: Path, height: int | None = None) -> None:
        """Keep a picture of the window, or of so many pixels of the page."""
        if height:
            self._call(
                "Emulation.setDeviceMetricsOverride", width=1400, height=height, deviceScaleFactor=1, mobile=False
            )
            time.sleep(1.0)
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser with a fresh profile in the folder; skips the test where none is installed."""
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine: the pages are not tried in a browser")
    log = folder / "chromium.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        with connect(_address(process, log), max_size=None) as connection:
            yield Browser(connection)
    finally:
        process.terminate()
        process.wait(timeout=20)


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        found = LISTENING.search(log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"chromium did not start: {log.read_text(errors='replace')[-2000:]}")
