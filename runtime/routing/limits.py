"""Budgets and quotas: what they bind, in which windows they count, and how they are told as facts."""

from datetime import UTC, datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from models.payloads.limit import LimitChanged
from models.values import LimitState, Name

Window = Literal["minute", "hour", "day", "week"]
WINDOWS_S: dict[Window, int] = {"minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
"""The windows by length in seconds. They begin on the clock in UTC, a week on Monday, so all sessions share them."""

FIRST_MONDAY_S = 4 * 86_400
"""1970 began on a Thursday."""

Scope = Annotated[str, Field(pattern=r"^(runtime|session|session:.+)$")]
"""`runtime`: all sessions together. `session`: each session by itself. `session:ID`: that one."""

LOW_AT = 0.8


class Limit(BaseModel):
    """A budget or quota of ours; the scope and the name together identify it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: Name
    """What people call it, such as `daily_usd`."""

    kind: Literal["budget", "quota"] = "budget"
    """A budget is what we want to spend, a quota what we were given."""

    scope: Scope = "runtime"
    """Whose use it counts: `runtime`, `session` (each by itself) or `session:ID`."""

    provider: Name | None = None
    """Counts, and binds, only calls to this provider."""

    model: Name | None = None
    """Counts, and binds, only calls to this model of the provider."""

    unit: Literal["usd", "tokens", "requests"]
    """What is counted: money, tokens in and out, or calls."""

    maximum: float = Field(ge=0, allow_inf_nan=False)
    """How much may be used in one window, in `unit`."""

    window: Window | None = None
    """How often the count begins anew; None: never."""

    low_at: float = Field(default=LOW_AT, gt=0, le=1)
    """The part of the maximum at which `quota.low` is told."""

    @model_validator(mode="after")
    def _whose_model(self) -> Self:
        if self.model is not None and self.provider is None:
            raise ValueError("a limit on a model names its provider too")
        return self

    @property
    def window_s(self) -> int | None:
        """The length of the window in seconds; None: it counts for ever."""
        return None if self.window is None else WINDOWS_S[self.window]

    def counts_for(self, session_id: str | None) -> bool:
        """Whether it binds this session."""
        return not self.scope.startswith("session:") or self.scope == f"session:{session_id}"

    @classmethod
    def told_by(cls, change: LimitChanged) -> Self | None:
        """The limit that a fact sets; None if the fact is about a limit that somebody else keeps, or lifts ours."""
        windows = {length: name for name, length in WINDOWS_S.items()}
        if change.window_s is not None and int(change.window_s) not in windows:
            return None
        threshold = change.threshold
        share = threshold / change.maximum if threshold and change.maximum else LOW_AT
        told = {
            "name": change.name,
            "kind": change.kind,
            "scope": change.scope,
            "provider": change.provider_name,
            "model": change.model_name,
            "unit": change.unit,
            "maximum": change.maximum,
            "window": None if change.window_s is None else windows[int(change.window_s)],
            "low_at": min(round(share, 9), 1.0),
        }
        try:
            return cls.model_validate(told)
        except ValidationError:
            return None


class SetLimit(BaseModel):
    """The request to set, change or lift a limit."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: Name
    """Which limit; with the scope, its identity."""

    scope: Scope = "runtime"
    """Whose use it counts: `runtime`, `session` (each by itself) or `session:ID`."""

    kind: Literal["budget", "quota"] = "budget"
    """A budget is what we want to spend, a quota what we were given."""

    unit: Literal["usd", "tokens", "requests"] = "usd"
    """What is counted."""

    maximum: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """How much may be used in one window, in `unit`; None lifts the limit."""

    provider: Name | None = None
    """Only calls to this provider."""

    model: Name | None = None
    """Only calls to this model of the provider."""

    window: Window | None = None
    """How often the count begins anew; None: never."""

    low_at: float = Field(default=LOW_AT, gt=0, le=1)
    """The part of the maximum at which `quota.low` is told."""

    reason: str | None = None
    """Why, for the record."""

    @model_validator(mode="after")
    def _is_a_limit(self) -> Self:
        self.limit()
        return self

    def limit(self) -> Limit | None:
        """The limit asked for; None if it is to be lifted."""
        if self.maximum is None:
            return None
        return Limit.model_validate(self.model_dump(include=set(Limit.model_fields)))


class Standing(LimitState):
    """Where a limit stands, and which provider and model it binds."""

    provider_name: str | None = None
    """The provider it binds; None: all."""

    model_name: str | None = None
    """The model it binds; None: all."""

    threshold: float | None = None
    """Where the warning begins, in `unit`."""

    def plain(self) -> LimitState:
        """The same as a value that other facts carry."""
        return LimitState.model_validate(self.model_dump())


def window_start_s(window_s: int | None, moment: datetime) -> int:
    """When the window that holds this moment began, in seconds since 1970."""
    if window_s is None:
        return 0
    seconds = int(moment.timestamp())
    offset = FIRST_MONDAY_S if window_s == WINDOWS_S["week"] else 0
    return (seconds - offset) // window_s * window_s + offset


def window_end(window_s: int | None, moment: datetime) -> datetime | None:
    """When the window that holds this moment ends."""
    if window_s is None:
        return None
    return datetime.fromtimestamp(window_start_s(window_s, moment) + window_s, UTC)
