"""Finds secrets in bytes and masks them in text, so that what is kept stays comparable but useless to a thief."""

import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from functools import cache, lru_cache
from typing import NamedTuple

import re2

from models.secret_kinds import (
    ASSIGNMENT,
    AUTH_SCHEME,
    COMMAND_OPTION,
    CONTEXT_FORMATS,
    COOKIE,
    DENIED_NAME,
    DOUBTED_NAME,
    HEADER_PAIR,
    JSON_FILTER,
    LEFT_EDGE,
    PRIVATE_KEY_BEGIN,
    RAW_FILTERS,
    TOKEN_FORMATS,
)
from models.secret_scan import Scan, re2_options, scan_for

Counts = dict[str, int]
"""How many secrets of each kind were masked."""

KEY_MIN_BYTES = 16
MAX_PASSES = 8
"""Bounds the work on hostile text; two passes are the rule."""
REREAD_TIMES, REREAD_BYTES = 8, 1024 * 1024
"""How much of a text is searched again, in its length and beside: bounds the work on hostile text as well."""

PRIVATE_KEY_MAX_BYTES = 32 * 1024

_PLACEHOLDER = re.compile(
    rb"""\s*(?:
        | [\[<(]?(?:redacted|masked|filtered|hidden|removed|omitted|secret)(?::[a-z0-9_:]*)?[\]>)]?  # masked already
        | \*{2,}\w{0,6} | [x.*\#_-]+
        | <[a-z_\x20-]*> | \{\{?[a-z_.\x20]*\}?\} | your[-_\x20].* | changeme                        # to be filled in
        | \$(?-i:[A-Z_][A-Z0-9_]*) | \$env:\w+ | \$\{[^}]*\} | \$\([^)]*\) | %\w+% | (?-i:[A-Z]+(?:_[A-Z]+)+)
        | (?:os|process|env|self|settings|config|args|secrets)\.[a-z_.\[\]"'()]+ | arn:aws:.*          # a reference
        | none | null | nil | undefined | true | false | yes | no | on | off | str | string | text | bytes | bool
        | boolean | object | number | integer | int | float | any | optional | required
        | password | passwd | token | api_?key | bearer | basic
    )\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_OWN_MARK = re.compile(rb"\[REDACTED:[a-z0-9_]+:[0-9a-f]{8}\]")
_PATH = re.compile(rb"(?:[.~]{0,2}/|[A-Za-z]:\\|https?:|file:)")
_SCHEME = re.compile(rf"{AUTH_SCHEME}(?:\s+|%20|\+)".encode(), re.I)
_PAGING_NAME = re.compile(rb"(?:page|next|continuation|sync|cursor|first|per_output)[-_.]?token$", re.I)
_FIRST_COOKIE = re.compile(rb"[A-Za-z0-9_.%$!*~-]+=[^\s=]")
_ENCODED_QUOTE = re.compile(rb"(?:%2[027])+(.*?)(?:%2[0267].*)?", re.I | re.S)
_KEY_WHITESPACE = re.compile(rb"\\+[nrt]|%0[AaDd]|\s")


def _compiled(pattern: str, *, capturing: bool = True) -> re2._Regexp:
    options = re2_options()
    options.never_capture = not capturing
    return re2.compile(pattern.encode("ascii"), options)


def _is_varied(secret: bytes) -> bool:
    """Whether the text could be random: `sk-xxxxxxxxxxxxxxxx` and `sk-some-longer-words` are not."""
    has_digit = any(48 <= byte <= 57 for byte in secret)
    return len(set(secret)) >= 8 and (has_digit or (secret.lower() != secret and secret.upper() != secret))


def _looks_random(value: bytes) -> bool:
    """The entropy check for values whose name alone proves little."""
    if len(value) < 16 or not _is_varied(value) or value.isdigit() or not re.search(rb"[A-Za-z]", value):
        return False
    if not re.search(rb"[0-9]", value) or re.search(rb"\s", value):
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares) >= 3.0


def _is_harmless(value: bytes) -> bool:
    """Whether even a denied name may keep this value: nothing, a placeholder, a variable, or our own mark."""
    return _PLACEHOLDER.fullmatch(value) is not None


def _is_reference(value: bytes) -> bool:
    """Whether a value only stands for a secret: empty, a placeholder, a variable, a path, or masked before."""
    return b"[REDACTED" in value or _is_harmless(value) or _PATH.match(value) is not None


class _Span(NamedTuple):
    """Where a secret lies in the bytes, and what it is."""

    start: int
    end: int
    kind: str


class _Rule(NamedTuple):
    """A pattern, and how a match of it is judged; None means: no secret after all."""

    kind: str
    pattern: re2._Regexp
    judge: Callable[[re2._Match, str], _Span | None]


def _judge_token(match: re2._Match, kind: str) -> _Span | None:
    return _Span(match.start(1), match.end(1), kind) if _is_varied(match.group(1)) else None


def _judge_context(match: re2._Match, kind: str) -> _Span | None:
    return None if _is_reference(match.group(1)) else _Span(match.start(1), match.end(1), kind)


def _judge_cookie(match: re2._Match, kind: str) -> _Span | None:
    return _Span(match.start(1), match.end(1), kind) if _FIRST_COOKIE.match(match.group(1)) else None


def _judge_assignment(match: re2._Match, kind: str) -> _Span | None:
    """`name = value`: group 1 is the name, one of the groups 2 (in "), 3 (in '), 4 (bare) is the value."""
    group = next(number for number in (2, 3, 4) if match.group(number) is not None)
    start, value = match.start(group), match.group(group)
    if group == 4 and value.startswith(b"%") and (encoded := _ENCODED_QUOTE.fullmatch(value)):
        start, value = start + encoded.start(1), encoded.group(1)
    if scheme := _SCHEME.match(value):
        start, value = start + scheme.end(), value[scheme.end() :]
    value = value.rstrip(b"\\ \t")  # a backslash before the closing quote belongs to the quote
    is_call = group == 4 and match.string[match.end() : match.end() + 1] in (b"(", b"[")
    if is_call or _is_reference(value) or _PAGING_NAME.search(match.group(1)):
        return None
    if not patterns().denied.search(match.group(1)):
        believable = _looks_random(value)
    elif group == 4 and not scheme:
        # Without quotes it may be prose or code: a word alone is not believed.
        believable = len(value) >= 6 and re.search(rb"[0-9!@#$%^*+~?]", value) is not None
    else:
        believable = len(value) >= 4 and re.search(rb"\s", value) is None
    return _Span(start, start + len(value), kind) if believable else None


def _found(rule: _Rule, data: bytes) -> Iterator[_Span]:
    """The secrets a rule finds, in order. What a match took in beyond its secret is searched again for more."""
    position, allowance = 0, REREAD_BYTES + REREAD_TIMES * len(data)
    while match := rule.pattern.search(data, position):
        span = rule.judge(match, rule.kind)
        if span:
            yield span
        # A value that is no secret itself may quote one; a long one may be several run together.
        searched = span.end if span else match.start(1) + len(match.group(1))
        allowance -= match.end() - searched
        position = searched if allowance > 0 else match.end()


class Patterns(NamedTuple):
    """Everything compiled once per process."""

    raw: re2._Regexp
    """Whether a text may need masking; for short texts RE2 is the faster."""

    request: Scan
    """The same for whole requests."""

    begin: re2._Regexp
    denied: re2._Regexp
    doubted: re2._Regexp
    rules: tuple[_Rule, ...]
    rule_set: re2.Set


@cache
def patterns() -> Patterns:
    """Compile the patterns; the first call takes a fifth of a second."""
    sources: list[tuple[str, str, Callable[[re2._Match, str], _Span | None]]] = [("cookies", COOKIE, _judge_cookie)]
    for token in TOKEN_FORMATS:
        edge = LEFT_EDGE if token.edged else ""
        sources.append((token.kind, f"{edge}({token.lead}{token.stem}{token.rest})", _judge_token))
    for context in CONTEXT_FORMATS:
        judge = _judge_token if context.kind == "bearer" else _judge_context
        sources.append((context.kind, context.pattern, judge))
    sources += [("assignment", source, _judge_assignment) for source in (ASSIGNMENT, HEADER_PAIR, COMMAND_OPTION)]
    rule_set = re2.Set.SearchSet(re2_options())
    for _, source, _ in sources:
        rule_set.Add(source.encode("ascii"))
    rule_set.Compile()
    return Patterns(
        raw=_compiled("|".join(RAW_FILTERS), capturing=False),
        request=scan_for(RAW_FILTERS, JSON_FILTER),
        begin=_compiled(PRIVATE_KEY_BEGIN, capturing=False),
        denied=_compiled(DENIED_NAME, capturing=False),
        doubted=_compiled(DOUBTED_NAME, capturing=False),
        rules=tuple(_Rule(kind, _compiled(source), judge) for kind, source, judge in sources),
        rule_set=rule_set,
    )


class _Trust(Enum):
    """What the name of an attribute says about its value."""

    OPEN = "any text"
    DOUBTED = "a secret if it looks random"
    DENIED = "a secret"


@lru_cache(maxsize=4096)
def _trust_in_name(name: str) -> _Trust:
    data = name.encode("utf-8", "surrogatepass")
    if patterns().denied.search(data):
        return _Trust.DENIED
    if patterns().doubted.search(data) and not _PAGING_NAME.search(data):
        return _Trust.DOUBTED
    return _Trust.OPEN


class Redactor:
    """Masks secrets as `[REDACTED:kind:digest]`; the digest is keyed, so only equal secrets under one key compare."""

    def __init__(self, key: bytes) -> None:
        if len(key) < KEY_MIN_BYTES:
            raise ValueError(f"the redaction key has {len(key)} bytes, at least {KEY_MIN_BYTES} are needed")
        self._key = hashlib.sha256(key).digest()
        self._patterns = patterns()

    def suspects(self, raw: bytes | bytearray | memoryview) -> bool:
        """Whether a request, protobuf or JSON, may hold anything that masking would change.

        Never wrongly False, provided that in protobuf a key stands right before its value, as every serialiser
        writes it. Wrongly True at times; then decoding and masking changes nothing. Runs without the GIL.
        """
        is_json = bytes(raw[:64]).lstrip()[:1] in (b"{", b"[")
        return self._patterns.request(raw, is_json=is_json)

    def denies(self, name: str) -> bool:
        """Whether an attribute of this name holds a secret whatever its value looks like."""
        return _trust_in_name(name) is _Trust.DENIED

    def mask_text(self, text: str) -> tuple[str, Counts]:
        """The text with every secret masked, and how many of each kind. Works for attribute keys as well."""
        if len(text) < 6:
            return text, {}
        data = text.encode("utf-8", "surrogatepass")
        masked, counts = self.mask_bytes(data)
        return (masked.decode("utf-8", "surrogatepass"), counts) if counts else (text, counts)

    def mask_value(self, name: str, value: str) -> tuple[str, Counts]:
        """A value known by its attribute's name: wholly masked if the name says so, else as any text."""
        trust = _trust_in_name(name)
        if trust is not _Trust.OPEN:
            data = value.encode("utf-8", "surrogatepass")
            if not _is_harmless(data) and (trust is _Trust.DENIED or _looks_random(data)):
                scheme = _SCHEME.match(data)
                secret = data[scheme.end() :] if scheme else data
                return f"[REDACTED:name:{self.digest(secret)}]", {"name": 1}
        return self.mask_text(value)

    def mask_bytes(self, data: bytes) -> tuple[bytes, Counts]:
        """As mask_text, for text as UTF-8 bytes."""
        counts: Counter[str] = Counter()
        # A mark may uncover a secret that was glued to what it replaced, so look again until nothing changes.
        for _ in range(MAX_PASSES):
            masked = self._masked_once(data, counts) if self._patterns.raw.search(data) else data
            if masked == data:
                break
            data = masked
        return data, dict(counts)

    def _masked_once(self, data: bytes, counts: Counter[str]) -> bytes:
        data = self._apply(data, self._private_keys(data), counts)
        # No match and a scan that ran out of memory look alike, so then every rule is tried: slow, rare and safe.
        numbers = self._patterns.rule_set.Match(data) or range(len(self._patterns.rules))
        for number in sorted(numbers):
            rule = self._patterns.rules[number]
            data = self._apply(data, list(_found(rule, data)), counts)
        return data

    def digest(self, secret: bytes) -> str:
        """Eight hex digits that are equal for equal secrets under one key."""
        return hashlib.blake2b(secret, key=self._key, digest_size=4).hexdigest()

    def _private_keys(self, data: bytes) -> list[_Span]:
        """The bodies of PEM private keys: up to the end line, or as far as it looks like a key if that is missing."""
        spans = []
        for match in self._patterns.begin.finditer(data):
            start = match.end()
            end = data.find(b"-----END", start, start + PRIVATE_KEY_MAX_BYTES)
            if end < 0:
                body = re.compile(rb"(?:[A-Za-z0-9+/=\s\\%]|[A-Za-z-]{3,10}: [^\r\n]*)*").match(data, start)
                end = body.end() if body else start
            length = len(_KEY_WHITESPACE.sub(b"", data[start:end]))
            if length >= 32 and not _OWN_MARK.search(data[start:end]):
                spans.append(_Span(start, end, "pem"))
        return spans

    def _apply(self, data: bytes, spans: Iterable[_Span], counts: Counter[str]) -> bytes:
        pieces, position = [], 0
        for start, end, kind in spans:
            secret = data[start:end]
            if kind == "pem":
                secret = _KEY_WHITESPACE.sub(b"", secret)
            pieces += [data[position:start], f"[REDACTED:{kind}:{self.digest(secret)}]".encode()]
            position = end
            counts[kind] += 1
        return b"".join([*pieces, data[position:]]) if pieces else data
