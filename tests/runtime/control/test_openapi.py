"""The description of the control plane is true: requests made from it, and broken ones, get only answers it names."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from runtime.control.openapi import describe
from runtime.control.serving import served, token_of
from runtime.runtime import Runtime
from tests.runtime.stage import staged

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
TOLERANT = {"create_task", "update_task", "start_task", "append_task_progress", "record_evidence"}
"""These take values of the vocabulary, which are read as tolerantly as everywhere: a number can stand for a text."""

EXPECTED_501 = "not_supported"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A served runtime in a thread of its own: its address and token."""
    folder = Path(tmp_path_factory.mktemp("control")) / "runtime"
    ready: Future[tuple[str, Runtime, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        runtime = await staged(folder)
        ending = asyncio.Event()
        async with runtime, served(runtime) as url:
            ready.set_result((url, runtime, asyncio.get_running_loop(), ending))
            await ending.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    url, _, loop, ending = ready.result()
    yield url, token_of(folder)
    loop.call_soon_threadsafe(ending.set)
    thread.join()


def without_stream() -> dict[str, Any]:
    """The description of the commands; the stream never ends, so it has tests of its own."""
    told = describe()
    told["paths"] = {path: what for path, what in told["paths"].items() if path.startswith("/v1/control/")}
    return told


schema = schemathesis.openapi.from_dict(without_stream())


@schema.parametrize()
@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_answers_are_as_described(case: Case[Any], running: tuple[str, str]) -> None:
    url, token = running
    answer = case.call(base_url=url, headers={"authorization": f"Bearer {token}"})
    if answer.status_code == 501:
        assert answer.json()["kind"] == EXPECTED_501
        return
    strict = case.path.rpartition("/")[2] not in TOLERANT
    case.validate_response(answer, checks=[check for check in CHECKS if strict or check is not negative_data_rejection])
