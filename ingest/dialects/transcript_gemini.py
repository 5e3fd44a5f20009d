"""Gemini CLI's chats: a message of the model is a call, with its tools beside it."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from ingest.dialects import transcript as ts
from ingest.dialects.dialect import Dialect
from ingest.dialects.transcript import Fact, Line, Noted, count, items, table, text

PROVIDER = "google"
FAILED = {"error": "tool_failed", "cancelled": "cancelled"}


class GeminiTranscript(Dialect, name="transcript_gemini"):
    """A message is written again when its tools are done; its id tells that it is the same call."""

    wants = ts.WANTED
    claims = ts.of_format("gemini")

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Each line's facts; lines of other kinds are kept as records only."""
        return ts.events_from(records, read)


def read(name: str, line: Line, noted: Noted) -> Iterator[Fact]:
    """The facts of one line."""
    turn = {"turn_id": noted.get("turn"), "subagent_id": text(noted.get("agent"))}
    match name:
        case "session" if noted.get("opens") and turn["subagent_id"]:
            began = {"status": "running"}
            yield turn | {"type": "subagent.spawned", "status": "running", "payload": began}
        case "session" if noted.get("opens"):
            payload = {
                "client_name": "gemini-cli",
                "metadata": {"kind": line["kind"]} if text(line.get("kind")) else {},
            }
            yield {"type": "session.created", "payload": payload}
        case "$set":
            for message in map(table, items(table(line.get("$set")).get("messages"))):
                if message.get("type") == "gemini":  # what the client put in for the user is no turn
                    yield from (turn | fact for fact in _message(message))
        case "$rewindTo":
            told = {"status": "completed", "target": text(line.get("$rewindTo"))}
            yield {"type": "history.rollback.completed", "status": "completed", "payload": told}
        case "user" | "gemini" | "error":
            yield from (turn | fact for fact in _message(line))


def _message(message: dict[str, Any]) -> Iterator[Fact]:
    match message.get("type"):
        case "gemini":
            yield from _call(message)
        case "error":
            said = text(message.get("content"))
            told = {"code": "client_error", "message": (said or "")[: ts.MESSAGE_CHARS] or None}
            yield {"type": "runtime.error", "status": "failed", "error": "client_error", "payload": told}
        case "user":
            content = message.get("content")
            parts = items(content)
            if not any("functionResponse" in table(part) for part in parts):
                payload = {"status": "accepted", "input_chars": ts.size(content), "source": "user"}
                yield {
                    "type": "turn.submitted",
                    "status": "accepted",
                    "turn_id": text(message.get("id")),
                    "payload": payload,
                }


def _call(message: dict[str, Any]) -> Iterator[Fact]:
    tokens = table(message.get("tokens"))
    call_id = text(message.get("id"))
    if tokens or text(message.get("model")):
        cached, whole = count(tokens.get("cached")), count(tokens.get("input"))
        usage = {
            "uncached_input_tokens": None if whole is None else max(whole - (cached or 0), 0),
            "cache_read_tokens": cached,
            "output_tokens": count(tokens.get("output")),
            "reasoning_tokens": count(tokens.get("thoughts")),
            "total_tokens": count(tokens.get("total")),
        }
        yield ts.model_call(
            usage,
            request_id=call_id,
            provider=PROVIDER,
            model=text(message.get("model")),
            payload={"message_id": call_id, "input_includes_cache": "true"},
        )
    for tool in map(table, items(message.get("toolCalls"))):
        name, tool_id, status = text(tool.get("name")), text(tool.get("id")), text(tool.get("status"))
        yield ts.tool_started(tool_id, name, tool.get("args"))
        if status is not None:
            more = {"native_status": status} | ({"success": True} if status == "success" else {})
            yield ts.tool_ended(tool_id, name, tool.get("result"), error=FAILED.get(status), payload=more)
