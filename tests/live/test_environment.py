"""Where the frameworks cannot be installed, the reason is told and nothing half made is taken for ready."""

from pathlib import Path

import pytest

from tests.live import environment


def test_what_pip_says_is_the_reason_and_the_next_attempt_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("tachograph-has-no-such-package==1.0\n")
    monkeypatch.setattr(environment, "LOCK", lock)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(environment.CannotInstall, match="tachograph-has-no-such-package"):
        environment.python()
    assert not list(tmp_path.glob("cache/**/.ready"))


def test_the_lock_file_pins_every_package_and_names_no_index() -> None:
    lines = environment.LOCK.read_text().splitlines()
    assert lines
    assert all(line.count("==") == 1 and "/" not in line for line in lines)
