"""Tokens: who gets in, who does not, and what the file and the messages never tell."""

import json
import os
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector.tokens import Scope, TokenStore
from models.errors import MalformedInput, NotAuthorised, UsageError
from models.redaction import Redactor


class Clock:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def store_in(folder: Path, clock: Clock | None = None) -> TokenStore:
    return TokenStore(folder / "tokens.json", now=clock) if clock else TokenStore(folder / "tokens.json")


def test_a_created_token_is_accepted_for_its_scope(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    assert not store.configured()
    text, info = store.create([Scope.INGEST], "laptop")
    prefix, scope, token_id, secret = text.split("_", 3)
    assert (prefix, scope, token_id, len(token_id), len(secret)) == ("tg", "ingest", info.id, 8, 43)
    assert store.configured()
    assert store.check(f"Bearer {text}", "ingest").id == info.id
    assert store.check(f"bearer  {text} ", Scope.INGEST).id == info.id


@pytest.mark.parametrize("granted", list(Scope))
@pytest.mark.parametrize("needed", list(Scope))
def test_a_scope_allows_itself_and_admin_allows_all(tmp_path: Path, granted: Scope, needed: Scope) -> None:
    store = store_in(tmp_path)
    text, info = store.create([granted])
    if granted in (needed, Scope.ADMIN):
        assert store.check(f"Bearer {text}", needed).id == info.id
    else:
        with pytest.raises(NotAuthorised, match=info.id) as caught:
            store.check(f"Bearer {text}", needed)
        assert (caught.value.status, caught.value.scope) == (403, needed)


def test_a_token_may_have_several_scopes(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    text, _ = store.create(["sql", "read"])
    assert text.startswith("tg_read-sql_")
    assert store.check(f"Bearer {text}", "sql").scopes == {Scope.READ, Scope.SQL}


def test_what_is_no_good_token_is_refused_as_401_without_saying_why(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    text, info = store.create([Scope.ADMIN])
    other, _ = store_in(tmp_path / "elsewhere").create([Scope.ADMIN])
    wrong_secret = text[:-1] + ("A" if text[-1] != "A" else "B")
    bad = [None, "", "Bearer", "Bearer ", text, f"Basic {text}", f"Bearer {other}", f"Bearer {wrong_secret}",
           f"Bearer {text}x", f"Bearer {text} {text}", f"Bearer tg_admin_{info.id}_", "Bearer é",
           f"Bearer {info.sha256}", f"Bearer {text}\n{text}", "Bearer " + "x" * 1_000_000]  # fmt: skip
    messages = set()
    for header in bad:
        with pytest.raises(NotAuthorised) as caught:
            store.check(header, "read")
        assert caught.value.status == 401
        messages.add(str(caught.value))
    assert messages == {"this request needs a token", "the token is not valid"}


def test_a_token_ends_at_its_expiry(tmp_path: Path) -> None:
    clock = Clock()
    store = store_in(tmp_path, clock)
    text, _ = store.create(["read"], expires_at=clock.now + timedelta(hours=1))
    clock.now += timedelta(minutes=59)
    store.check(f"Bearer {text}", "read")
    clock.now += timedelta(minutes=1)
    with pytest.raises(NotAuthorised, match="not valid"):
        store.check(f"Bearer {text}", "read")


def test_nonsense_is_refused_when_creating(tmp_path: Path) -> None:
    clock = Clock()
    store = store_in(tmp_path, clock)
    for scopes in ([], ["write"], "write"):
        with pytest.raises(UsageError):
            store.create(scopes)
    for expiry in (clock.now, datetime(2030, 1, 1)):
        with pytest.raises(UsageError):
            store.create(["read"], expires_at=expiry)
    assert not store.configured()


def test_a_revocation_is_seen_by_another_instance_within_a_second(tmp_path: Path) -> None:
    receiver, command = store_in(tmp_path), store_in(tmp_path)
    text, info = command.create(["ingest"])
    assert receiver.check(f"Bearer {text}", "ingest")
    first = command.revoke(info.id)
    assert command.revoke(info.id).revoked == first.revoked
    with pytest.raises(NotAuthorised, match="not valid"):
        command.check(f"Bearer {text}", "ingest")
    time.sleep(0.9)
    with pytest.raises(NotAuthorised, match="not valid"):
        receiver.check(f"Bearer {text}", "ingest")


def test_a_token_made_elsewhere_is_accepted_within_a_second_and_the_file_is_not_looked_at_for_each_check(
    tmp_path: Path,
) -> None:
    moment = [0.0]
    receiver = TokenStore(tmp_path / "tokens.json", monotonic=lambda: moment[0])
    assert not receiver.configured()
    text, _ = store_in(tmp_path).create(["ingest"])
    moment[0] = 0.2
    with pytest.raises(NotAuthorised, match="not valid"):
        receiver.check(f"Bearer {text}", "ingest")
    moment[0] = 0.3
    assert receiver.check(f"Bearer {text}", "ingest")


def test_revoking_an_unknown_id_is_a_usage_error_and_all_revoked_still_means_configured(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    _, info = store.create(["read"])
    with pytest.raises(UsageError):
        store.revoke("nothere1")
    store.revoke(info.id)
    assert store.configured()


CREATOR = """
import sys
from pathlib import Path
from collector.tokens import TokenStore
store = TokenStore(Path(sys.argv[1]))
for number in range(20):
    print(store.create(["ingest"], f"{sys.argv[2]}-{number}")[0])
"""


def test_processes_that_create_at_once_lose_no_token(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    command = [sys.executable, "-c", CREATOR, str(path)]
    project = Path(__file__).resolve().parents[2]
    running = [
        subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True, cwd=project) for name in ("a", "b", "c")
    ]
    texts = [line for process in running for line in process.communicate(timeout=60)[0].split()]
    assert [process.returncode for process in running] == [0, 0, 0]
    store = TokenStore(path)
    assert len(store.list()) == len(texts) == 60
    assert {store.check(f"Bearer {text}", "ingest").id for text in texts} == {info.id for info in store.list()}
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["tokens.json", "tokens.json.lock"]


def test_the_file_is_private_and_holds_no_secret(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        text, _ = store_in(tmp_path).create(["read"], "note")
    finally:
        os.umask(before)
    content = (tmp_path / "tokens.json").read_text()
    assert text[-16:] not in content
    assert text not in content
    for name in ("tokens.json", "tokens.json.lock"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_only_the_day_of_the_last_use_is_kept(tmp_path: Path) -> None:
    clock = Clock()
    store = store_in(tmp_path, clock)
    text, _ = store.create(["read"])
    assert store.list()[0].last_used is None
    assert store.check(f"Bearer {text}", "read").last_used == clock.now.date()
    state = (tmp_path / "tokens.json").stat().st_mtime_ns
    clock.now += timedelta(hours=2)
    store.check(f"Bearer {text}", "read")
    assert (tmp_path / "tokens.json").stat().st_mtime_ns == state
    clock.now += timedelta(days=1)
    store.check(f"Bearer {text}", "read")
    assert store_in(tmp_path).list()[0].last_used == clock.now.date()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 2, "tokens": []}', '{"tokens": [{"id": "x"}]}'])
def test_a_damaged_file_lets_nobody_in_and_is_not_overwritten(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "tokens.json"
    text, info = TokenStore(path).create(["admin"])
    path.write_text(damage)
    store = TokenStore(path)
    for call in (
        store.configured,
        store.list,
        lambda: store.check(f"Bearer {text}", "read"),
        lambda: store.create(["read"]),
        lambda: store.revoke(info.id),
    ):
        with pytest.raises(MalformedInput, match=r"tokens\.json"):
            call()
    assert path.read_text() == damage


def test_a_running_store_fails_closed_when_the_file_is_damaged_or_emptied(tmp_path: Path) -> None:
    moment = [0.0]
    path = tmp_path / "tokens.json"
    store = TokenStore(path, monotonic=lambda: moment[0])
    text, _ = store.create(["read"])
    store.check(f"Bearer {text}", "read")
    path.write_text(json.dumps({"tokens": 3}))
    for _ in range(2):
        moment[0] += 0.3
        with pytest.raises(MalformedInput):
            store.check(f"Bearer {text}", "read")


def test_neither_errors_nor_listings_tell_the_token(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    text, info = store.create(["read"])
    secret = text[-16:]
    assert secret not in repr(info) + str(info) + repr(store.list()) + repr(store)
    assert info.sha256 not in repr(info)
    store.revoke(info.id)
    for header, scope in ((f"Bearer {text}", "read"), (f"Bearer {text}x", "sql"), (text, "ingest")):
        with pytest.raises(NotAuthorised) as caught:
            store.check(header, scope)
        assert secret not in repr(caught.value) + str(caught.value) + str(caught.value.__dict__)


def test_our_own_tokens_are_masked_like_any_secret(tmp_path: Path) -> None:
    text, _ = store_in(tmp_path).create(["read", "sql"])
    masked, counts = Redactor(b"a key for tests only").mask_text(f"curl -H 'Authorization: Bearer {text}'")
    assert text[-16:] not in masked
    assert counts == {"tachograph": 1}
