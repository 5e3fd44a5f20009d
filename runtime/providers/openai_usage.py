"""Token counts as OpenAI tells them, with the input split into parts that do not overlap."""

from models.values import Usage
from runtime.providers.sdk_streams import Wire


class InputDetails(Wire):
    """Parts of the input; both are contained in the whole."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class OutputDetails(Wire):
    """Parts of the output."""

    reasoning_tokens: int | None = None


def usage_of(
    whole_input: int, output: int, total: int | None, inside: InputDetails | None, made: OutputDetails | None
) -> Usage:
    """The uncached input is what remains of the whole; where the parts exceed the whole nobody knows it."""
    read = inside.cached_tokens if inside else None
    written = inside.cache_write_tokens if inside else None
    uncached = whole_input - (read or 0) - (written or 0)
    return Usage(
        uncached_input_tokens=uncached if uncached >= 0 else None,
        cache_read_tokens=read,
        cache_write_tokens=written,
        output_tokens=output,
        reasoning_tokens=made.reasoning_tokens if made else None,
        total_tokens=total,
    )
