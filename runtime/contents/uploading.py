"""Sends contents to the collector in the background, each until it is there."""

import hashlib
import logging
import random
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit, urlunsplit

import httpx

from runtime.contents.keeping import PREFIX, Contents
from runtime.telemetry.export_settings import Endpoint, ExportSettings
from runtime.telemetry.transport import Accepted, Answer, Refused, TryLater, retry_after, trust

WHOLE_BYTES = 1024 * 1024
"""Content up to this size is sent at once; of larger content the collector is first asked how much it has."""

PIECE_BYTES = 8 * 1024 * 1024
OTLP_GRPC_PORT, OTLP_HTTP_PORT = 4317, 4318
IDLE_SECONDS = 60.0
NO_BLOBS_PAUSE_S = 60.0
"""A receiver that does not know the address is another program; it may be replaced by ours, but not within a second."""

_MAX_SIZE = re.compile(r"max-size=(\d{1,18})\b")
logger = logging.getLogger("tachograph.runtime.contents")


def blob_endpoint(settings: ExportSettings) -> Endpoint | None:
    """Where contents go, by where telemetry goes: `/v1/blobs` beside `/v1/logs`; None: they stay here.

    Over gRPC the address tells nothing of HTTP, except that the standard port 4317 has 4318 beside it.
    """
    if settings.disabled:
        return None
    for endpoint, path in ((settings.logs, "/v1/logs"), (settings.traces, "/v1/traces")):
        if endpoint is not None and endpoint.protocol != "grpc" and endpoint.url.endswith(path):
            return endpoint.model_copy(update={"url": endpoint.url.removesuffix(path) + "/v1/blobs"})
    for endpoint in (settings.logs, settings.traces):
        if endpoint is not None and endpoint.protocol == "grpc":
            parts = urlsplit(endpoint.url)
            if parts.port == OTLP_GRPC_PORT:
                host = parts.netloc.removesuffix(f":{OTLP_GRPC_PORT}")
                url = urlunsplit((parts.scheme, f"{host}:{OTLP_HTTP_PORT}", "/v1/blobs", "", ""))
                return endpoint.model_copy(update={"url": url, "protocol": "http/protobuf"})
    return None


@dataclass(frozen=True, slots=True)
class UploadBacklog:
    """What the collector does not have."""

    contents: int
    """How many contents wait, those refused included."""

    refused: int
    """How many of them the collector refused since this start; they stay here and are tried again after a restart."""

    trouble: str | None
    """Why sending does not get on at the moment."""


class Uploader:
    """Sends every content that has a mark in `waiting`, in any order, at least once; removes the mark afterwards.

    It resumes by itself: after a restart by the marks, within a large content by what the collector says it has. A
    content that fails goes to the end of the queue, so it holds up no other.
    """

    def __init__(self, contents: Contents, settings: ExportSettings, *, endpoint: Endpoint | None = None) -> None:
        self._folder = contents.folder
        self._settings = settings
        target = endpoint or blob_endpoint(settings)
        self._way = BlobWay(target) if target is not None else None
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failures = 0
        self._waiting: dict[str, None] = {}
        self._refused: dict[str, str] = {}
        self.trouble: str | None = None if self._way else "no address for contents: telemetry is not sent over HTTP"
        self.on_refused: Callable[[str, str], None] = lambda ref, reason: None
        """Told of a ref and the reason, in the sending thread, when the collector refuses a content for good."""

        self._thread = threading.Thread(target=self._run, name="contents-upload", daemon=True)
        contents.on_kept = self._notice

    def start(self) -> None:
        """Begin to send what an earlier process left and what comes, in a thread of its own."""
        self._notice(self._folder.unsent())
        if self._way is not None:
            self._thread.start()

    def _notice(self, sha256s: list[str]) -> None:
        with self._changed:
            self._waiting.update(dict.fromkeys(sha256s))
            self._changed.notify_all()

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Wait until nothing waits that could be sent; False when the time is up before."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting, timeout_s)

    def backlog(self) -> UploadBacklog:
        """What the collector does not have."""
        with self._changed:
            return UploadBacklog(len(self._waiting) + len(self._refused), len(self._refused), self.trouble)

    def stop(self) -> None:
        """End after the request under way; what is not sent is sent after the next start."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        if self._way is not None:
            self._way.close()

    # --- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._send_next()
            except Exception:  # a fault of ours may delay delivery, but not end it for good
                logger.exception("sending contents failed; it is tried again")
                self._pause(None)

    def _send_next(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._stopping.is_set(), IDLE_SECONDS)
            sha256 = next(iter(self._waiting), None)
        if sha256 is None or self._way is None or self._stopping.is_set():
            return
        answer = self._way.send(sha256, self._folder.file(sha256), self._stopping)
        if isinstance(answer, Accepted):
            if self.trouble is not None:
                logger.warning("contents are accepted again")
            self.trouble, self._failures = None, 0
            self._folder.sent(sha256)
            self._done(sha256)
        elif isinstance(answer, Refused):
            logger.warning("the collector refused content %s%s: %s", PREFIX, sha256, answer.reason)
            self._done(sha256, refused=answer.reason)
            self.on_refused(PREFIX + sha256, answer.reason)
        else:
            self._went_wrong(sha256, answer)

    def _done(self, sha256: str, *, refused: str | None = None) -> None:
        with self._changed:
            self._waiting.pop(sha256, None)
            if refused is not None:
                self._refused[sha256] = refused
            self._changed.notify_all()

    def _went_wrong(self, sha256: str, answer: TryLater) -> None:
        if self.trouble != answer.reason:
            logger.warning("contents wait: %s", answer.reason)
        with self._changed:
            self.trouble = answer.reason
            self._waiting.pop(sha256, None)
            self._waiting[sha256] = None
        self._pause(answer.after_s)

    def _pause(self, asked_s: float | None) -> None:
        """Wait as long as the collector asks; otherwise longer with each failure, never in step with other senders."""
        growing_s = min(self._settings.first_backoff_s * 2**self._failures, self._settings.max_backoff_s)
        self._failures = min(self._failures + 1, 30)
        self._stopping.wait(growing_s * random.uniform(0.8, 1.2) if asked_s is None else asked_s)


class BlobWay:
    """The way of one content to the collector."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._url = endpoint.url.rstrip("/")
        headers = {**endpoint.headers, "content-type": "application/octet-stream"}
        self._client = httpx.Client(timeout=endpoint.timeout_s, verify=trust(endpoint), headers=headers)

    def send(self, sha256: str, path: Path, stopping: threading.Event) -> Answer:
        """Send a content, or what is missing of it, and say what became of it."""
        try:
            size = path.stat().st_size
            answer = self._whole(sha256, path) if size <= WHOLE_BYTES else self._rest(sha256, path, size, stopping)
        except FileNotFoundError:
            return Refused("it is no longer here")
        except httpx.HTTPError as problem:
            return TryLater(f"{self._url} cannot be reached: {problem or type(problem).__name__}")
        if isinstance(answer, Refused) and not _is_whole(path, sha256):
            return Refused("it is damaged here: its hash is another")
        return answer

    def _whole(self, sha256: str, path: Path) -> Answer:
        return self._meaning(self._client.put(f"{self._url}/{sha256}", content=path.read_bytes()))

    def _rest(self, sha256: str, path: Path, size: int, stopping: threading.Event) -> Answer:
        found = self._client.head(f"{self._url}/{sha256}")
        if found.status_code != httpx.codes.NOT_FOUND:
            return self._meaning(found)
        limit = _MAX_SIZE.search(found.headers.get("upload-limit", ""))
        if limit is None:
            return TryLater(f"{self._url} does not take contents", NO_BLOBS_PAUSE_S)
        if size > int(limit[1]):
            return Refused(f"it has {size} bytes, the collector takes {limit[1]}")
        start = _offset(found)
        if not 0 < start < size:
            start = 0
        answer: Answer = TryLater("the content became shorter while it was sent")
        with path.open("rb") as file:
            for at, piece in _pieces(file, start, size):
                if stopping.is_set():
                    return TryLater("the runtime is being stopped")
                span = {"content-range": f"bytes {at}-{at + len(piece) - 1}/{size}"}
                answered = self._client.put(f"{self._url}/{sha256}", content=piece, headers=span)
                if answered.status_code != httpx.codes.ACCEPTED:
                    answer = self._meaning(answered)
                    break
        if isinstance(answer, Refused) and start > 0:  # what was there was not ours; it is gone now
            return TryLater(answer.reason, 0.0)
        return answer

    def _meaning(self, answer: httpx.Response) -> Answer:
        if answer.status_code in (httpx.codes.OK, httpx.codes.CREATED):
            return Accepted()
        told = f": {answer.text.strip()[:200]}" if answer.content else ""
        reason = f"{self._url} answered {answer.status_code}{told}"
        if answer.status_code in (400, 413):
            return Refused(reason)
        if answer.status_code in (404, 405):
            return TryLater(f"{self._url} does not take contents", NO_BLOBS_PAUSE_S)
        return TryLater(reason, retry_after(answer.headers))

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()


def _offset(answer: httpx.Response) -> int:
    told = answer.headers.get("upload-offset", "")
    return int(told) if told.isdecimal() and len(told) <= 18 else 0


def _pieces(file: IO[bytes], start: int, size: int) -> Iterator[tuple[int, bytes]]:
    file.seek(start)
    while start < size and (piece := file.read(min(PIECE_BYTES, size - start))):
        yield start, piece
        start += len(piece)


def _is_whole(path: Path, sha256: str) -> bool:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256
