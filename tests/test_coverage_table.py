"""The table of requirements tells the truth."""

from tests.coverage_table import TABLE, proofs, requirements, table


def test_every_requirement_is_listed() -> None:
    assert len(requirements()) == 712


def test_marks_name_requirements_that_exist() -> None:
    assert set(proofs()) <= set(requirements())


def test_the_table_is_current() -> None:
    assert TABLE.read_text() == table(), "run `make coverage-table`"
