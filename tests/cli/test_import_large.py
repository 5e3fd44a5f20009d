"""A large folder of session files is imported as a stream: memory depends on the index's limit, not on the folder."""

import os
import re
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.running import PROGRAM

REAL = Path(__file__).resolve().parents[2] / "sample_traces" / "real"
SOURCE = REAL / "claude_code/cc_basic_redacted/transcript/-home-dev-demo/678b0e12-41ab-4434-84a3-dad5034cedfd.jsonl"
IDS = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b(?:msg|req|toolu)_\w+")
RUNS_PER_FILE = 60
MIB = 1024 * 1024


def folder_of(folder: Path, size_mb: int) -> int:
    """Fill a folder with sessions of one real run, again and again with other ids; the number of lines."""
    text = SOURCE.read_text()
    session, ids = SOURCE.stem, set(IDS.findall(text)) - {SOURCE.stem}
    written = lines = number = 0
    while written < size_mb * MIB:
        new = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{number}"))
        (folder / f"project{number % 50}").mkdir(parents=True, exist_ok=True)
        with (folder / f"project{number % 50}" / f"{new}.jsonl").open("w") as file:
            for run in range(RUNS_PER_FILE):
                told = text.replace(session, new)
                for one in ids:
                    other = (
                        f"{one}x{number}x{run}"
                        if "_" in one
                        else str(uuid.uuid5(uuid.NAMESPACE_OID, one + f"{number} {run}"))
                    )
                    told = told.replace(one, other)
                written += file.write(told)
                lines += told.count("\n")
        number += 1
    return lines


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_folder_of_a_gigabyte_is_imported_in_bounded_memory(tmp_path: Path) -> None:
    lines = folder_of(tmp_path / "projects", 1024)
    limit_mb = 512
    process = subprocess.Popen(
        [PROGRAM, "--home", str(tmp_path / "home"), "import", str(tmp_path / "projects")],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TACHOGRAPH_INDEX_MEMORY_BYTES": str(limit_mb * MIB)},
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, said
    assert f"{lines} records" in said
    assert used.ru_maxrss / 1024 < limit_mb + 512
