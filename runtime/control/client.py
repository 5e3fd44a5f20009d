"""A client of a running runtime's control plane: commands and the live stream of facts over HTTP."""

from collections.abc import Generator
from pathlib import Path
from typing import Any, Self

import httpx
import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from models.errors import CommandRefused, NotAuthorised, Unreachable
from models.event import Event
from runtime.control.serving import CONTROL

ANSWER_S = 60.0
"""Commands answer when their facts are on disk; none of them waits for a model."""


class Announced(BaseModel):
    """Where a runtime can be reached, as it wrote it down."""

    model_config = ConfigDict(frozen=True)

    address: str
    token_ref: str
    pid: int
    runtime_id: str


class Refused(CommandRefused):
    """A refusal told by a runtime elsewhere, with its kind, status and faults."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(str(told.get("detail")), next_step=told.get("next_step"))
        self.kind = str(told.get("kind"))  # type: ignore[misc]  # a constant of our own refusals, told by others
        self.status = int(told.get("status", 400))  # type: ignore[misc]  # likewise
        self.problems = tuple(told.get("problems", ()))


def announced(folder: Path) -> Announced | None:
    """The runtime that works in a folder, if it serves its control plane and answers."""
    try:
        found = Announced.model_validate_json((folder / CONTROL).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    try:
        httpx.get(f"{found.address}/livez", timeout=2.0).raise_for_status()
    except httpx.HTTPError:
        return None  # it ended without tidying up
    return found


class ControlClient:
    """Sends commands to one runtime."""

    def __init__(self, address: str, token: str) -> None:
        self._client = httpx.Client(
            base_url=address, headers={"authorization": f"Bearer {token}"}, timeout=ANSWER_S, trust_env=False
        )
        self.address = address

    @classmethod
    def of(cls, found: Announced) -> Self:
        """The client of a runtime that wrote down where it is."""
        return cls(found.address, Path(found.token_ref).read_text().strip())

    def call(self, name: str, content: Any) -> dict[str, Any]:
        """Carry out a command; raises what refuses it."""
        try:
            answer = self._client.post(
                f"/v1/control/{name}", content=orjson.dumps(content), headers={"content-type": "application/json"}
            )
        except httpx.TransportError as problem:
            raise Unreachable(self.address, str(problem), next_step="is the runtime still running?") from None
        told: dict[str, Any] = orjson.loads(answer.content)
        if answer.status_code == httpx.codes.OK:
            return told
        if answer.status_code in (401, 403):
            raise NotAuthorised(str(told.get("detail")), status=answer.status_code, next_step=told.get("next_step"))
        raise Refused(told)

    def events(self, session_id: str, after: int = 0) -> Generator[Event]:
        """The facts of a session after a number, and each new one as it comes, until the runtime ends."""
        route = f"/v1/sessions/{session_id}/events"
        with self._client.stream("GET", route, params={"after": after}, timeout=None) as answer:
            if answer.status_code != httpx.codes.OK:
                answer.read()
                raise Refused(orjson.loads(answer.content))
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield Event.from_json(line.removeprefix("data: "))

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
