"""Expected failures carry their data, one sentence, and the exit code that scripts rely on."""

from pathlib import Path

import pytest

from models import errors

HERE = Path("home")
EXAMPLES: list[tuple[errors.TachographError, int]] = [
    (errors.TachographError("something"), 1),
    (errors.UsageError("no such verb"), 2),
    (errors.CheckFailed("the pack was changed", ["record 3"]), 3),
    (errors.NotAuthorised("the token has expired", "read"), 4),
    (errors.Locked(HERE, "process 12"), 5),
    (errors.JournalBusy(HERE, 1024), 5),
    (errors.SchemaTooNew(HERE, 9, 3), 6),
    (errors.MalformedInput("not JSON", "line 3"), 7),
    (errors.InvalidEvent("tool.result", ["turn_id is missing"]), 7),
    (errors.LimitHit("rows", 100), 8),
    (errors.Unreachable("127.0.0.1:4318", "refused"), 9),
    (errors.IllegalTransition("completed", "task.started", ["task.archived"]), 1),
    (errors.JournalUnwritable(HERE, "disk full"), 1),
]


@pytest.mark.parametrize(("error", "code"), EXAMPLES, ids=[type(error).__name__ for error, _ in EXAMPLES])
def test_each_failure_has_its_exit_code_and_one_line(error: errors.TachographError, code: int) -> None:
    assert error.exit_code == code
    assert str(error) == error.message
    assert error.message
    assert "\n" not in error.message


def test_every_failure_ends_the_program_with_a_documented_code_and_says_what_it_is() -> None:
    def below(kind: type[errors.TachographError]) -> set[type[errors.TachographError]]:
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    for kind in below(errors.TachographError):
        assert kind.exit_code in range(1, 10), kind
        assert kind.__doc__, kind
