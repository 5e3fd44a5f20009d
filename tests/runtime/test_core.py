"""The core knows no provider, no surface, no backend: each comes in by an adapter, and another one does as well."""

import ast
import re
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from models.values import Usage
from runtime.loop.action import Action
from runtime.loop.progress import Progress, Report
from runtime.loop.tools import Observation
from runtime.providers import (
    Chunk,
    FinishChunk,
    ModelRequest,
    TextChunk,
    ToolArgsChunk,
    ToolCallChunk,
    ToolCallPart,
    opening,
)
from runtime.routing.catalogue import Catalogue, Model, ProviderEntry
from runtime.telemetry import ExportSettings
from tests.runtime.loop.driving import Stage, run, stage

ROOT = Path(__file__).resolve().parents[2]
OWN = {"models", "journal", "views", "runtime"}
PLAIN = {"pydantic", "pydantic_core", "orjson", "immutables", "re2"}
"""Libraries for data and text; none of them is a provider, a surface, a store or a backend."""

ADAPTERS = (
    *("runtime.providers.openai", "runtime.providers.anthropic", "runtime.providers.sdk_streams"),
    *("runtime.control.http_app", "runtime.control.serving", "runtime.control.client"),
    *("runtime.telemetry.transport", "runtime.telemetry.outbox", "runtime.telemetry.export_settings"),
)
FOREIGN = re.compile(
    r"\b(openai|anthropic|claude|gpt|gemini|mistral|ollama|bedrock|langfuse|langsmith|datadog|honeycomb|grafana|jaeger"
    r"|prometheus|streamlit|react|textual|slack|discord|chroma|pinecone|qdrant|faiss|langgraph|temporal|airflow|n8n"
    r"|docx|pptx|chat\.completions?|content_block|tool_use)\b",
    re.IGNORECASE,
)


def core() -> Iterator[Path]:
    """The files that hold what the runtime is, apart from how it is reached and what it reaches."""
    for name in ("kernel", "engine", "recovery", "account", "checkpoints"):
        yield ROOT / "runtime" / f"{name}.py"
    for folder in ("runtime/loop", "runtime/tasks", "views/state", "models/payloads"):
        yield from sorted((ROOT / folder).glob("*.py"))
    for name in ("event", "payload", "parts", "values", "task_values", "governance_values", "states", "read_models"):
        yield ROOT / "models" / f"{name}.py"


def imported(tree: ast.Module) -> Iterator[str]:
    """Every module that a file imports, at its top or inside."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def words(tree: ast.Module) -> Iterator[str]:
    """Every name and text of a file, without what is written for people."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):  # sentences under fields and at the top are documentation
            node.body = [one for one in body if not _is_sentence(one)]  # type: ignore[attr-defined]  # it has a body
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name | ast.Attribute):
            yield node.id if isinstance(node, ast.Name) else node.attr


def _is_sentence(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


@pytest.mark.req("AR-4")
def test_the_core_imports_no_adapter_and_no_library_but_for_data() -> None:
    files = list(core())
    assert len(files) > 70
    for file in files:
        for name in imported(ast.parse(file.read_text())):
            top = name.partition(".")[0]
            assert top in OWN | PLAIN or top in sys.stdlib_module_names, f"{file.name} imports {name}"
            assert not name.startswith(ADAPTERS), f"{file.name} imports {name}"


@pytest.mark.req("AR-4")
def test_the_core_names_nobody_elses_format() -> None:
    for file in core():
        for word in words(ast.parse(file.read_text())):
            assert not FOREIGN.search(word), f"{file.name} says {word[:80]!r}"


@pytest.mark.req("AR-4")
def test_a_runtime_starts_without_any_providers_library_or_surface() -> None:
    code = (
        "import sys, runtime.runtime\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'openai', 'anthropic', 'streamlit', 'starlette', 'uvicorn', 'duckdb', 'textual'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert ran.stdout.strip() == "[]"


class Parrot:
    """A provider that nobody has heard of: it asks for an errand, then repeats what came of it."""

    name = "parrot"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Answer."""
        last = request.messages[-1]
        if last.role == "tool":
            result: Any = last.parts[0]
            yield TextChunk(f"It says: {result.text}", 0)
            yield FinishChunk("stop", Usage(output_tokens=1), None, None)
            return
        call = ToolCallPart(call_id="errand", name="list_files", arguments="{}")
        yield ToolCallChunk(0, call.call_id, call.name)
        yield ToolArgsChunk(0, call.arguments)
        yield FinishChunk("tool_call", Usage(output_tokens=1), None, None, (call,))

    async def close(self) -> None:
        """Nothing to let go of."""


class Messenger:
    """An executor of another make."""

    async def execute(self, action: Action, report: Report) -> Observation:
        """Do it elsewhere."""
        report(Progress("on the way", 0.5))
        return Observation(f"{action.operation}, done elsewhere")


def parrots() -> Catalogue:
    """A catalogue that has nothing else."""
    return Catalogue(
        providers={"parrot": ProviderEntry()},
        models=(Model(provider="parrot", model="grey", capabilities=("tools",)),),
        bundled=False,
    )


SCRIPTED = "turns:\n  - steps:\n      - tool_calls: [{name: list_files}]\n      - text: Fine.\n"


@pytest.mark.req("AR-4")
def test_a_provider_an_executor_and_a_backend_of_other_makes_give_the_same_facts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(opening._REGISTRY, "parrot", lambda settings, environment, clock: Parrot())

    async def told(scene: Stage) -> list[str]:
        await scene.say("Go.", "t-1")
        assert scene.state.turns["t-1"].status == "completed"
        return [kind for kind in scene.types("t-1") if kind != "tool.progress"]

    async def ours() -> list[str]:
        async with stage(tmp_path / "ours", SCRIPTED) as scene:
            return await told(scene)

    async def theirs() -> list[str]:
        given = {"catalogue": parrots(), "export": ExportSettings(logs=None, traces=None)}
        async with stage(tmp_path / "theirs", "", **given) as scene:
            scene.runtime.executors["tool"] = Messenger()
            facts = await told(scene)
            assert scene.facts("model.completed")[0].provider_name == "parrot"
            assert [fact.message for fact in scene.facts("tool.progress")] == ["on the way"]
            assert scene.text(scene.state.turns["t-1"].output_ref) == "It says: list_files, done elsewhere"
            return facts

    assert run(theirs) == run(ours)
