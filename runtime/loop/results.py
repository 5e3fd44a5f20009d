"""What of a result the model gets: by policy, the same each time it is read."""

from typing import NamedTuple

from models.payload import Payload
from models.payloads.output import SpillPolicy
from models.values import OutputRef
from runtime.contents import Contents, fit
from runtime.loop.action import ResultPolicy

INLINE_BYTES = 8 * 1024
"""A larger output is told of as spilled: events carry its beginning and its ref."""

POLICIES: dict[str, SpillPolicy] = {
    "inline": SpillPolicy(max_event_payload_bytes=INLINE_BYTES, max_result_tokens=16_000, binary_policy="ref"),
    "summary": SpillPolicy(
        max_event_payload_bytes=INLINE_BYTES, head_bytes=4_096, tail_bytes=2_048, binary_policy="ref"
    ),
    "ref": SpillPolicy(max_event_payload_bytes=INLINE_BYTES, head_bytes=0, tail_bytes=0, binary_policy="ref"),
}
"""How much of a result is shown, by result policy."""


class Kept(NamedTuple):
    """A result that was stored."""

    output: OutputRef
    facts: tuple[Payload, ...]
    truncated: bool


def keep(contents: Contents, text: str, policy: ResultPolicy) -> Kept:
    """Stage a result; it is stored whole, and the facts tell what of it the model will not see."""
    fitted = fit(contents, text, POLICIES[policy])
    truncated = any(fact.event_type == "output.truncated" for fact in fitted.facts)
    return Kept(fitted.output, fitted.facts, truncated)
