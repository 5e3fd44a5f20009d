"""What a question that cannot be answered gets instead: a status, a kind for programs, a sentence and a hint."""

from typing import Any, Literal

import orjson
from starlette.responses import Response

from models.errors import TachographError

Kind = Literal["request", "sql", "refused", "limit", "busy", "restarting", "not_found", "not_authorised", "internal"]

STATUS: dict[Kind, int] = {
    "request": 400,
    "sql": 400,
    "refused": 403,
    "limit": 422,
    "busy": 503,
    "restarting": 503,
    "not_found": 404,
    "not_authorised": 401,
    "internal": 500,
}
RETRY_AFTER_SECONDS = "1"


class Problem(TachographError):
    """A question refused; `kind` says what sort of thing is wrong, `limit` which bound was hit."""

    def __init__(
        self, kind: Kind, message: str, hint: str | None = None, *, limit: str | None = None, status: int | None = None
    ) -> None:
        super().__init__(message, next_step=hint)
        self.kind = kind
        self.limit = limit
        self.status = status or STATUS[kind]

    def response(self) -> Response:
        """The answer in HTTP."""
        told: dict[str, Any] = {"error": self.message, "kind": self.kind, "hint": self.next_step}
        if self.limit:
            told["limit"] = self.limit
        headers = {"retry-after": RETRY_AFTER_SECONDS} if self.status == 503 else {}
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        return Response(orjson.dumps(told), self.status, headers, media_type="application/json")
