"""What providers say about their own limits, in headers and refusals, as facts."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Protocol

from models.payloads.cost import QuotaBlocked, RateLimitHit
from models.payloads.limit import LimitChanged
from models.values import LimitState
from runtime.routing.ledger import Ledger

LOW_SHARE = 0.1
"""A provider's limit is low when a tenth or less of it is left."""


class Failure(Protocol):
    """A failed call, as providers report it."""

    @property
    def category(self) -> str:
        """The class of failure, such as `rate_limited`."""

    @property
    def message(self) -> str:
        """One sentence for people."""

    @property
    def http_status(self) -> int | None:
        """The HTTP status of the answer."""

    @property
    def retry_after_ms(self) -> float | None:
        """How long the provider asks to wait, in milliseconds."""

    @property
    def limits(self) -> tuple[LimitState, ...]:
        """The limits it told with the refusal."""


def limit_changes(
    ledger: Ledger, provider: str, model: str | None, limits: Iterable[LimitState]
) -> tuple[LimitChanged, ...]:
    """The facts in what a provider told with an answer; a limit whose status and size are known already is no news."""
    changes = []
    for limit in limits:
        status = _status(limit)
        before = ledger.reported.get((provider, model, limit.name))
        if before is not None and (before.state.status, before.state.maximum) == (status, limit.maximum):
            continue
        told = limit.model_dump() | {"kind": limit.kind or "rate_limit", "scope": "provider", "status": status}
        told |= {"provider_name": provider, "model_name": model, "reason": "told by the provider"}
        if before is not None:
            told |= {"previous_status": before.state.status, "previous_maximum": before.state.maximum}
        changes.append(LimitChanged.model_validate(told))
    return tuple(changes)


def _status(limit: LimitState) -> str:
    if limit.status is not None or limit.remaining is None:
        return limit.status or "unknown"
    if limit.remaining <= 0:
        return "hit"
    if limit.maximum and limit.remaining <= limit.maximum * LOW_SHARE:
        return "low"
    return "ok"


def rate_limit_hit(failure: Failure, provider: str, model: str | None, now: datetime) -> RateLimitHit:
    """The fact that a provider held a call back, with the limit that is used up where it told one."""
    used_up = next((limit for limit in failure.limits if _status(limit) == "hit"), LimitState())
    resets_at = used_up.resets_at
    if failure.retry_after_ms is not None:
        resets_at = now + timedelta(milliseconds=failure.retry_after_ms)
    told = used_up.model_dump() | {"kind": "rate_limit", "scope": "provider", "status": "hit", "resets_at": resets_at}
    return RateLimitHit.model_validate(
        told
        | {
            "limiter": "provider",
            "provider_name": provider,
            "model_name": model,
            "retry_after_ms": failure.retry_after_ms,
            "http_status": failure.http_status,
        }
    )


def provider_quota_blocked(failure: Failure, provider: str, model: str | None) -> QuotaBlocked:
    """The fact that a provider refused because the account's quota is used up."""
    return QuotaBlocked(
        kind="quota",
        name="provider_quota",
        scope="provider",
        status="blocked",
        provider_name=provider,
        model_name=model,
        blocked="model_call",
        message=failure.message,
        requires_user_override=True,
    )
