"""What is read back from the tables is what was told, the whole envelope included."""

from pathlib import Path

import store
from models.event import Event
from runtime.samples import sample_session
from runtime.telemetry import Telemetry
from tests.collector.asking import loaded
from tests.running import Collector
from tests.runtime.runtimes import settings
from views.facts import events_of


def test_events_read_back_from_the_tables_equal_those_that_were_recorded(tmp_path: Path) -> None:
    with Collector(tmp_path / "home", everything=True) as collector:
        with Telemetry(tmp_path / "runtime", settings=settings(collector.http)) as telemetry:
            told = sample_session(telemetry, session_id="s-1")
            odd = told[3].model_copy(
                update={"event_id": "odd", "sequence": None, "request_id": "r-1", "worker": {"a": 1}}
            )
            told.append(telemetry.emit(Event.model_validate(odd)))
            assert telemetry.flush()
        with collector.client() as client:
            loaded(client)
        with store.open(tmp_path / "home") as reader:
            read = list(events_of(reader.facts("s-1")))
    assert read == told
