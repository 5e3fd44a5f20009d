"""Fixtures of the provider tests."""

from collections.abc import Iterator

import pytest

from tests.model_server import ModelServer

KEY = "sk-proj-Zq7Rk2Vw9Xy4Tn8Lp3Hs6Jd1"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model provider on this machine."""
    with ModelServer(KEY) as running:
        yield running
