"""A price table kept as a document is the same table."""

import dataclasses

import pytest
from genai_prices import data_snapshot

from models.errors import MalformedInput
from models.price_data import document, is_table, parse, version


def test_a_table_that_was_written_down_and_read_again_is_equal() -> None:
    providers = data_snapshot.get_snapshot().providers
    content = document(providers)
    assert is_table(content)
    assert parse(content, "data.json") == [dataclasses.replace(provider, extractors=None) for provider in providers]
    assert document(parse(content, "data.json")) == content


def test_what_is_no_table_is_refused_by_name() -> None:
    for content in (b"{", b"[1]", b'[{"id": "x"}]', b"{}"):
        with pytest.raises(MalformedInput, match=r"data\.json: this is no table of genai-prices"):
            parse(content, "data.json")


def test_another_table_has_another_version() -> None:
    assert version(b"[]") != version(b"[ ]")
    assert version(b"[]").startswith("genai-prices data sha256:")
