"""The one way for text from a trace into places that render Markdown: titles, metrics, notices, labels."""

import re
import unicodedata

LONGEST = 120
JOINER = "\u2060"
"""Word joiner: invisible and without width; it keeps a word from being read as a link, an icon or an emoji."""

PUNCTUATION = re.compile(r"([!-/:-@\[-`{-~])")
TELLING = re.compile(r"([:@]|www)", re.IGNORECASE)


def escape(text: str | None, longest: int = LONGEST) -> str:
    """The text on one line, shown as it is: no links, images, HTML, formulas, icons, emoji or hidden direction marks.

    Markdown lets every ASCII punctuation mark be escaped. Streamlit's icons, emoji and bare links are found later, in
    the plain text; there a word joiner after `:`, `@` and `www` breaks the pattern.
    """
    plain = " ".join("".join(map(_seen, text or "")).split())
    cut = plain if len(plain) <= longest else plain[: longest - 1] + "…"
    return TELLING.sub(rf"\1{JOINER}", PUNCTUATION.sub(r"\\\1", cut))


def _seen(character: str) -> str:
    """Control and direction characters as a space: they move or hide what stands beside them."""
    return " " if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") else character
