"""Made-up secrets of every kind, put together at run time so that no file holds one, and places to plant them."""

import base64
import hashlib
import json
import string
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

WORD = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"


def _noise(length: int, alphabet: str = WORD, seed: str = "") -> str:
    """Text that looks random and is the same in every run."""
    stream = hashlib.shake_256(f"{seed}/{length}/{alphabet}".encode()).digest(length * 2)
    drawn = [alphabet[int.from_bytes(stream[i : i + 2]) % len(alphabet)] for i in range(0, length * 2, 2)]
    if len(alphabet) > 36:  # real tokens of letters and digits hold both; a rare draw does not
        drawn[length // 2], drawn[length // 2 - 1], drawn[-1] = "7", "Q", "k"
    return "".join(drawn)


class Planted(NamedTuple):
    """`text` is what somebody might write; `secret` is the part of it that must not survive."""

    text: str
    secret: str


def _whole(*parts: str) -> Planted:
    token = "".join(parts)
    return Planted(token, token)


def _within(before: str, secret: str, after: str = "") -> Planted:
    return Planted(before + secret + after, secret)


def planted_secrets(seed: str = "") -> dict[str, Planted]:
    """One secret for each kind; another seed gives other secrets of the same kinds."""

    def n(length: int, alphabet: str = WORD) -> str:
        return _noise(length, alphabet, seed)

    base64_88 = base64.b64encode(hashlib.sha512(f"azure{seed}".encode()).digest()).decode()
    key_lines = "\n".join(n(64) for _ in range(3))
    header = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    claims = base64.urlsafe_b64encode(f'{{"sub":"{n(12)}"}}'.encode()).decode().rstrip("=")
    return {
        "tachograph_token": _whole("tg_", "ingest_", n(8), "_", n(43)),
        "aws_access_key_id": _whole("AK", "IA", n(16, UPPER)),
        "aws_secret_access_key": _within("aws_secret_" + "access_key=", n(40)),
        "google_api_key": _whole("AI", "za", n(35)),
        "google_oauth_token": _whole("ya", "29.", n(60)),
        "google_oauth_secret": _whole("GOC", "SPX-", n(28)),
        "azure_client_secret": _whole(n(3), "8", "Q~", n(34)),
        "azure_storage_key": _within(
            "AccountName=logs;Account" + "Key=", base64_88, ";EndpointSuffix=core.windows.net"
        ),
        "azure_sas": _within("https://x.blob.core.windows.net/c?sv=2022&sig" + "=", n(43), "%3D"),
        "digitalocean_token": _whole("dop", "_v1_", n(64, HEX)),
        "cloudflare_token": _within("CLOUDFLARE_API_" + "TOKEN=", n(40)),
        "heroku_key": _whole("HR", "KU-", n(36)),
        "databricks_token": _whole("da", "pi", n(32, HEX)),
        "github_token": _whole("gh", "p_", n(36)),
        "github_oauth_token": _whole("gh", "o_", n(36)),
        "github_server_token": _whole("gh", "s_", n(36)),
        "github_fine_grained_token": _whole("github", "_pat_", n(22), "_", n(59)),
        "gitlab_token": _whole("gl", "pat-", n(20)),
        "bitbucket_token": _whole("AT", "BB", n(32)),
        "atlassian_token": _whole("AT", "ATT3", n(180)),
        "npm_token": _whole("np", "m_", n(36)),
        "pypi_token": _whole("py", "pi-", n(160)),
        "docker_token": _whole("dckr", "_pat_", n(27)),
        "anthropic_key": _whole("sk-", "ant-", "api03-", n(93), "AA"),
        "openai_key": _whole("s", "k-", n(48)),
        "openai_project_key": _whole("s", "k-", "proj-", n(74)),
        "openai_session": _whole("se", "ss-", n(40)),
        "openrouter_key": _whole("sk-", "or-", "v1-", n(64, HEX)),
        "huggingface_token": _whole("h", "f_", n(34, string.ascii_letters)),
        "groq_key": _whole("gs", "k_", n(52)),
        "xai_key": _whole("xa", "i-", n(80)),
        "replicate_token": _whole("r", "8_", n(37)),
        "perplexity_key": _whole("pp", "lx-", n(48)),
        "nvidia_key": _whole("nv", "api-", n(64)),
        "langsmith_key": _whole("ls", "v2_pt_", n(32, HEX), "_", n(10, HEX)),
        "langfuse_key": _whole("sk-", "lf-", n(8, HEX), "-1a2b-3c4d-5e6f-", n(12, HEX)),
        "slack_token": _whole("xo", "xb-", n(12, string.digits), "-", n(24)),
        "slack_webhook": _within("https://hooks.slack" + ".com/services/", f"T{n(8, UPPER)}/B{n(8, UPPER)}/{n(24)}"),
        "discord_token": _whole("M", n(25), ".", "G", n(5), ".", n(38)),
        "discord_webhook": _within("https://discord" + ".com/api/webhooks/", f"{n(18, string.digits)}/{n(68)}"),
        "telegram_bot_token": _whole("6", n(9, string.digits), ":", "AA", n(33)),
        "stripe_key": _whole("sk", "_live_", n(24)),
        "stripe_restricted_key": _whole("rk", "_live_", n(24)),
        "stripe_webhook_secret": _whole("wh", "sec_", n(32)),
        "twilio_key": _whole("S", "K", n(32, HEX)),
        "sendgrid_key": _whole("S", "G.", n(22), ".", n(43)),
        "mailgun_key": _whole("ke", "y-", n(32, HEX)),
        "square_token": _whole("EA", "AA", n(60)),
        "shopify_token": _whole("shp", "at_", n(32, HEX)),
        "linear_key": _whole("lin", "_api_", n(40)),
        "notion_token": _whole("nt", "n_", n(46)),
        "notion_secret": _whole("sec", "ret_", n(43)),
        "airtable_token": _whole("pa", "t", n(14), ".", n(64, HEX)),
        "figma_token": _whole("fi", "gd_", n(40)),
        "newrelic_key": _whole("NR", "AK-", n(27, UPPER)),
        "datadog_key": _within("DD_API_" + "KEY=", n(32, HEX)),
        "pagerduty_key": _within("PAGERDUTY_API_" + "TOKEN=", n(20)),
        "sentry_token": _whole("sn", "trys_", n(120)),
        "sentry_dsn": _within("https:" + "//", n(32, HEX), "@o123.ingest.sentry.io/456"),
        "grafana_token": _whole("gl", "sa_", n(32), "_", n(8, HEX)),
        "vault_token": _whole("hv", "s.", n(90)),
        "supabase_token": _whole("sb", "p_", n(40, HEX)),
        "age_key": _whole("AGE-SECRET", "-KEY-1", n(58, UPPER)),
        "jwt": _whole(header, ".", claims, ".", n(43)),
        "private_key": _within(
            "-----BEGIN RSA PRIVATE" + " KEY-----\n", key_lines, "\n-----END RSA PRIVATE" + " KEY-----\n"
        ),
        "bearer_header": _within("Authorization: " + "Bearer ", n(40)),
        "basic_header": _within("Authorization: " + "Basic ", base64.b64encode(f"user:{n(12)}".encode()).decode()),
        "cookie_header": _within("Cookie: ", f"sid={n(26)}; theme=dark"),
        "url_credentials": _within("postgres:" + "//app:", n(18), "@db.internal:5432/orders"),
        "password_assignment": _within("db_pass" + "word=", n(14)),
        "client_secret_json": _within('{"client_' + 'secret": "', n(32), '"}'),
    }


SECRETS: dict[str, str] = {kind: planted.text for kind, planted in planted_secrets().items()}
"""What to plant, by kind."""

SECRET_PARTS: dict[str, str] = {kind: planted.secret for kind, planted in planted_secrets().items()}
"""What must afterwards be found nowhere, by kind. A private key's is its body: look for each of its lines."""


def _json_twice(text: str) -> str:
    return json.dumps({"message": json.dumps({"note": f"first line\n{text}"})})


PLACEMENTS: dict[str, Callable[[str], str]] = {
    "alone": lambda text: text,
    "sentence": lambda text: f"Please use {text} for the deployment, and tell nobody.",
    "after a newline": lambda text: f"the output was:\n{text}\nand that is all",
    "nested JSON": lambda text: json.dumps({"tool": {"arguments": {"value": text, "retries": 3}}}),
    "escaped JSON in JSON": _json_twice,
    "URL query": lambda text: f"https://api.example.com/v1/run?mode=fast&v={quote(text, safe=':/@=?&')}",
    "header dump": lambda text: f"POST /v1 HTTP/1.1\r\nHost: api.example.com\r\nX-Custom: {text}\r\nAccept: */*\r\n",
    "stack trace": lambda text: (
        f'Traceback (most recent call last):\n  File "/app/run.py", line 3, in go\n    call({text!r})\nValueError: bad'
    ),
    "environment dump": lambda text: f"PATH=/usr/bin\nSETTING={text}\nLANG=C.UTF-8\n",
    "Python repr": lambda text: repr({"headers": [("x-custom", text)], "timeout": 30}),
    "attribute key": lambda text: f"app.{text}.count",
}
"""Where a secret may stand in a string."""


def survives(secret: str, text: str) -> bool:
    """Whether the secret, or a line of it, can still be read in the text (percent-encoded or escaped as well)."""
    lines = [line for line in secret.split("\n") if line]
    return any(form in text for line in lines for form in (line, quote(line, safe=":/@=?&"), json.dumps(line)[1:-1]))
