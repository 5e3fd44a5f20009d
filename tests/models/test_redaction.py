"""Masking: every kind in every place, nothing of what is clean, and a filter that never overlooks a secret."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

from models.redaction import Redactor
from models.secret_kinds import CONTEXT_FORMATS, TOKEN_FORMATS
from tests.secrets_corpus import PLACEMENTS, planted_secrets, survives

REDACTOR = Redactor(b"a key for tests only, 32 bytes!!")
KINDS = sorted(planted_secrets())
FORMAT_KINDS = [*(form.kind for form in TOKEN_FORMATS), *(form.kind for form in CONTEXT_FORMATS)]


def otlp_log(name: str, value: str) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1)
    record.attributes.append(KeyValue(key=name, value=AnyValue(string_value=value)))
    return request


def raw_forms(name: str, value: str) -> dict[str, bytes]:
    """The ways one attribute may come over the wire."""
    as_json = {"attributes": [{"key": name, "value": {"stringValue": value}}]}
    return {
        "protobuf": otlp_log(name, value).SerializeToString(),
        "JSON in ASCII": json.dumps(as_json).encode(),
        "JSON in UTF-8": orjson.dumps(as_json),
        "JSON with escaped slashes": json.dumps(as_json).replace("/", "\\/").encode(),
        "JSON line": orjson.dumps({name: value}),
    }


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_masked_in_each_place(kind: str, placement: str) -> None:
    planted = planted_secrets()[kind]
    text = PLACEMENTS[placement](planted.text)
    masked, counts = REDACTOR.mask_text(text)
    assert not survives(planted.secret, masked)
    assert sum(counts.values()) == masked.count("[REDACTED:") > 0
    assert REDACTOR.mask_text(masked) == (masked, {})
    for form, raw in raw_forms("note", text).items():
        assert REDACTOR.suspects(raw), form


def test_at_least_forty_kinds_are_planted_and_every_format_has_its_own_name() -> None:
    assert len(FORMAT_KINDS) == len(set(FORMAT_KINDS))
    assert len(KINDS) >= 40
    found = {kind for planted in planted_secrets().values() for kind in REDACTOR.mask_text(planted.text)[1]}
    assert len(found) >= 40


def test_only_the_secret_part_is_replaced() -> None:
    planted = planted_secrets()["url_credentials"]
    masked, counts = REDACTOR.mask_text(f"cannot reach {planted.text}: timed out")
    digest = REDACTOR.digest(planted.secret.encode())
    expected = f"cannot reach postgres://app:[REDACTED:url_login:{digest}]@db.internal:5432/orders: timed out"
    assert (masked, counts) == (expected, {"url_login": 1})


def test_several_secrets_in_one_text_are_counted_by_kind() -> None:
    ours, theirs = planted_secrets("a"), planted_secrets("b")
    text = f"{ours['github_token'].text} {theirs['github_token'].text},{ours['anthropic_key'].text}"
    masked, counts = REDACTOR.mask_text(text)
    assert counts == {"github": 2, "anthropic": 1}
    assert masked.count("[REDACTED:github:") == 2


@pytest.mark.parametrize("kind", KINDS)
def test_equal_secrets_get_equal_marks_and_other_secrets_or_keys_get_others(kind: str) -> None:
    text, other_text = planted_secrets("a")[kind].text, planted_secrets("b")[kind].text
    alone = REDACTOR.mask_text(text)[0]
    assert alone in REDACTOR.mask_text(f"said: {text}\nagain")[0]
    assert REDACTOR.mask_text(other_text)[0] != alone
    assert Redactor(b"another key of at least 16 bytes").mask_text(text)[0] != alone


def test_a_private_key_has_one_digest_however_its_lines_are_broken() -> None:
    text = planted_secrets()["private_key"].text
    plain = REDACTOR.mask_text(text)[0]
    mark = plain[plain.index("[REDACTED") : plain.index("]") + 1]
    assert mark in REDACTOR.mask_text(json.dumps({"private_key": text}))[0]
    cut = text[: text.index("-----END")]
    assert not survives(planted_secrets()["private_key"].secret, REDACTOR.mask_text(cut)[0])


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="16"):
        Redactor(b"short")


def test_a_mark_is_no_suspect() -> None:
    for kind in (*FORMAT_KINDS, "pem", "cookies", "assignment", "name"):
        raw = otlp_log("note", f"before [REDACTED:{kind}:0123abcd] after").SerializeToString()
        assert not REDACTOR.suspects(raw), kind


@pytest.mark.parametrize(
    "name",
    ["password", "db.password", "http.request.header.authorization", "Authorization", "x-api-key", "OPENAI_API_KEY",
     "apiKey", "http.request.header.cookie", "set-cookie", "clientSecret", "client_secret", "secret", "access_token",
     "refresh-token", "private_key", "db.connection_string", "user.passwd", "http.request.header.authorization.0",
     "aws.secret_access_key", "session_token"],
)  # fmt: skip
def test_a_value_under_a_denied_name_is_masked_whole_and_seen_by_the_filter(name: str) -> None:
    value = "ordinary words"
    digest = REDACTOR.digest(value.encode())
    masked = f"[REDACTED:name:{digest}]"
    assert REDACTOR.denies(name)
    assert REDACTOR.mask_value(name, value) == (masked, {"name": 1})
    assert REDACTOR.mask_value(name, masked) == (masked, {})
    for form, raw in raw_forms(name, value).items():
        assert REDACTOR.suspects(raw), form
    listed = KeyValue(key=name, value=AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="one")])))
    assert REDACTOR.suspects(listed.SerializeToString())


@pytest.mark.parametrize(
    "name",
    ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "max_tokens", "token.type", "gen_ai.token.type",
     "llm.token_count.prompt", "gen_ai.server.time_to_first_token", "session.id", "secret_name", "cookie_policy",
     "password_length", "api_key_id", "next_page_token", "tokenizer"],
)  # fmt: skip
def test_names_that_only_resemble_a_secret_are_no_hit(name: str) -> None:
    for value in ("1234", "ordinary words", "req_011CSHoEeqs5C35K2UUqR7Fy"):
        assert REDACTOR.mask_value(name, value) == (value, {})
        assert REDACTOR.mask_text(f'{{"{name}": "{value}"}}')[1] == {}


def test_a_scheme_does_not_change_the_digest_under_a_denied_name() -> None:
    assert REDACTOR.mask_value("authorization", "Bearer abc123") == REDACTOR.mask_value("api_key", "abc123")


def test_a_value_named_token_is_masked_only_if_it_looks_random() -> None:
    assert REDACTOR.mask_value("token", " the")[1] == {}
    assert REDACTOR.mask_value("upload.token", planted_secrets()["cloudflare_token"].secret)[1] == {"name": 1}


@pytest.mark.parametrize(
    "value",
    ["", "none", "None", "true", "***", "<REDACTED>", "[REDACTED]", "$OPENAI_API_KEY", "${OPENAI_API_KEY}", "xxxxxxxx",
     "<your key>", "{{ secrets }}", "os.environ['KEY']", "YOUR_API_KEY", "[REDACTED:openai:0123abcd]", "string"],
)  # fmt: skip
def test_placeholders_are_left_alone(value: str) -> None:
    assert REDACTOR.mask_value("api_key", value) == (value, {})
    for text in (f"api_key={value}", f'{{"api_key": "{value}"}}', f"Authorization: Bearer {value}"):
        assert REDACTOR.mask_text(text) == (text, {})


@pytest.mark.parametrize(
    "text",
    ["run task-0123456789abcdef0123456789abcdef now", "enter your password and the token: it is in the mail",
     "def login(password: str, token: Token = None) -> Session:", "api_key=settings.api_key, secret=get_secret(name)",
     "sk-learn-is-a-library-for-machine-learning-in-python", "PWD=/home/dev/project", "https://example.com:8080/@scope/x",
     "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "see https://host/path?token=abc", "the bearer of good news",
     'required: ["password", "username"]', '{"password": {"type": "string", "minLength": 8}}',
     "git@github.com:owner/repository.git", "3f2504e0-4f89-41d3-9a0c-0305e82c3301", "max_tokens=4096 token_count: 17"],
)  # fmt: skip
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert REDACTOR.mask_text(text) == (text, {})


@pytest.mark.parametrize(
    ("text", "secret"),
    [("mysql --password hunter2x -u root", "hunter2x"), ("<password>hunter2x</password>", "hunter2x"),
     ("[(b'authorization', b'Basic dXNlcjpodW50ZXI=')]", "dXNlcjpodW50ZXI="), ("{'x-api-key': 'abcdef'}", "abcdef"),
     ('{\\"api_key\\": \\"abcd-efgh\\"}', "abcd-efgh"), ("Server=x;User=sa;Pwd=hunter2x;", "hunter2x"),
     ("%7B%22password%22%3A%22hunter2x%22%7D", "hunter2x"), ("set-cookie: sid=abcdef; HttpOnly", "abcdef"),
     ("password\\u003dhunter2x", "hunter2x"), ("https:\\/\\/me:hunter2x@host\\/", "hunter2x"),
     ("\x1b[0msk" + "-abcdefghijklmnop0123456789ABCD", "abcdefghijklmnop0123456789ABCD"),
     ("Bearer%20" + "abcdefghijkl0123456789", "abcdefghijkl0123456789")],
)  # fmt: skip
def test_other_notations_are_understood(text: str, secret: str) -> None:
    masked, counts = REDACTOR.mask_text(text)
    assert secret not in masked
    assert counts
    assert REDACTOR.mask_text(masked) == (masked, {})


def string_values(node: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every string of a decoded OTLP body with the name of its attribute; keys themselves have the name ''."""
    if isinstance(node, dict) and "key" in node:
        yield "", node["key"]
        yield from string_values(node.get("value"), node["key"])
    elif isinstance(node, dict):
        for value in node.values():
            yield from string_values(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from string_values(value, name)
    elif isinstance(node, str):
        yield name, node


def test_what_real_clients_sent_is_left_alone(real_traces: Path) -> None:
    total, hits = 0, []
    for path in sorted(real_traces.rglob("*.decoded.json")):
        for name, value in string_values(json.loads(path.read_bytes())):
            total += 1
            if REDACTOR.mask_value(name, value)[1]:
                hits.append((path.name, name, value[:80]))
    assert total > 10_000
    assert len(hits) < 0.005 * total, hits


def test_the_filter_passes_nearly_all_bodies_of_real_clients(real_traces: Path) -> None:
    bodies = [path.read_bytes() for path in real_traces.rglob("*.pb")]
    assert sum(map(REDACTOR.suspects, bodies)) <= len(bodies) // 20


FRAGMENTS = [
    "password", "api_key", "X-Api-Key", "Authorization", "token", "Cookie", "secret", "--password", "AccountKey", "sig",
    "\\\"", "Bearer ",
    "=", ":", ": ", " = ", "=>", "\t:", " \t=", '"', "'", "`", "\\", "\\n", "\n", "\t", " ", "%22", "%20", "%3D",
    "\\u003d", "&quot;", ">", "<", "(b'", "', b'", ",", ";", "&", "?", "@", "/", "://", ":\\/\\/", "user", "host",
    "Basic ", "bearer\t", "[REDACTED:name:0123abcd]", "é", "K", "ſ", "\x00", "\x12", "\x1b[0m", "a", "Z9", "hunter22x",
    "0123456789abcdef0123456789abcdef", "Qk7xW2mZp9Lr4Tn8Vb1C", "ordinary words", ".", "-", "_", ".0", "[1]",
    "-----BEGIN PRIVATE" + " KEY-----", "-----END", "hooks.slack.com/services/",
]  # fmt: skip
PIECES = st.one_of(
    st.sampled_from(FRAGMENTS),
    st.sampled_from([planted.text for planted in planted_secrets().values()]),
    st.text(st.characters(codec="utf-8"), max_size=6),
)
TEXTS = st.lists(PIECES, min_size=1, max_size=10).map("".join)


@settings(max_examples=1500, deadline=None)
@given(name=TEXTS, value=TEXTS)
@example(name="password", value="x")
@example(name="a", value="password \t=hunter22x")
def test_what_masking_would_change_the_filter_flags_and_masking_twice_changes_nothing(name: str, value: str) -> None:
    masked_name, name_counts = REDACTOR.mask_text(name)
    masked, counts = REDACTOR.mask_value(name, value)
    if counts or name_counts:
        for form, raw in raw_forms(name, value).items():
            assert REDACTOR.suspects(raw), form
            assert REDACTOR.suspects(memoryview(raw)), form
    else:
        assert (masked_name, masked) == (name, value)
    assert REDACTOR.mask_text(masked_name) == (masked_name, {})
    assert REDACTOR.mask_value(name, masked) == (masked, {})


def test_json_may_write_letters_as_escapes_and_is_then_suspect() -> None:
    assert REDACTOR.suspects(b'  {"a": "\\u0070assword=hunter22x"}')
    assert not REDACTOR.suspects(b'{"a": "ordinary, \\u00e9 and \\u4e2d"}')


def test_masking_takes_time_linear_in_the_length() -> None:
    unit = "password: '" + "a" * 50 + " eyJ" + "b" * 50 + "=" * 20 + "-----BEGIN " + "://u:" + "c" * 30

    def seconds(repeat: int) -> float:
        start = time.process_time()
        REDACTOR.mask_text(unit * repeat)
        return time.process_time() - start

    seconds(50)
    small = min(seconds(200) for _ in range(3))
    large = min(seconds(2000) for _ in range(2))
    assert large < 40 * max(small, 0.001)


def test_the_repository_copy_of_this_corpus_holds_no_scannable_secret() -> None:
    tests = Path(__file__).resolve().parents[1]
    source = (tests / "secrets_corpus.py").read_text()
    assert not any(planted.secret in source for planted in planted_secrets().values())
