"""Plain HTTP client spans on which a model provider's rate-limit headers were captured, by OTel's HTTP convention."""

import polars as pl

from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import first, sent
from ingest.dialects.limit_headers import HEADERS, limit_changes

PREFIX = "http.response.header."
HOST = ("server.address", "net.peer.name", "http.host")

PROVIDERS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.groq.com": "groq",
    "api.x.ai": "x-ai",
    "api.together.xyz": "together",
    "api.fireworks.ai": "fireworks",
    "api.deepseek.com": "deepseek",
    "api.mistral.ai": "mistral",
}
"""Whose limits they are; a host that is not here, such as a gateway's, does not tell."""


def _spellings(header: str) -> tuple[str, str]:
    """Older instrumentations wrote underscores."""
    return PREFIX + header, PREFIX + header.replace("-", "_")


class HttpHeaders(Dialect, name="http_headers"):
    """Spans of HTTP clients with rate-limit headers; nothing else about the request is taken from them."""

    wants = dict.fromkeys((*(key for header in HEADERS for key in _spellings(header)), *HOST), pl.String)
    claims = (pl.col("signal") == "span") & sent(
        *(key for header in HEADERS if "remaining" in header for key in _spellings(header))
    )

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """The limits."""
        host = first(*HOST).str.to_lowercase()
        return limit_changes(
            records,
            lambda header: first(*_spellings(header)).str.strip_chars('[]" '),  # values are lists of texts
            provider=host.replace_strict(PROVIDERS, default=None, return_dtype=pl.String),
            model=pl.lit(None, pl.String),
        )
