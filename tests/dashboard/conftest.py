"""Fixtures of the dashboard's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit import config

from tests.dashboard.homes import hostile, recorded


@pytest.fixture(scope="session")
def recorded_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory.mktemp("recorded") / "home")


@pytest.fixture(scope="session")
def hostile_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile(tmp_path_factory.mktemp("hostile") / "home")


@pytest.fixture
def on_loopback() -> Iterator[None]:
    """The dashboard believes that it listens on loopback, as `tachograph up` tells it."""
    config.set_option("server.address", "127.0.0.1")
    yield
    config.set_option("server.address", None)
