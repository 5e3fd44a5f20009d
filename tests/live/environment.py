"""Makes the virtual environment of the frameworks that the live tests run: `python -m tests.live.environment`.

They pin other versions than we do, so they are installed apart, from `requirements.lock` beside this file, once per
lock file and Python, in the user's cache folder.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

LOCK = Path(__file__).with_name("requirements.lock")
INSTALL_SECONDS = 240


class CannotInstall(Exception):
    """The frameworks could not be installed; the message is pip's."""


def python() -> Path:
    """The interpreter that has the frameworks. Installs them if need be; safe while others do the same."""
    folder = _folder()
    found, ready = folder / "bin" / "python", folder / ".ready"
    if ready.exists():
        return found
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            try:
                venv.create(folder, symlinks=True, with_pip=True)
            except subprocess.CalledProcessError as failed:
                raise CannotInstall(f"no virtual environment: {failed}") from failed
            _install(found)
            ready.touch()
    return found


def _folder() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    return cache / "tachograph-live" / f"{sys.implementation.cache_tag}-{digest}"


def _install(interpreter: Path) -> None:
    options = ["--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1", "--no-deps"]
    command = [str(interpreter), "-m", "pip", "install", *options, "-r", str(LOCK)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise CannotInstall(f"pip did not end within {INSTALL_SECONDS} s") from late
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise CannotInstall(errors[-1] if errors else done.stderr[-500:])


if __name__ == "__main__":
    print(python())
