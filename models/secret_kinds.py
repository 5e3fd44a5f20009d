"""What a secret looks like: the token formats of services, and the names people give to secrets."""

from typing import NamedTuple

WORD = r"[A-Za-z0-9]"
SLUG = r"[A-Za-z0-9_-]"
HEX = r"[0-9a-f]"
BASE64 = r"[A-Za-z0-9+/]"

LEFT_EDGE = (
    r"(?:^|[^A-Za-z0-9]"
    r"|\\[abfnrtv0]|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}"  # an escape of JSON, Python or C ends right before it
    r"|%[0-9A-Fa-f]{2}|[0-9]m)"  # so does a percent escape, or a terminal colour
)
"""What may stand before a token whose prefix is too short to be trusted inside a word (`sk-` in `task-…`)."""


class TokenFormat(NamedTuple):
    """A token known by its own text. `stem + rest` is the token; the stem alone already makes bytes suspect."""

    kind: str
    """Must not end like the name of a secret: `[REDACTED:api_key:…]` would itself look like an assignment."""
    stem: str
    """Begins the token and holds no character that JSON may escape, so it survives in raw JSON and protobuf."""
    rest: str = ""
    edged: bool = False
    """The token must stand at LEFT_EDGE."""
    lead: str = ""
    """The part of the token before the stem, where that part is too common to search for."""


TOKEN_FORMATS: tuple[TokenFormat, ...] = (
    # Ours.
    TokenFormat("tachograph", rf"tg_[a-z-]{{3,24}}_{WORD}{{8}}_{SLUG}{{8}}", rf"{SLUG}{{35}}"),
    # Clouds.
    TokenFormat("aws_key_id", r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}", r"\b", edged=True),
    TokenFormat("aws_bedrock", rf"ABSK{WORD}{{20}}", rf"{BASE64}{{80,}}={{0,2}}", edged=True),
    TokenFormat("google_api", rf"AIza{SLUG}{{16}}", rf"{SLUG}{{19}}"),
    TokenFormat("google_oauth", rf"ya29\.{SLUG}{{16}}", r"[A-Za-z0-9_.-]{4,}"),
    TokenFormat("google_client", rf"GOCSPX-{SLUG}{{16}}", rf"{SLUG}{{8,}}"),
    TokenFormat("azure_client", r"[78]Q~[A-Za-z0-9_~.-]{16}", r"[A-Za-z0-9_~.-]{15,}", lead=r"[A-Za-z0-9_~.-]{3}"),
    TokenFormat("digitalocean", rf"do[opr]_v1_{HEX}{{16}}", rf"{HEX}{{40,}}"),
    TokenFormat("heroku", rf"HRKU-{WORD}{{8}}", rf"{SLUG}{{20,}}"),
    TokenFormat("cloudflare_origin", rf"v1\.0-{HEX}{{24}}-", rf"{HEX}{{100,}}"),
    TokenFormat("databricks", rf"dapi{HEX}{{16}}", rf"{HEX}{{16}}(?:-[0-9])?"),
    TokenFormat("fly", rf"fm[12][ar]?_{WORD}{{16}}", r"[A-Za-z0-9+/_=,-]{40,}", edged=True),
    TokenFormat("netlify", rf"nfp_{WORD}{{16}}", rf"{WORD}{{20,}}", edged=True),
    TokenFormat("planetscale", rf"pscale_(?:tkn|pw|oauth)_{SLUG}{{16}}", r"[A-Za-z0-9_.=-]{16,}"),
    TokenFormat("neon", rf"napi_{WORD}{{16}}", rf"{WORD}{{32,}}", edged=True),
    # Forges, registries and build services.
    TokenFormat("github", rf"gh[pousr]_{WORD}{{16}}", rf"{WORD}{{20,}}"),
    TokenFormat("github_fine_grained", rf"github_pat_{WORD}{{16}}", r"[A-Za-z0-9_]{20,}"),
    TokenFormat("gitlab", rf"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-{SLUG}{{16}}", r"[A-Za-z0-9_.-]{4,}"),
    TokenFormat("bitbucket", rf"ATBB{WORD}{{16}}", rf"{WORD}{{12,}}"),
    TokenFormat("atlassian", rf"AT(?:ATT|CTT)3{SLUG}{{16}}", r"[A-Za-z0-9_=-]{40,}"),
    TokenFormat("npm", rf"npm_{WORD}{{16}}", rf"{WORD}{{20,}}"),
    TokenFormat("pypi", rf"pypi-{SLUG}{{16}}", rf"{SLUG}{{40,}}"),
    TokenFormat("rubygems", rf"rubygems_{HEX}{{16}}", rf"{HEX}{{32}}"),
    TokenFormat("docker", rf"dckr_[po]at_{SLUG}{{16}}", rf"{SLUG}{{8,}}"),
    TokenFormat("circleci", rf"CCI(?:PAT|PRJ)_{WORD}{{16}}", r"[A-Za-z0-9_]{16,}"),
    TokenFormat("buildkite", rf"bk(?:ua|ct|aj|pt)_{WORD}{{16}}", rf"{WORD}{{20,}}"),
    TokenFormat("pulumi", rf"pul-{HEX}{{16}}", rf"{HEX}{{24}}", edged=True),
    TokenFormat("terraform", rf"\.atlasv1\.{SLUG}{{16}}", r"[A-Za-z0-9_=-]{40,}", lead=rf"{WORD}{{14}}"),
    TokenFormat("sourcegraph", rf"sgp_{WORD}{{16}}", r"[A-Za-z0-9_]{20,}"),
    # Model providers and their tooling. The long prefixes come before the plain `sk-`.
    TokenFormat("anthropic", rf"sk-ant-{SLUG}{{16}}", rf"{SLUG}{{16,}}"),
    TokenFormat("openrouter", rf"sk-or-{SLUG}{{16}}", rf"{SLUG}{{24,}}"),
    TokenFormat("langfuse", rf"[sp]k-lf-{SLUG}{{16}}", rf"{SLUG}{{12,}}"),
    TokenFormat("openai", rf"sk-{WORD}(?:{SLUG}{{15}})", rf"{SLUG}{{12,}}", edged=True),
    TokenFormat("openai_session", rf"sess-{WORD}{{16}}", rf"{WORD}{{20,}}", edged=True),
    TokenFormat("huggingface", r"(?:hf|api_org)_[A-Za-z]{16}", rf"{WORD}{{16,}}", edged=True),
    TokenFormat("groq", rf"gsk_{WORD}{{16}}", rf"{WORD}{{24,}}"),
    TokenFormat("xai", rf"xai-{WORD}{{16}}", rf"{WORD}{{40,}}"),
    TokenFormat("replicate", rf"r8_{WORD}{{16}}", rf"{WORD}{{16,}}"),
    TokenFormat("perplexity", rf"pplx-{WORD}{{16}}", rf"{WORD}{{16,}}"),
    TokenFormat("nvidia", rf"nvapi-{SLUG}{{16}}", rf"{SLUG}{{40,}}"),
    TokenFormat("cerebras", rf"csk-{WORD}{{16}}", rf"{WORD}{{24,}}", edged=True),
    TokenFormat("fireworks", rf"fw_{WORD}{{16}}", rf"{WORD}{{6,}}", edged=True),
    TokenFormat("tavily", rf"tvly-{SLUG}{{16}}", rf"{SLUG}{{8,}}"),
    TokenFormat("pinecone", rf"pcsk_{WORD}{{5}}_{WORD}{{16}}", rf"{WORD}{{30,}}"),
    TokenFormat("e2b", rf"e2b_{HEX}{{16}}", rf"{HEX}{{24}}", edged=True),
    TokenFormat("langsmith", rf"lsv2_(?:pt|sk)_{HEX}{{16}}", rf"{HEX}{{16}}_{HEX}{{10}}"),
    # Chat, mail and payments.
    TokenFormat("slack", r"xox[abcdeoprs]-[A-Za-z0-9-]{10}", r"[A-Za-z0-9-]{6,}"),
    TokenFormat("slack_app", r"xapp-[0-9]-[A-Z0-9]{8}", r"[A-Za-z0-9-]{20,}"),
    TokenFormat("telegram_bot", rf":AA{SLUG}{{16}}", rf"{SLUG}{{17}}", edged=True, lead=r"[0-9]{8,10}"),
    TokenFormat(
        "discord", rf"\.[A-Z]{SLUG}{{5}}\.{SLUG}{{20}}", rf"{SLUG}{{7,22}}", edged=True, lead=rf"[MNO]{SLUG}{{23,27}}"
    ),
    TokenFormat("stripe", rf"[sr]k_(?:live|test|prod)_{WORD}{{10}}", rf"{WORD}{{6,}}"),
    TokenFormat("stripe_webhook", rf"whsec_{WORD}{{16}}", r"[A-Za-z0-9+/=]{8,}"),
    TokenFormat("twilio", rf"[AS][CK]{HEX}{{32}}", r"\b", edged=True),
    TokenFormat("sendgrid", rf"SG\.{SLUG}{{16}}", rf"{SLUG}{{0,10}}\.{SLUG}{{16,}}", edged=True),
    TokenFormat("mailgun", rf"key-{HEX}{{32}}", r"\b", edged=True),
    TokenFormat("brevo", rf"xkeysib-{HEX}{{16}}", rf"{HEX}{{40,}}-{WORD}{{16}}"),
    TokenFormat("square", rf"(?:EAAA|sq0[a-z]{{3}}-){SLUG}{{16}}", rf"{SLUG}{{6,}}", edged=True),
    TokenFormat("shopify", r"shp(?:at|ca|pa|ss|ua)_[0-9A-Fa-f]{16}", r"[0-9A-Fa-f]{16}"),
    # Workplace and observability.
    TokenFormat("linear", rf"lin_(?:api|oauth)_{WORD}{{16}}", rf"{WORD}{{16,}}"),
    TokenFormat("notion", rf"ntn_{WORD}{{16}}", rf"{WORD}{{24,}}", edged=True),
    TokenFormat("notion_legacy", rf"secret_{WORD}{{40}}", rf"{WORD}{{3}}", edged=True),
    TokenFormat("airtable", rf"pat{WORD}{{14}}\.{HEX}{{16}}", rf"{HEX}{{48}}"),
    TokenFormat("figma", rf"fig[dr]_{SLUG}{{16}}", rf"{SLUG}{{16,}}"),
    TokenFormat("contentful", rf"CFPAT-{SLUG}{{16}}", rf"{SLUG}{{16,}}"),
    TokenFormat("postman", rf"PMAK-{HEX}{{16}}", rf"{HEX}{{8}}-{HEX}{{34}}"),
    TokenFormat("newrelic", rf"NR(?:AK|JS|II|AL|RA)-{WORD}{{16}}", rf"{SLUG}{{3,}}"),
    TokenFormat("sentry", rf"sntry[su]_{SLUG}{{16}}", r"[A-Za-z0-9_=+/-]{40,}"),
    TokenFormat("grafana", rf"gl(?:sa|c)_{WORD}{{16}}", r"[A-Za-z0-9_=+/]{16,}"),
    TokenFormat("pagerduty", rf"pdus\+_0XBPWQ_{SLUG}{{8}}", r"[A-Za-z0-9_+-]{8,}"),
    TokenFormat("doppler", rf"dp\.(?:pt|st|ct|sa|scim|audit)\.{SLUG}{{16}}", r"[A-Za-z0-9_.-]{20,}"),
    TokenFormat("op_service", rf"ops_eyJ{WORD}{{16}}", r"[A-Za-z0-9+/=]{80,}"),
    TokenFormat("vault", rf"hv[sbr]\.{SLUG}{{16}}", rf"{SLUG}{{8,}}", edged=True),
    TokenFormat("supabase", rf"sb(?:p_{HEX}{{16}}|_secret_{SLUG}{{12}})", rf"{SLUG}{{8,}}"),
    TokenFormat("age_identity", r"AGE-SECRET-KEY-1[A-Z0-9]{16}", r"[A-Z0-9]{42}"),
    TokenFormat("jwt", rf"eyJ{SLUG}{{14,}}\.{SLUG}{{8}}", rf"{SLUG}*\.{SLUG}{{8,}}(?:\.{SLUG}+){{0,2}}", edged=True),
)


class ContextFormat(NamedTuple):
    """A secret known by the text around it. Group 1 is the secret."""

    kind: str
    pattern: str
    filter: str
    """Matches raw JSON or protobuf bytes whenever the pattern matches the text they carry.

    Without \\s: Hyperscan takes the vertical tab for one, RE2 does not.
    """


_SLASH = r"(?:\\*/|%2[Ff])"
_RAW_SLASHES = r"(?:[\\/]|%2[Ff]){2,8}"
_UNQUOTED = r"[^\s\"'`\\,;&<>(){}\[\]|]"

CONTEXT_FORMATS: tuple[ContextFormat, ...] = (
    ContextFormat(
        "slack_webhook",
        rf"hooks\.slack\.com{_SLASH}(?:services|workflows|triggers){_SLASH}([A-Za-z0-9_/%\\]{{20,}}[A-Za-z0-9])",
        r"hooks\.slack\.com",
    ),
    ContextFormat(
        "discord_webhook",
        rf"discord(?:app)?\.com{_SLASH}api{_SLASH}webhooks{_SLASH}([0-9]{{16,20}}{_SLASH}{SLUG}{{40,}})",
        r"discord(?:app)?\.com.{1,6}api.{1,6}webhooks",
    ),
    ContextFormat(
        "sentry_url",
        rf":{_SLASH}{{2}}({HEX}{{32}}(?::{HEX}{{32}})?)@",
        rf":{_RAW_SLASHES}{HEX}{{32}}",
    ),
    ContextFormat(
        "url_login",
        rf":{_SLASH}{{2}}[A-Za-z0-9_.~%+!$-]{{0,64}}:([^\s/\"'`\\<>\[\](){{}}]{{3,}})@[A-Za-z0-9\[._-]",
        rf":{_RAW_SLASHES}[A-Za-z0-9_.~%+!$-]{{0,64}}:[^\t\n\f\r /\"'`<>\[\](){{}}]{{3,}}@",
    ),
    ContextFormat(
        "azure_sas",
        rf"{LEFT_EDGE}(?i:sig)(?:=|%3[Dd])([A-Za-z0-9%+/-]{{40,}}={{0,2}})",
        r"(?i:sig(?:=|%3d))[A-Za-z0-9%+/\\-]{30}",
    ),
    ContextFormat(
        "azure_storage",
        r"(?i:accountkey|accesskey)(?:=|%3[Dd])([A-Za-z0-9+/%]{30,}={0,2})",
        r"(?i:accountkey|accesskey)(?:=|%3[Dd])",
    ),
    ContextFormat(
        "bearer",
        r"(?i:bearer)(?: {1,4}|\t|%20|\+|\\+t)([A-Za-z0-9._~+/=-]{16,})",
        r"(?i:bearer)(?:[ \t+\\]|%20)",
    ),
)

_KEYS = "api|access|secret|private|account|signing|encryption|master|license|role|subscription|auth"
_TOKENS = "auth|access|refresh|session|bearer|bot|api|oauth|security|service|deploy|personal"
STRONG_NAMES = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "secret", "credentials", "authorization", "cookie"),
    *(f"{word}[-_. ]?key" for word in _KEYS.split("|")),
    *(f"{word}[-_. ]?token" for word in _TOKENS.split("|")),
    *("secret[-_. ]?key[-_. ]?base", "connection[-_. ]?string"),
)
"""How the name of a secret ends. Case does not matter; `input_tokens` or `token.type` do not end so."""

WEAK_NAMES = ("token", "dsn", "api[-_. ]?hash", "access[-_. ]?code")
"""Names that often hold harmless things too; their values count only when they look random."""

STRONG_NAME = f"(?:{'|'.join(STRONG_NAMES)})"
WEAK_NAME = f"(?:{'|'.join(WEAK_NAMES)})"
_INDEX = r"(?:\.[0-9]{1,3}|\[[0-9]{1,3}\])?"  # some clients flatten a list: `header.authorization.0`
_ANY_NAME = rf"(?i:{STRONG_NAME}|{WEAK_NAME})"
_OPEN_QUOTE = r"(?:\\*[\"'`]|%22|&quot;|&#34;|\\+u0022)"
_EQUALS = r"(?:=>|:=|={1,2}|:|>|%3[AaDd]|\\+u003[AaDd])"
_SPACES = r"(?: {0,4}|\t{0,4})"
AUTH_SCHEME = r"(?:bearer|basic|token|digest|apikey|negotiate|splunk|hmac|aws4-hmac-sha256)"
_SCHEME = rf"(?:(?i:{AUTH_SCHEME})(?: +|%20|\+))?"
_QUOTED_OR_BARE = rf"(?:b?\\*\"([^\"\r\n]+)|b?\\*'([^'\r\n]+)|(?:&quot;|&#34;|\\+u0022)?({_SCHEME}{_UNQUOTED}{{4,}}))"

DENIED_NAME = rf"(?i:{STRONG_NAME}){_INDEX}$"
DOUBTED_NAME = rf"(?i:{WEAK_NAME}){_INDEX}$"

ASSIGNMENT = (
    rf"([A-Za-z0-9_.-]*{_ANY_NAME}){_INDEX}{_OPEN_QUOTE}?"
    rf"{_SPACES}{_EQUALS}(?:[ \t]|\\+[nrt]|%20){{0,4}}{_QUOTED_OR_BARE}"
)
"""`name = value` as shells, JSON, YAML, URLs, headers, Python and XML write it; groups: name, then the value."""

HEADER_PAIR = rf"\(b?[\"']([A-Za-z0-9_.-]*{_ANY_NAME})[\"'], ?b?{_QUOTED_OR_BARE}"
"""`('authorization', 'Basic …')`, as Python prints headers; groups as in ASSIGNMENT."""

COMMAND_OPTION = rf"(--[A-Za-z0-9_-]*{_ANY_NAME})(?: {{1,4}}|\t){_QUOTED_OR_BARE}"
"""`--password hunter2`; groups as in ASSIGNMENT."""

_PROTOBUF_VALUE = r"\x12(?:[\x00-\x7f]|[\x80-\xff]{1,4}[\x00-\x7f])[\x0a*2:][^\x00]"
"""What follows a key in protobuf: tag and length of the value, then the tag of a string, list, map or bytes in it."""

_AFTER_NAME = (
    rf"{_INDEX}(?:{_PROTOBUF_VALUE}|[\"'`\\=:>]|%22|&quot;|&#34;|%3[AaDd]"
    r"|(?: {1,4}|\t{1,4})(?:[=:>]|%3[AaDd]))"
)
NAME_FILTERS = (
    *(rf"(?i:{name}){_AFTER_NAME}" for name in (*STRONG_NAMES, *WEAK_NAMES)),
    rf"--[A-Za-z0-9_-]*{_ANY_NAME}[ \t]",
)
"""Find the three notations above, and an attribute so named, in raw bytes. One by one they scan faster than as one."""

COOKIE = r"(?i:cookie)(?:\\*[\"'])?: ?(?:\\*[\"'])?([^\r\n\"'\\]{8,})"
"""A cookie header up to the end of its line; every name in it may be a session."""

PRIVATE_KEY_BEGIN = (
    r"-----BEGIN(?:[ +_]|%20)(?:[A-Z0-9]{1,12}(?:[ +_]|%20)){0,3}PRIVATE(?:[ +_]|%20)KEY(?:(?:[ +_]|%20)BLOCK)?-----"
)
PRIVATE_KEY_FILTER = r"-----BEGIN"

RAW_FILTERS = (
    PRIVATE_KEY_FILTER,
    *NAME_FILTERS,
    *(token.stem for token in TOKEN_FORMATS),
    *(context.filter for context in CONTEXT_FORMATS),
)
"""Bytes, protobuf or JSON, in which none of these matches hold nothing that masking would change."""

JSON_FILTER = r"\\u00[2-7][0-9A-Fa-f]|bytes_?[Vv]alue"
"""JSON may write any letter as `\\u0070` and writes bytes as base64; we do not look through that in raw bytes, so its
presence is suspect."""
