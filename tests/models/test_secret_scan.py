"""The fast scan of requests against RE2, which is slower and simpler."""

import random
import threading

import pytest

from models.secret_kinds import JSON_FILTER, RAW_FILTERS
from models.secret_scan import HyperscanScan, Re2Scan
from tests.captures import captures
from tests.secrets_corpus import PLACEMENTS, planted_secrets

FAST, PLAIN = HyperscanScan(RAW_FILTERS, JSON_FILTER), Re2Scan(RAW_FILTERS, JSON_FILTER)


def mutated(source: random.Random, body: bytes) -> bytes:
    data = bytearray(body)
    for _ in range(source.randrange(4)):
        at = source.randrange(len(data) + 1)
        data[at : at + source.randrange(3)] = source.randbytes(source.randrange(3))
    return bytes(data)


def test_both_scans_find_the_same_in_real_bodies_with_and_without_secrets() -> None:
    source = random.Random(1)
    texts = [place(planted.text) for planted in planted_secrets().values() for place in PLACEMENTS.values()]
    real = [capture.body[:4000] for capture in captures()]
    found = 0
    for _ in range(8_000):
        body = source.choice(real)
        if source.random() < 0.5:
            at = source.randrange(len(body) + 1)
            body = body[:at] + source.choice(texts).encode() + body[at:]
        body = mutated(source, body)
        for is_json in (False, True):
            assert FAST(body, is_json=is_json) == PLAIN(body, is_json=is_json), body
        found += PLAIN(body, is_json=False)
    assert 1_000 < found < 7_000


@pytest.mark.parametrize("kind", sorted(planted_secrets()))
def test_both_scans_understand_every_byte_alike(kind: str) -> None:
    source = random.Random(kind)
    secret = planted_secrets()[kind].text.encode()
    for byte in range(256):
        for at in (source.randrange(len(secret)), source.randrange(min(len(secret), 40)), len(secret) // 2):
            for body in (secret[:at] + bytes([byte]) + secret[at:], secret[:at] + bytes([byte]) + secret[at + 1 :]):
                assert FAST(body, is_json=False) == PLAIN(body, is_json=False), body


@pytest.mark.parametrize("scan", [FAST, PLAIN])
def test_escaped_letters_are_suspect_in_json_only(scan: HyperscanScan | Re2Scan) -> None:
    assert scan(b'{"a": "\\u0070assword"}', is_json=True)
    assert not scan(b'{"a": "\\u0070assword"}', is_json=False)
    assert scan(b'"\\u0070" password=x', is_json=False)  # it goes on looking
    assert not scan(memoryview(b""), is_json=True)


def test_threads_may_scan_at_once() -> None:
    clean, secret = b"ordinary words " * 20_000, b"ordinary words " * 20_000 + b"password=x"
    wrong: list[bool] = []

    def work() -> None:
        for _ in range(50):
            wrong.append(FAST(clean, is_json=False))
            wrong.append(not FAST(secret, is_json=False))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) == 400
    assert not any(wrong)
