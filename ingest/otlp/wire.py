"""Counts what a protobuf body holds from its bytes alone, so that a bomb is refused before it is decoded.

A 20 MiB body of two-byte empty spans would decode into 850 MB. The records are therefore counted first (exactly,
stopping at the limit), and in large bodies everything nested below them as well.
"""

from functools import cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ingest.otlp.refusals import Limits, TooLarge, Undecodable
from ingest.otlp.signals import SIGNALS, SignalName

_LENGTH_DELIMITED = 2
_FIELDS_PER_ITEM = 8
"""A body with more fields than this per allowed record is refused: they cost time although they count nothing."""
_FIELDS_PER_NESTED = 3
_SMALL = 16
"""Fields up to this many bytes are looked at for repetition: a bomb of them would take too long to count singly."""
_RUN_BLOCKS = (512, 16, 1)
"""Equal fields are compared in blocks of so many."""


class Nested(dict[int, "Nested"]):
    """By tag, the fields of a message type that become an object of their own when decoded."""


_PACKED = Nested()
"""Marks packed integers: eight bytes of memory for each byte sent."""


def scan(signal: SignalName, body: bytes, limits: Limits) -> None:
    """Raise TooLarge if the body holds more than the limits allow, Undecodable if its outer levels are broken."""
    try:
        _count_items(body, _levels(signal), limits.max_items)
        if len(body) > limits.deep_scan_bytes and _nested_at_most(body, signal) > limits.max_nested:
            _count_nested(body, _nested(SIGNALS[signal].descriptor), limits.max_nested)
    except IndexError:
        raise Undecodable("protobuf ends within a field") from None


def _count_items(body: bytes, levels: tuple[frozenset[int], ...], max_items: int) -> int:
    """The number of records, walking only the containers around them."""
    items, fields_left, level, innermost = 0, max_items * _FIELDS_PER_ITEM, 0, len(levels) - 1
    pos, end, entered = 0, len(body), levels[0]
    outer_ends: list[int] = []
    while True:
        while pos < end:
            fields_left -= 1
            tag, length = body[pos], body[pos + 1]
            pos += 2
            if tag & 0x80:
                tag, pos = _varint(body, pos - 2)
                length = body[pos]
                pos += 1
            if tag & 7 != _LENGTH_DELIMITED:
                pos = _after_scalar(body, pos - 1, tag)
                continue
            if length & 0x80:
                length += (body[pos] - 1) << 7  # most lengths have one or two bytes
                pos += 1
                if length & 0x4000:
                    length, pos = _varint(body, pos - 2)
            if tag in entered:
                if level == innermost:
                    items += 1
                    if items > max_items:
                        raise TooLarge("items per request", max_items)
                elif length:
                    outer_ends.append(end)
                    end = _inner_end(pos, length, end)
                    level += 1
                    entered = levels[level]
                    continue
            pos += length
            if fields_left < 0:
                raise TooLarge("protobuf fields per request", max_items * _FIELDS_PER_ITEM)
        if pos != end:
            raise Undecodable("a protobuf field is longer than the message around it")
        if not outer_ends:
            return items
        end = outer_ends.pop()
        level -= 1
        entered = levels[level]


def _count_nested(body: bytes, fields: Nested, max_nested: int) -> int:
    """The number of messages of any kind in the body, depth first so that little needs remembering."""
    count, fields_left = 0, max_nested * _FIELDS_PER_NESTED
    pos, end = 0, len(body)
    outer: list[tuple[int, Nested]] = []
    while True:
        while pos < end:
            fields_left -= 1
            tag, start = body[pos], pos
            pos += 1
            if tag & 0x80:
                tag, pos = _varint(body, start)
            if tag & 7 != _LENGTH_DELIMITED:
                pos = _after_scalar(body, pos, tag)
            else:
                length = body[pos]
                pos += 1
                if length & 0x80:
                    length, pos = _varint(body, pos - 1)
                inner = fields.get(tag)
                if inner is None:
                    pos += length
                elif inner is _PACKED:
                    count += length >> 3
                    pos += length
                else:
                    if length <= _SMALL:
                        run = _repeated(body, start, pos + length, end)
                        if run:
                            count += run * (1 + _count_nested(body[pos : pos + length], inner, max_nested))
                            pos += run * (pos + length - start)
                    count += 1
                    if inner and length > 1:
                        outer.append((end, fields))
                        end, fields = _inner_end(pos, length, end), inner
                    else:
                        pos += length
            if count > max_nested or fields_left < 0:
                raise TooLarge("nested messages per request", max_nested)
        if pos != end:
            raise Undecodable("a protobuf field is longer than the message around it")
        if not outer:
            return count
        end, fields = outer.pop()


def _repeated(body: bytes, start: int, pos: int, end: int) -> int:
    """How many more times the field from `start` to `pos` stands there, in whole blocks."""
    unit = body[start:pos]
    if not body.startswith(unit, pos):
        return 0
    first = pos
    for times in _RUN_BLOCKS:
        block = unit * times
        while pos + len(block) <= end and body.startswith(block, pos):
            pos += len(block)
    return (pos - first) // len(unit)


def _nested_at_most(body: bytes, signal: SignalName) -> int:
    """An upper bound on nested messages: how many bytes could be the tag of one. Text seldom comes near the limit."""
    if signal == "metrics":  # packed bucket counts need no tags
        return len(body)
    return len(body) - len(body.translate(None, _tag_bytes(signal)))


def _inner_end(pos: int, length: int, end: int) -> int:
    if pos + length > end:
        raise Undecodable("a protobuf field is longer than the message around it")
    return pos + length


def _after_scalar(body: bytes, pos: int, tag: int) -> int:
    match tag & 7:
        case 0:
            return _varint(body, pos)[1]
        case 1:
            return pos + 8
        case 5:
            return pos + 4
    raise Undecodable("protobuf groups are not part of OTLP")


def _varint(body: bytes, pos: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = body[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise Undecodable("a protobuf varint is longer than ten bytes")


def _tag(field: FieldDescriptor) -> int:
    return field.number << 3 | _LENGTH_DELIMITED


@cache
def _levels(signal: SignalName) -> tuple[frozenset[int], ...]:
    """The tags to enter at each level, the last being the records'."""
    message = SIGNALS[signal].descriptor
    levels = []
    for names in SIGNALS[signal].nesting:
        levels.append(frozenset(_tag(message.fields_by_name[name]) for name in names))
        inner = message.fields_by_name[names[0]].message_type
        assert inner is not None
        message = inner
    return tuple(levels)


@cache
def _nested(message: Descriptor) -> Nested:
    return _fill(message, {})


def _fill(message: Descriptor, known: dict[str, Nested]) -> Nested:
    if message.full_name in known:
        return known[message.full_name]
    fields = known[message.full_name] = Nested()
    for field in message.fields:
        if field.message_type is not None:
            fields[_tag(field)] = _fill(field.message_type, known)
        elif field.is_repeated and field.type == FieldDescriptor.TYPE_STRING:
            fields[_tag(field)] = Nested()
        elif field.is_repeated and field.type == FieldDescriptor.TYPE_UINT64:
            fields[_tag(field)] = _PACKED
    return fields


@cache
def _tag_bytes(signal: SignalName) -> bytes:
    """First bytes of every tag of a nested message, in the shortest form and in the longer ones decoders accept."""
    seen: dict[int, Nested] = {}
    waiting = [_nested(SIGNALS[signal].descriptor)]
    tags: set[int] = set()
    while waiting:
        fields = waiting.pop()
        if id(fields) not in seen:
            seen[id(fields)] = fields
            tags.update(fields)
            waiting.extend(fields.values())
    return bytes(sorted({tag & 0x7F for tag in tags} | {tag & 0x7F | 0x80 for tag in tags}))
