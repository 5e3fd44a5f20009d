"""A question as it comes over HTTP; read by the receiver, which relays it, and by the index, which answers it."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from collector.problems import Problem

MAX_SQL_BYTES = 64 * 1024
MAX_REQUEST_BYTES = 4 * MAX_SQL_BYTES

Value = str | bool | int | float | None


class QueryRequest(BaseModel):
    """The body of `POST /v1/query`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sql: str
    params: list[Value] | dict[str, Value] = []
    """Values of `?` in turn, or of `$name` by name."""

    format: Literal["json", "arrow"] = "json"
    max_rows: int | None = Field(default=None, ge=1)
    """Rows after which the answer is cut off and marked as truncated; None: all, or an error."""

    timeout_s: float | None = Field(default=None, gt=0)

    @classmethod
    def parse(cls, body: bytes) -> "QueryRequest":
        """The request in a body; raises Problem."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = "".join(f"{part}: " for part in first["loc"])
            hint = 'send {"sql": "select …"} as JSON'
            raise Problem("request", f"the body is no query: {place}{first['msg']}", hint) from None


async def limited_body(request: Request) -> bytes:
    """The body of a question; much smaller than what senders of telemetry may send."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_REQUEST_BYTES:
            raise Problem("limit", f"the body is longer than {MAX_REQUEST_BYTES} bytes", limit="text", status=413)
    return bytes(body)
