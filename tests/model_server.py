"""A model provider on this machine: speaks Chat Completions, Responses and Messages on the wire, and breaks on demand.

Written from the APIs' own descriptions and without any of our code, so that a misreading would not be shared.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Ending = Literal["whole", "cut", "silent", "endless"]
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


@dataclass(frozen=True)
class Tokens:
    """Counts of one answer; `whole_input` contains what was read from and written to the cache."""

    whole_input: int = 100
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    output: int = 20
    reasoning: int = 0


@dataclass(frozen=True)
class Call:
    """A tool call, its arguments in the pieces they are streamed in."""

    id: str
    name: str
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True)
class Said:
    """What a model says, whichever API says it."""

    text: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    withheld: bool = False
    summary: str | None = None
    calls: tuple[Call, ...] = ()
    tokens: Tokens = field(default_factory=Tokens)
    stop: Literal["stop", "length", "filter"] = "stop"
    id: str = "answer_1"
    model: str = "model-x-2026"

    def frames(self, path: str) -> list[bytes]:
        """The answer as server-sent events of the API behind a path."""
        speak = {CHAT: _chat, RESPONSES: _responses, MESSAGES: _messages}[path]
        return list(speak(self))


def event(data: Any, name: str | None = None) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def _chat(said: Said) -> Iterator[bytes]:
    head = {"id": said.id, "object": "chat.completion.chunk", "created": 1, "model": said.model}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return event(head | {"choices": [choice], "usage": None})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for piece in said.reasoning:
        yield chunk({"reasoning_content": piece})
    for piece in said.text:
        yield chunk({"content": piece})
    for index, call in enumerate(said.calls):
        function = {"name": call.name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
        for piece in call.pieces or ("{}",):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    finish = {"length": "length", "filter": "content_filter"}.get(said.stop, "tool_calls" if said.calls else "stop")
    yield chunk({}, finish)
    tokens = said.tokens
    usage = {
        "prompt_tokens": tokens.whole_input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.whole_input + tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
    }
    yield event(head | {"choices": [], "usage": usage})
    yield event("[DONE]")


def _responses(said: Said) -> Iterator[bytes]:
    numbers = iter(range(10_000))

    def told(kind: str, **fields: Any) -> bytes:
        return event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    head = {"id": said.id, "object": "response", "created_at": 1, "model": said.model, "output": [], "tools": []}
    yield told("response.created", response=head | {"status": "in_progress", "usage": None})
    yield told("response.in_progress", response=head | {"status": "in_progress", "usage": None})
    place = -1
    for place, write in enumerate(_response_items(said)):
        yield from write(place, told)
    yield told(
        "response.incomplete" if said.stop != "stop" else "response.completed",
        response=head | _response_end(said.stop) | {"usage": _response_usage(said.tokens)},
    )


def _response_end(stop: str) -> dict[str, Any]:
    reason = {"length": "max_output_tokens", "filter": "content_filter"}.get(stop)
    return {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
    }


def _response_usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.whole_input,
        "input_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.whole_input + tokens.output,
    }


def _response_items(said: Said) -> Iterator[Callable[[int, Callable[..., bytes]], Iterator[bytes]]]:
    if said.reasoning or said.summary:
        yield lambda place, told: _reasoning_item(place, told, said.reasoning, said.summary)
    if said.withheld:
        yield lambda place, told: _reasoning_item(place, told, (), None)
    if said.text:
        yield lambda place, told: _text_item(place, told, said.text)
    for call in said.calls:
        yield lambda place, told, call=call: _call_item(place, told, call)  # type: ignore[misc] # binds the loop variable


def _reasoning_item(
    place: int, told: Callable[..., bytes], pieces: tuple[str, ...], summary: str | None
) -> Iterator[bytes]:
    at = {"item_id": f"rs_{place}", "output_index": place}
    item = {"id": f"rs_{place}", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA-sealed"}
    yield told("response.output_item.added", output_index=place, item=item)
    for piece in pieces:
        yield told("response.reasoning_text.delta", **at, content_index=0, delta=piece)
    if summary is not None:
        yield told("response.reasoning_summary_text.delta", **at, summary_index=0, delta=summary)
        yield told("response.reasoning_summary_text.done", **at, summary_index=0, text=summary)
    yield told("response.output_item.done", output_index=place, item=item)


def _text_item(place: int, told: Callable[..., bytes], pieces: tuple[str, ...]) -> Iterator[bytes]:
    at = {"item_id": f"msg_{place}", "output_index": place}
    item = {"id": f"msg_{place}", "type": "message", "role": "assistant", "content": [], "status": "in_progress"}
    yield told("response.output_item.added", output_index=place, item=item)
    part = {"type": "output_text", "text": "", "annotations": []}
    yield told("response.content_part.added", **at, content_index=0, part=part)
    for piece in pieces:
        yield told("response.output_text.delta", **at, content_index=0, delta=piece, logprobs=[])
    yield told("response.output_text.done", **at, content_index=0, text="".join(pieces), logprobs=[])
    yield told("response.output_item.done", output_index=place, item=item | {"status": "completed"})


def _call_item(place: int, told: Callable[..., bytes], call: Call) -> Iterator[bytes]:
    at = {"item_id": f"fc_{place}", "output_index": place}
    item = {"id": f"fc_{place}", "type": "function_call", "call_id": call.id, "name": call.name, "arguments": ""}
    yield told("response.output_item.added", output_index=place, item=item | {"status": "in_progress"})
    pieces = call.pieces or ("{}",)
    for piece in pieces:
        yield told("response.function_call_arguments.delta", **at, delta=piece)
    whole = "".join(pieces)
    yield told("response.function_call_arguments.done", **at, name=call.name, arguments=whole)
    yield told("response.output_item.done", output_index=place, item=item | {"arguments": whole, "status": "completed"})


def _messages(said: Said) -> Iterator[bytes]:
    def told(kind: str, **fields: Any) -> bytes:
        return event({"type": kind, **fields}, kind)

    message = {"id": said.id, "type": "message", "role": "assistant", "model": said.model, "content": []}
    start = message | {
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _message_usage(said.tokens) | {"output_tokens": 1},
    }
    yield told("message_start", message=start)
    yield told("ping")
    for index, (block, deltas) in enumerate(_message_blocks(said)):
        yield told("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield told("content_block_delta", index=index, delta=delta)
        yield told("content_block_stop", index=index)
    stop = {"length": "max_tokens", "filter": "refusal"}.get(said.stop, "tool_use" if said.calls else "end_turn")
    usage = {"output_tokens": said.tokens.output, "output_tokens_details": {"thinking_tokens": said.tokens.reasoning}}
    yield told("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage=usage)
    yield told("message_stop")


def _message_usage(tokens: Tokens) -> dict[str, Any]:
    split = {
        "ephemeral_5m_input_tokens": tokens.cache_write - tokens.cache_write_1h,
        "ephemeral_1h_input_tokens": tokens.cache_write_1h,
    }
    return {
        "input_tokens": tokens.whole_input - tokens.cache_read - tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_creation": split if tokens.cache_write else None,
        "service_tier": "standard",
    }


def _message_blocks(said: Said) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    if said.reasoning:
        pieces: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": piece} for piece in said.reasoning]
        signature = {"type": "signature_delta", "signature": "sig-1"}
        yield {"type": "thinking", "thinking": "", "signature": ""}, [*pieces, signature]
    if said.withheld:
        yield {"type": "redacted_thinking", "data": "sealed-1"}, []
    if said.text:
        yield {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in said.text]
    for call in said.calls:
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        yield block, [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *call.pieces)]


@dataclass(frozen=True)
class Refusal:
    """An error answer, in the form of whichever API is asked."""

    status: int
    type: str
    message: str = "something went wrong"
    code: str | None = None

    def body(self, path: str) -> dict[str, Any]:
        """The error object."""
        if path == MESSAGES:
            return {"type": "error", "error": {"type": self.type, "message": self.message}, "request_id": "req_011Cabc"}
        return {"error": {"message": self.message, "type": self.type, "param": None, "code": self.code}}


@dataclass(frozen=True)
class Raw:
    """Bytes as they are."""

    frames: tuple[bytes, ...]


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What is sent back, and how the sending ends; `frames` is how much of it goes out before that."""

    what: Said | Refusal | Raw
    headers: Mapping[str, str] = field(default_factory=dict)
    ending: Ending = "whole"
    frames: int | None = None


class ModelServer:
    """Answers requests in the order the answers were given; keeps what it received. Use it as a context."""

    def __init__(self, key: str | None = None) -> None:
        self.key = key
        self.answers: list[Answer] = []
        self.received: list[Received] = []
        self.hung_up = threading.Event()
        self.stopping = threading.Event()
        model_server = self

        class Handler(_Handler):
            peer = model_server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program that is to use it."""
        key = self.key or "sk-none"
        return {
            "OPENAI_API_KEY": key,
            "OPENAI_BASE_URL": f"{self.address}/v1",
            "ANTHROPIC_API_KEY": key,
            "ANTHROPIC_BASE_URL": self.address,
        }

    def gives(self, what: Said | Refusal | Raw, **how: Any) -> None:
        """Answer the next request that has no answer yet with this."""
        self.answers.append(Answer(what, **how))

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    peer: ModelServer

    def log_message(self, *_: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:  # the name is http.server's
        """Serve one request."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.peer.received.append(Received(self.path, headers, body))
        answer = self._refused(headers) or self._next()
        if isinstance(answer.what, Refusal):
            self._send(answer.what.status, answer.headers, json.dumps(answer.what.body(self.path)).encode())
        else:
            frames = answer.what.frames if isinstance(answer.what, Raw) else answer.what.frames(self.path)
            self._stream(list(frames)[: answer.frames], answer)

    def _refused(self, headers: Mapping[str, str]) -> Answer | None:
        if self.path not in (CHAT, RESPONSES, MESSAGES):
            return Answer(Refusal(404, "not_found_error"))
        told = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if self.peer.key is not None and told != self.peer.key:
            return Answer(
                Refusal(401, "authentication_error", f"Incorrect API key provided: {told}", "invalid_api_key")
            )
        return None

    def _next(self) -> Answer:
        if not self.peer.answers:
            return Answer(Refusal(500, "api_error", "the test gave no answer for this request"))
        return self.peer.answers.pop(0)

    def _send(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, frames: list[bytes], answer: Answer) -> None:
        self.send_response(200)
        told = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **answer.headers}
        for name, value in told.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for frame in frames:
                self._chunk(frame)
            while answer.ending in ("silent", "endless") and not self.peer.stopping.wait(0.02):
                if answer.ending == "endless":
                    self._chunk(frames[-1])
        except (BrokenPipeError, ConnectionResetError):
            self.peer.hung_up.set()
        self.close_connection = answer.ending != "whole"
        if answer.ending == "whole":
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()
