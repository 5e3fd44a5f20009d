"""The price table of genai-prices as a document, so that a table can be kept, compared and used again."""

import dataclasses
import hashlib
import warnings
from datetime import date, time
from decimal import Decimal
from typing import Any

import orjson
from genai_prices.types import ModelPrice, Provider, _providers_from_raw
from pydantic import ValidationError

from models.errors import MalformedInput
from models.price_file import DIGEST_CHARS


def document(providers: list[Provider]) -> bytes:
    """A table as JSON in the shape of the project's own `data.json`, without what only reads usage."""
    told = [plain(dataclasses.replace(provider, extractors=None)) for provider in providers]
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS)


def plain(value: Any) -> Any:
    """A part of the table as JSON values; what is not set is left out."""
    if isinstance(value, ModelPrice) or dataclasses.is_dataclass(value):
        told = vars(value).items()
        return {key.rstrip("_"): plain(one) for key, one in told if one is not None and not key.startswith("_")}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, Decimal):
        return str(value)
    return value.isoformat() if isinstance(value, date | time) else value


def parse(content: bytes, name: str) -> list[Provider]:
    """The providers of such a document; raises MalformedInput."""
    try:
        told = orjson.loads(content)
        for provider in told:
            provider.pop("extractors", None)  # they read usage from answers, which we do not
        with warnings.catch_warnings(action="ignore"):
            return _providers_from_raw(told)
    except (ValidationError, orjson.JSONDecodeError, AttributeError, TypeError) as problem:
        reason = str(problem.errors()[0]["msg"]) if isinstance(problem, ValidationError) else str(problem)
        raise MalformedInput(f"this is no table of genai-prices: {reason}", name) from None


def is_table(content: bytes) -> bool:
    """Whether a file looks like a whole table of genai-prices, and not like a price file of the user's own."""
    return content.lstrip()[:1] == b"["


def version(content: bytes) -> str:
    """How a table that came as a file is told from others."""
    return f"genai-prices data sha256:{hashlib.sha256(content).hexdigest()[:DIGEST_CHARS]}"
