"""The published examples of the Agent Runtime draft go into the store and come back as read models, nothing lost."""

import json
from pathlib import Path
from typing import Any

import pytest

import store
from models.event import Event
from models.read_models import ThreadReadModel
from models.shape import Shape
from models.task_values import TaskRecord
from tests.ingest.importers.importing_home import imported, one
from views.facts import events_of
from views.state import fold, read_models

EVENTS = ("submit-turn", "routing-single-candidate", "task-retry-attempt-failed")


def again(shape: type[Shape], told: dict[str, Any]) -> dict[str, Any]:
    """What a read model made of it says, in the published spelling, as far as the example speaks of it."""
    written = shape.model_validate(told).model_dump(mode="json", by_alias=True)
    return {name: written[name] for name in told}


@pytest.mark.req("CONF-3")
def test_the_published_events_and_snapshot_are_stored_and_rebuild_read_models_without_loss(
    shared: Path, tmp_path: Path
) -> None:
    folder, home = shared / "public_data" / "agentruntime", tmp_path / "home"
    assert imported(home, *sorted(folder.glob("*.json"))).items == 4
    with store.open(home) as reader:
        read = list(events_of(reader.facts("sess_lime_001")))
    told = [Event.from_json((folder / f"{name}-event.json").read_bytes()) for name in EVENTS]
    assert read == told
    assert read_models(fold(read)) == read_models(fold(told))
    snapshot = json.loads((folder / "thread-read-snapshot.json").read_bytes())
    kept = json.loads(one(home, "select body from records where name = 'snapshot'"))
    assert kept == snapshot
    assert [again(ThreadReadModel, thread) for thread in kept["threads"]] == snapshot["threads"]
    assert [again(TaskRecord, task) for task in kept["tasks"]] == snapshot["tasks"]
