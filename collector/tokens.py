"""Access tokens: made, listed, revoked and checked; the file keeps hashes only, so reading it gives nobody access."""

import fcntl
import hashlib
import hmac
import os
import secrets
import string
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path

import re2
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from models.errors import MalformedInput, NotAuthorised, UsageError

ID_LENGTH = 8
SECRET_BYTES = 32
"""As base64 without padding: 43 characters. So much chance needs no slow hash."""

RELOAD_CHECK_S = 0.25
"""How long a look at the file's state is trusted; a revocation elsewhere takes effect after this time at most."""

_ALPHABET = string.ascii_letters + string.digits
_TOKEN = re2.compile(r"tg_[a-z-]{3,24}_([A-Za-z0-9]{8})_([A-Za-z0-9_-]{43})")
_DUMMY_SHA256 = hashlib.sha256(b"no token has this secret").hexdigest()


class Scope(StrEnum):
    """What a token may be used for."""

    INGEST = "ingest"
    READ = "read"
    SQL = "sql"
    ADMIN = "admin"
    """Everything, including what the other scopes allow."""


class TokenInfo(BaseModel):
    """What is kept of a token: enough to check it, too little to use it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(pattern=r"^[A-Za-z0-9]{8}$")
    """Names the token in lists, logs and `revoke`; part of the token text, not secret."""
    scopes: frozenset[Scope] = Field(min_length=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", repr=False)
    """Of the secret part, in hex."""
    created: AwareDatetime
    expires: AwareDatetime | None = None
    """None: never."""
    revoked: AwareDatetime | None = None
    note: str = ""
    last_used: date | None = None
    """The UTC day of the last accepted use; a day, so that the file is not written for every request."""

    def allows(self, scope: Scope) -> bool:
        """Whether the scopes of this token cover the given one."""
        return scope in self.scopes or Scope.ADMIN in self.scopes

    def is_live(self, now: datetime) -> bool:
        """Neither revoked nor expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)


class _TokenFile(BaseModel):
    """The file as a whole."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int = Field(default=1, ge=1, le=1)
    tokens: tuple[TokenInfo, ...] = ()


def _utc_now() -> datetime:
    return datetime.now(UTC)


class TokenStore:
    """The tokens of one home folder. Several processes may use the file at once; a damaged file lets nobody in."""

    def __init__(
        self, path: Path, *, now: Callable[[], datetime] = _utc_now, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._now = now
        self._monotonic = monotonic
        self._looked_at: float | None = None
        self._file_state: tuple[int, int, int] | None = None
        self._tokens: Mapping[str, TokenInfo] = {}

    def configured(self) -> bool:
        """Whether any token was ever made; then every request needs one, even if all are revoked or expired."""
        return bool(self._fresh())

    def create(
        self, scopes: Iterable[Scope | str], note: str = "", expires_at: datetime | None = None
    ) -> tuple[str, TokenInfo]:
        """Make a token. The text is returned this once and kept nowhere."""
        chosen = _scopes(scopes)
        if expires_at is not None and (expires_at.tzinfo is None or expires_at <= self._now()):
            raise UsageError("the expiry of a token must be a time in the future, with its time zone")
        secret = secrets.token_urlsafe(SECRET_BYTES)
        with self._locked():
            tokens = dict(self._read())
            token_id = _new_id(tokens)
            info = TokenInfo(
                id=token_id, scopes=chosen, sha256=_sha256(secret), created=self._now(), expires=expires_at, note=note
            )
            self._write({**tokens, token_id: info})
        scope_text = "-".join(scope.value for scope in Scope if scope in chosen)
        return f"tg_{scope_text}_{token_id}_{secret}", info

    def list(self) -> tuple[TokenInfo, ...]:
        """All tokens, also revoked and expired ones, oldest first."""
        return tuple(sorted(self._read().values(), key=lambda info: (info.created, info.id)))

    def revoke(self, token_id: str) -> TokenInfo:
        """Make a token worthless for good; doing it twice keeps the first time."""
        with self._locked():
            tokens = dict(self._read())
            if token_id not in tokens:
                raise UsageError("there is no token with this id", next_step="tachograph token list")
            info = tokens[token_id]
            if info.revoked is None:
                info = info.model_copy(update={"revoked": self._now()})
                self._write({**tokens, token_id: info})
        return info

    def check(self, authorization: str | None, scope: Scope | str) -> TokenInfo:
        """The token of an `Authorization: Bearer …` header if it is good for the scope.

        Raises NotAuthorised, status 401 (no, malformed, unknown, expired or revoked token; which is not told) or 403
        (the scope is missing); MalformedInput if the token file cannot be trusted.
        """
        tokens = self._fresh()
        needed = Scope(scope)
        # Some exporters send the header as it stands in their environment, its space still written as %20.
        scheme, _, text = (authorization or "").replace("%20", " ", 1).partition(" ")
        parts = _TOKEN.fullmatch(text.strip()) if scheme.lower() == "bearer" and text.isascii() else None
        info = tokens.get(parts.group(1)) if parts else None
        # An unknown id costs the same as a known one, so the time of the answer does not tell which ids exist.
        is_right = hmac.compare_digest(_sha256(parts.group(2) if parts else ""), info.sha256 if info else _DUMMY_SHA256)
        if info is None or not is_right or not info.is_live(self._now()):
            message = "this request needs a token" if authorization is None else "the token is not valid"
            raise NotAuthorised(
                message, needed.value, status=401, next_step="send the header Authorization: Bearer <token>"
            )
        if not info.allows(needed):
            raise NotAuthorised(f"the token {info.id} lacks the scope {needed.value}", needed.value, status=403)
        return self._noting_use(info)

    def _noting_use(self, info: TokenInfo) -> TokenInfo:
        today = self._now().date()
        if info.last_used is not None and info.last_used >= today:
            return info
        used = info.model_copy(update={"last_used": today})
        try:
            with self._locked():
                tokens = dict(self._read())
                if info.id in tokens:
                    self._write({**tokens, info.id: tokens[info.id].model_copy(update={"last_used": today})})
        except OSError:
            # A full or read-only disk must not lock out a good token: the day is remembered in this process only.
            self._tokens = {**self._tokens, info.id: used}
        return used

    def _fresh(self) -> Mapping[str, TokenInfo]:
        """The tokens as of at most RELOAD_CHECK_S ago."""
        now = self._monotonic()
        if self._looked_at is not None and now - self._looked_at < RELOAD_CHECK_S:
            return self._tokens
        state = self._state()
        if state != self._file_state or state is None:
            self._tokens = self._read()
            # The state from before reading: a write in between is then seen at the next look.
            self._file_state = state
        self._looked_at = now
        return self._tokens

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> Mapping[str, TokenInfo]:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            tokens = _TokenFile.model_validate_json(content).tokens
        except ValidationError as error:
            # The text of the validation error would repeat the content of the file.
            raise MalformedInput(
                f"the token file is damaged ({error.error_count()} faults); nobody is let in",
                str(self._path),
                next_step="restore the file from a copy, or move it away and create new tokens",
            ) from None
        return {info.id: info for info in tokens}

    def _write(self, tokens: Mapping[str, TokenInfo]) -> None:
        """Replace the file in one step; the caller holds the lock."""
        content = _TokenFile(tokens=tuple(tokens.values())).model_dump_json(indent=1).encode()
        handle, name = tempfile.mkstemp(prefix=".tokens-", dir=self._path.parent)  # made with mode 0600
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._looked_at = None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Excludes other writers. The lock lies beside the file, because the file itself is replaced."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._path.with_name(self._path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _scopes(names: Iterable[Scope | str]) -> frozenset[Scope]:
    wanted = [names] if isinstance(names, str) else list(names)
    try:
        chosen = frozenset(Scope(name) for name in wanted)
    except ValueError:
        raise UsageError(f"the scopes of a token are {', '.join(Scope)}") from None
    if not chosen:
        raise UsageError("a token needs at least one scope")
    return chosen


def _new_id(taken: Mapping[str, TokenInfo]) -> str:
    while True:
        token_id = "".join(secrets.choice(_ALPHABET) for _ in range(ID_LENGTH))
        if token_id not in taken:
            return token_id


def _sha256(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()
