"""How much of an output a reader gets, and the facts about what was kept back."""

from collections.abc import Callable
from typing import NamedTuple

from models.payload import Payload
from models.payloads.output import OutputRedacted, OutputSpilled, OutputTruncated, SpillPolicy
from models.values import OutputRef
from runtime.contents.keeping import Contents

BYTES_PER_TOKEN = 4
"""How a limit in tokens is applied where nobody can count them; no count is told then."""

LINE_SEARCH_BYTES = 256
"""So far from the limit a cut is moved to the end of a line."""


class Fitted(NamedTuple):
    """An output, stored whole, and what is told of it."""

    text: str
    """What the model gets: all of it, or its beginning and end around a sentence on what is left out."""

    output: OutputRef
    """What events carry."""

    facts: tuple[Payload, ...]
    """`output.redacted`, `output.spilled`, `output.truncated`: whichever apply, to be recorded."""


def fit(
    contents: Contents,
    data: bytes | str,
    policy: SpillPolicy,
    *,
    source_kind: str = "tool",
    media_type: str = "text/plain",
    encoding: str = "utf-8",
    count_tokens: Callable[[str], int] | None = None,
) -> Fitted:
    """Stage an output and cut it to a policy. Secrets are masked in what is kept and in what the model gets."""
    output, counts = contents.staged(data, media_type=media_type, encoding=encoding)
    about = {"output_ref": output.ref, "source_kind": source_kind}
    facts: list[Payload] = []
    if counts:
        facts.append(OutputRedacted(**about, redactions=counts, reason="secrets are masked before anything is stored"))
    size, limit = output.size_bytes or 0, policy.max_event_payload_bytes
    if limit is not None and size > limit:
        facts.append(
            OutputSpilled(
                **about,
                output=output,
                size_bytes=size,
                inline_limit_bytes=limit,
                preview=output.preview,
                policy=policy,
            )
        )
    if output.encoding is None:
        facts.append(OutputTruncated(**about, original_bytes=size, retained_bytes=0, reason="it is not text"))
        return Fitted(f"[{size:,} bytes of {media_type}, not text; kept as {output.ref}]", output, tuple(facts))
    whole = contents.text(output).encode("utf-8", "replace")
    cut = _cut(whole, policy, output.ref or "", count_tokens)
    if cut is None:
        return Fitted(whole.decode(), output, tuple(facts))
    facts.append(OutputTruncated(**about, **cut.told))
    return Fitted(cut.text, output, tuple(facts))


class _Cut(NamedTuple):
    text: str
    told: dict[str, object]


def _cut(whole: bytes, policy: SpillPolicy, ref: str, count: Callable[[str], int] | None) -> _Cut | None:
    """The output's head and tail; None if all of it may be shown."""
    tokens = count(whole.decode()) if count and policy.max_result_tokens is not None else None
    most = _most_bytes(whole, policy, tokens)
    if most is None or len(whole) <= most:
        return None
    head_bytes, tail_bytes = _shares(policy, most)
    head, tail = _beginning(whole, head_bytes), _end(whole, tail_bytes)
    left_out = len(whole) - len(head) - len(tail)
    marker = f"[{left_out:,} of {len(whole):,} bytes are left out here; the whole output is kept as {ref}]"
    text = "\n".join(part for part in (head.decode(), marker, tail.decode()) if part)
    told: dict[str, object] = {
        "original_bytes": len(whole),
        "retained_bytes": len(head) + len(tail),
        "kept": "head_and_tail" if head and tail else "tail" if tail else "head",
        "reason": "max_result_tokens" if policy.max_result_tokens is not None else "head_bytes and tail_bytes",
    }
    if tokens is not None and count is not None:
        told |= {"original_tokens": tokens, "retained_tokens": count(head.decode()) + count(tail.decode())}
    return _Cut(text, told)


def _most_bytes(whole: bytes, policy: SpillPolicy, tokens: int | None) -> int | None:
    """How many bytes may be shown; None: any number."""
    if policy.max_result_tokens is None:
        if policy.head_bytes is None and policy.tail_bytes is None:
            return None
        return (policy.head_bytes or 0) + (policy.tail_bytes or 0)
    if tokens is None:
        return policy.max_result_tokens * BYTES_PER_TOKEN
    if tokens <= policy.max_result_tokens:
        return None
    return len(whole) * policy.max_result_tokens // tokens


def _shares(policy: SpillPolicy, most: int) -> tuple[int, int]:
    """Bytes of beginning and end: as the policy says, at most what may be shown; else two thirds and one third."""
    if policy.head_bytes is None and policy.tail_bytes is None:
        return most - most // 3, most // 3
    head = min(policy.head_bytes or 0, most)
    return head, min(policy.tail_bytes or 0, most - head)


def _beginning(whole: bytes, size: int) -> bytes:
    line = whole.rfind(b"\n", max(0, size - LINE_SEARCH_BYTES), size)
    return whole[: line if line > 0 else size].decode("utf-8", "ignore").encode()


def _end(whole: bytes, size: int) -> bytes:
    start = len(whole) - size
    line = whole.find(b"\n", start, start + LINE_SEARCH_BYTES) if size else -1
    return whole[line + 1 if 0 <= line < len(whole) - 1 else start :].decode("utf-8", "ignore").encode()
