"""What went wrong in a provider's own terms, as the one failure the runtime acts on.

Nothing a provider wrote is repeated except single words that name an error: its sentences may hold a key or the prompt.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from models.values import LimitState, Usage
from runtime.providers.provider import Category, ProviderFailed
from runtime.providers.rate_limits import limits_in, retry_after_ms

_BY_CODE: dict[str, Category] = {
    "rate_limit_error": "rate_limited",
    "rate_limit_exceeded": "rate_limited",
    "insufficient_quota": "quota",
    "billing_error": "quota",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "contract_spend_limit_reached": "quota",
    "enforced_spend_limit_reached": "quota",
    "linked_organization_spend_limit_reached": "quota",
    "overloaded_error": "overloaded",
    "server_is_overloaded": "overloaded",
    "slow_down": "overloaded",
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_api_key": "auth",
    "account_deactivated": "auth",
    "context_length_exceeded": "context_length",
    "request_too_large": "context_length",
    "content_filter": "content_filter",
    "content_policy_violation": "content_filter",
    "invalid_prompt": "content_filter",
    "bio_policy": "content_filter",
    "cyber_policy": "content_filter",
    "misalignment_policy_violation": "content_filter",
    "timeout_error": "timeout",
    "not_found_error": "invalid_request",
    "model_not_found": "invalid_request",
}
_BY_STATUS: dict[int, Category] = {
    401: "auth",
    402: "quota",
    403: "auth",
    408: "timeout",
    409: "server_error",
    413: "context_length",
    429: "rate_limited",
    503: "overloaded",
    504: "timeout",
    529: "overloaded",
}
_BY_VAGUE_TYPE: dict[str, Category] = {"invalid_request_error": "invalid_request"}
"""Types so general that the HTTP status says more."""

_BY_WORDING: tuple[tuple[re.Pattern[str], Category], ...] = (
    (re.compile(r"prompt is too long|maximum context length|exceeds? (the )?context", re.I), "context_length"),
    (re.compile(r"content filtering policy|content management policy", re.I), "content_filter"),
)
"""Failures that have no code of their own; only the sentence tells them from other invalid requests."""

_TOLD: dict[Category, str] = {
    "rate_limited": "too many requests or tokens for now",
    "overloaded": "the provider is overloaded",
    "auth": "the credential was refused",
    "invalid_request": "the request was refused",
    "context_length": "the request is larger than the model takes",
    "content_filter": "a content filter stopped the answer",
    "timeout": "no answer in time",
    "disconnected": "the connection broke",
    "malformed": "the answer cannot be understood",
    "quota": "the account's quota is used up",
    "server_error": "the provider failed",
}
_WORD = re.compile(r"[a-z][a-z_]{1,63}")
_REQUEST_ID = re.compile(r"req_[0-9A-Za-z]{6,64}")
_TELLING_CHARS = 8


@dataclass(frozen=True)
class Call:
    """What is known about a call before it fails: whose it is, when, and what may never be repeated."""

    provider: str
    now: datetime
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Without the secrets."""
        return f"Call(provider={self.provider!r})"

    def limits(self, headers: Mapping[str, str]) -> tuple[LimitState, ...]:
        """The limits these response headers tell."""
        return limits_in(headers, provider=self.provider, now=self.now)

    def failed(self, category: Category, detail: str = "", *, usage: Usage | None = None) -> ProviderFailed:
        """A failure we saw ourselves; `detail` is our own words."""
        told = f"{_TOLD[category]}: {detail}" if detail else _TOLD[category]
        return ProviderFailed(category, f"{self.provider}: {told}", usage=usage)

    def refused(
        self,
        body: object,
        *,
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        usage: Usage | None = None,
    ) -> ProviderFailed:
        """A failure the provider told us: an error body with its status, or an error event inside a stream."""
        headers = headers or {}
        codes, sentence = _codes(body), _sentence(body)
        status = status if status is not None and status >= 400 else None
        category = _category(codes, status, sentence)
        words = [word for code in codes if (word := self._safe(code, _WORD))]
        request_id = self._safe(headers.get("x-request-id") or headers.get("request-id") or "", _REQUEST_ID)
        told = [f"HTTP {status}" if status else "", *words[:1], f"request {request_id}" if request_id else ""]
        marks = ", ".join(mark for mark in told if mark)
        return ProviderFailed(
            category,
            f"{self.provider}: {_TOLD[category]}{f' ({marks})' if marks else ''}",
            retryable={"true": True, "false": False}.get(headers.get("x-should-retry", "")),
            error_code=words[0] if words else None,
            http_status=status,
            retry_after_ms=retry_after_ms(headers, now=self.now),
            limits=self.limits(headers),
            usage=usage,
        )

    def _safe(self, text: str, shape: re.Pattern[str]) -> str | None:
        hidden = any(_shares_a_stretch(secret, text) for secret in self.secrets)
        return text if shape.fullmatch(text) and not hidden else None


def _shares_a_stretch(secret: str, text: str) -> bool:
    """Whether a text repeats so much of a secret that it could be a part of it."""
    ends = max(1, len(secret) - _TELLING_CHARS + 1)
    return any(secret[start : start + _TELLING_CHARS] in text for start in range(ends))


def _category(codes: list[str], status: int | None, sentence: str) -> Category:
    for code in codes:
        if code in _BY_CODE:
            return _BY_CODE[code]
    if status in (None, 400, 413, 500):
        for wording, category in _BY_WORDING:
            if wording.search(sentence):
                return category
    if status is not None:
        return _BY_STATUS.get(status, "invalid_request" if status < 500 else "server_error")
    return next((_BY_VAGUE_TYPE[code] for code in codes if code in _BY_VAGUE_TYPE), "server_error")


def _error_of(body: object) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error", body)
    return inner if isinstance(inner, Mapping) else {}


def _codes(body: object) -> list[str]:
    """The names a body gives its error, the most particular first."""
    error = _error_of(body)
    return [code for code in _named(error) if isinstance(code, str)]


def _named(error: Mapping[str, Any]) -> Iterator[object]:
    details = error.get("details")
    if isinstance(details, Mapping):
        yield details.get("error_code")
    yield error.get("code")
    yield error.get("type")


def _sentence(body: object) -> str:
    message = _error_of(body).get("message")
    return message if isinstance(message, str) else ""
