"""The table of requirements tells the truth."""

import subprocess
import sys

from tests.coverage_table import PROJECT, requirements


def test_every_requirement_is_listed() -> None:
    assert len(requirements()) == 712


def test_the_table_is_current_and_its_marks_name_requirements_that_exist() -> None:
    check = subprocess.run(
        [sys.executable, "-m", "tests.coverage_table", "--check"], cwd=PROJECT, capture_output=True, text=True
    )
    assert check.returncode == 0, check.stderr
