"""Readers get normalised facts; what a provider sent in its own form is kept, and reached by its ref alone."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from runtime.control.serving import served, token_of
from runtime.routing.catalogue import Catalogue, Model, ProviderEntry
from runtime.runtime import Runtime, RuntimeOptions
from runtime.telemetry import ExportSettings
from tests.model_server import Call, ModelServer, Said
from tests.runtime.loop.driving import SESSION, THREAD, Stage, run
from tests.runtime.providers.conversations import SHAPES

NATIVE = re.compile(
    rb"sig-1|gAAAA-sealed|thinking|signature|content_block|message_start|message_delta|input_json|tool_use|end_turn"
    rb"|chat\.completion|\"choices\":\[|finish_reason|\"tool_calls\":\[|prompt_tokens|completion_tokens|logprobs"
    rb"|response\.(created|completed|output)|encrypted_content|output_index|item_id|service_tier|ephemeral_"
)
"""Words that only the records of providers have."""

FIRST = Said(
    reasoning=("I must ", "look. "),
    text=("Let me ", "see."),
    calls=(Call("call_1", "list_files", ('{"path":', '"."}')),),
)
LAST = Said(text=("All ", "done."))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model provider on this machine."""
    with ModelServer("sk-proj-Zq7Rk2Vw9Xy4Tn8Lp3Hs6Jd1") as running:
        yield running


async def shown(scene: Stage) -> bytes:
    """Everything that readers outside get: both streams, and every snapshot."""
    runtime = scene.runtime
    headers = {"authorization": f"Bearer {token_of(runtime.folder)}"}
    told = b""
    async with httpx.AsyncClient(base_url=str(runtime.address), headers=headers, timeout=10) as client:
        for view in ("facts", "items"):
            async with client.stream("GET", f"/v1/sessions/{SESSION}/events?view={view}") as answer:
                async for piece in answer.aiter_bytes():
                    told += piece
                    if b"event: turn.completed" in told.rpartition(b"retry: 1000")[2] and told.endswith(b"\n\n"):
                        break
        for name in ("get_session", "get_read_models", "get_thread_read", "get_tool_inventory", "list_sessions"):
            asked: dict[str, Any] = {} if name == "list_sessions" else {"session_id": SESSION}
            asked |= {"thread_id": THREAD} if name == "get_thread_read" else {}
            answer = await client.post(f"/v1/control/{name}", json=asked)
            assert answer.status_code == 200
            told += answer.content
    return told


@pytest.mark.req("AR-5")
@pytest.mark.parametrize("shape", ["responses", "messages"])
def test_what_readers_get_holds_no_record_of_a_providers_own_form(
    shape: str, server: ModelServer, tmp_path: Path
) -> None:
    native = SHAPES[shape]
    for said in (FIRST, LAST):
        assert NATIVE.search(b"".join(said.frames(native.path)))
        server.gives(said)
    models = Catalogue(
        providers={native.provider: ProviderEntry(credential=f"{native.provider.upper()}_API_KEY")},
        models=(Model(provider=native.provider, model="model-x", capabilities=("tools",)),),
        bundled=False,
    )

    async def play() -> None:
        given = RuntimeOptions(
            workspace=tmp_path / "ws",
            catalogue=models,
            environment=server.environment,
            provider_settings={native.provider: native.settings},
            export=ExportSettings(disabled=True),
        )
        (tmp_path / "ws").mkdir()
        async with await Runtime.open(tmp_path / "rt", given) as runtime, served(runtime):
            scene = Stage(runtime)
            await scene.say("Go.", "t-1")
            assert scene.state.turns["t-1"].status == "completed"
            told = await shown(scene)
            assert told.count(b"event: turn.completed") == 2
            found = NATIVE.search(told)
            assert found is None, told[max(found.start() - 80, 0) : found.end() + 80]
            first, last = scene.facts("model.completed")
            assert (first.stop_reason, last.stop_reason) == ("tool_call", "stop")
            kept = scene.text(first.output_ref)
            assert "list_files" in kept
            if shape == "messages":  # what this API demands back in its own form is kept, behind the ref
                assert "sig-1" in kept

    run(play)
