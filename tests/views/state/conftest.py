"""The sample session, told once."""

from datetime import timedelta
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.id_generator import IdGenerator

from models.event import Event
from runtime.samples import sample_session
from runtime.telemetry import ExportSettings, Telemetry
from tests.views.state.stories import START


class Counted(IdGenerator):
    """Ids of spans and events that are the same in every run."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self) -> str:
        self.last += 1
        return f"e-{self.last}"

    def generate_span_id(self) -> int:
        self.last += 1
        return self.last

    def generate_trace_id(self) -> int:
        self.last += 1
        return self.last


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    """A session that tells every type of fact."""
    counted = Counted()
    folder: Path = tmp_path_factory.mktemp("sample")
    settings = ExportSettings(logs=None, traces=None)
    with Telemetry(folder, runtime_id="rt", ids=counted, span_ids=counted, settings=settings) as telemetry:
        return sample_session(telemetry, session_id="s", start=START + timedelta(0))
