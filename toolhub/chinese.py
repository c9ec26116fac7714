"""Chinese sentences that were put together from parts: no blank between them, as Chinese is written."""

from __future__ import annotations

import re

from django.utils.translation import get_language

TAGS = r"(?:</?[a-z][^<>]*>)*"
AFTER_PUNCTUATION = re.compile(rf"([。，；：？！、]{TAGS})\s+")
COMMA = re.compile(rf"([一-鿿]{TAGS}), (?={TAGS}\S)|, (?={TAGS}[一-鿿])")
COLON = re.compile(rf"([一-鿿]{TAGS}):({TAGS})\s+")
CHARACTER = re.compile("[一-鿿]")
PARENTHESES = re.compile(rf"([一-鿿]{TAGS})\s*\(([^()<>]*)\)| ?\(([^()]*)\)")
BETWEEN_CHARACTERS = re.compile(rf"([一-鿿]{TAGS})\s+(?={TAGS}[一-鿿])")


def close_blanks(text: str) -> str:
    """Return the text, which may be HTML, without blanks after Chinese punctuation and between Chinese characters.

    Commas of a list, colons and parentheses beside Chinese characters become Chinese ones. In every other language the
    text is returned as it is.
    """
    if not (get_language() or "").startswith("zh"):
        return text
    text = PARENTHESES.sub(_close_parentheses, COLON.sub(r"\1：\2", COMMA.sub(r"\1、", text)))
    return BETWEEN_CHARACTERS.sub(r"\1", AFTER_PUNCTUATION.sub(r"\1", text))


def _close_parentheses(found: re.Match[str]) -> str:
    """Return Chinese parentheses after or around Chinese characters, and any others as they are."""
    before, after_chinese, other = found.groups()
    if before:
        return f"{before}（{after_chinese}）"
    return f"（{other}）" if CHARACTER.search(other) else found[0]
