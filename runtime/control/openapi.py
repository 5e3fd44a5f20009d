"""The control plane described as OpenAPI, made from the table of commands."""

from typing import Any

from pydantic.json_schema import models_json_schema

from runtime.control.command import TABLE, Command

VIEWS = ("facts", "items")
"""What the stream of a session tells: each fact, or the items that facts are the lives of."""

REFUSALS = {
    "400": "The command is not understood.",
    "401": "No token, or a wrong one.",
    "404": "There is no such session, thread, turn, task or action.",
    "409": "The command does not fit the present state.",
    "501": "The command is not supported yet.",
    "503": "Nothing can be recorded now, so nothing is done.",
}


def describe() -> dict[str, Any]:
    """The whole description."""
    shapes = {(one.asks, "validation") for one in TABLE.values()} | {
        (one.answers, "serialization") for one in TABLE.values()
    }
    ordered = sorted(shapes, key=lambda shape: (shape[0].__name__, shape[1]))
    refs, definitions = models_json_schema(ordered, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]  # the modes are literals
    paths = {f"/v1/control/{one.name}": {"post": _operation(one, refs)} for one in TABLE.values()}
    schemas = {**definitions.get("$defs", {}), "Problem": _problem()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tachograph control plane", "version": "1"},
        "security": [{"token": []}],
        "paths": paths | {"/v1/sessions/{session_id}/events": {"get": _stream()}},
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(one: Command, refs: Any) -> dict[str, Any]:
    refusals = {"400", "401", "503"} | ({"404", "409"} if one.supported else {"501"})
    return {
        "operationId": one.name,
        "summary": one.summary,
        "requestBody": {
            "required": any(field.is_required() for field in one.asks.model_fields.values()),
            "content": {"application/json": {"schema": refs[one.asks, "validation"]}},
        },
        "responses": {
            **({"200": _json("What came of it.", refs[one.answers, "serialization"])} if one.supported else {}),
            **{status: _refusal(status) for status in sorted(refusals)},
        },
    }


def _stream() -> dict[str, Any]:
    return {
        "operationId": "session_events",
        "summary": "The facts of a session after a number, and each new one as it comes (server-sent events).",
        "parameters": [
            {"name": "session_id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}},
            {"name": "after", "in": "query", "schema": {"type": "integer", "minimum": 0}},
            {"name": "view", "in": "query", "schema": {"enum": list(VIEWS), "default": VIEWS[0]}},
        ],
        "responses": {
            "200": {"description": "Facts.", "content": {"text/event-stream": {"schema": {"type": "string"}}}},
            **{status: _refusal(status) for status in ("400", "401", "404")},
        },
    }


def _json(description: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _refusal(status: str) -> dict[str, Any]:
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": REFUSALS[status], "content": content}


def _problem() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["type", "title", "status", "detail", "kind"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "kind": {"type": "string"},
            "next_step": {"type": ["string", "null"]},
            "problems": {"type": "array", "items": {"type": "string"}},
        },
    }
