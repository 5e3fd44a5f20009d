"""What must hold for any bytes whatever: only typed refusals, and what was accepted can be decoded, all of it."""

from collections.abc import Sequence

from collector.bodies import Budget, Overloaded, unfold
from ingest.batch import Batch
from ingest.dialects import translate
from ingest.event_check import EPOCH, check_lines
from ingest.event_lines import decode_lines
from ingest.otlp.check import Checked, check
from ingest.otlp.records import decode
from ingest.otlp.refusals import Limits, TooLarge, Undecodable
from ingest.otlp.signals import Encoding, SignalName
from journal.record import Record
from models.redaction import Redactor

REDACTOR = Redactor(b"a key for fuzzing, used nowhere else")
LIMITS = Limits()
RECEIVED_NS = 1_790_000_000_000_000_000
UNFOLDED_BYTES = 1024 * 1024


def accepted(signal: SignalName, encoding: Encoding, body: bytes) -> Record | None:
    """What the receiver would put into the journal, or None if it refuses the body; any other error is a bug."""
    try:
        checked = check(signal, body, encoding, REDACTOR, LIMITS)
    except (Undecodable, TooLarge):
        return None
    meta: dict[str, object] = {"content": encoding}
    return Record(1, f"otlp.{signal}", RECEIVED_NS, checked.items, meta, checked.body)


def settled(signal: SignalName, record: Record) -> None:
    """What was accepted is accepted again as it is, with nothing left to refuse or to mask."""
    encoding: Encoding = "json" if record.meta["content"] == "json" else "protobuf"
    again = check(signal, record.body, encoding, REDACTOR, LIMITS)
    assert again == Checked(record.body, record.items), f"{record.items} records became {again.items}"


def all_decoded(records: Sequence[Record]) -> None:
    """Every accepted record becomes exactly one row, and the dialects read the rows without an error."""
    batch = decode(records)
    assert len(batch) == sum(record.items for record in records)
    understood(batch)


def lines_decoded(body: bytes) -> Batch:
    """The same for `POST /v1/events`; gives the rows for `understood`."""
    try:
        checked = check_lines(body, REDACTOR, LIMITS)
    except TooLarge:
        return Batch([])
    again = check_lines(checked.body, REDACTOR, LIMITS)
    assert (again.items, again.rejected, again.redactions) == (checked.items, 0, {})
    batch = decode_lines(checked.body, journal_position=1, received=EPOCH)
    assert len(batch) == checked.items
    return batch


def understood(batch: Batch) -> None:
    """The dialects read the rows without an error."""
    if len(batch):
        translate(batch)


def unfolded(encoding: str, body: bytes) -> bytes | None:
    """A body without its content encoding, within the bounds; None if it is refused."""
    budget = Budget(2 * UNFOLDED_BYTES)
    try:
        with budget.hold() as share:
            plain = unfold(body, encoding, share, UNFOLDED_BYTES)
            assert len(plain) <= UNFOLDED_BYTES
            assert share.held_bytes <= budget.limit_bytes
            return plain
    except (Undecodable, TooLarge, Overloaded):
        return None
    finally:
        assert budget.held_bytes == 0


def masked_for_good(text: str) -> None:
    """Masking twice changes nothing more, and bytes it would change are suspect."""
    masked, counts = REDACTOR.mask_text(text)
    assert REDACTOR.mask_text(masked) == (masked, {}), text
    assert bool(counts) == (masked != text), text
    if counts:
        assert REDACTOR.suspects(text.encode("utf-8", "surrogatepass")), text
