"""Fixtures shared by all tests."""

from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """Payloads captured from real clients, one folder per client and run."""
    return PROJECT / "sample_traces" / "real"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Material that may not be kept in the project; tests on it run only where it lies beside the checkout."""
    folder = PROJECT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"no published schemas and public data beside the checkout ({folder} is missing)")
    return folder
