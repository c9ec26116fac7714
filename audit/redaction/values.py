"""Secret values that are known in advance, in every encoding in which they may occur inside other text."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable
from urllib.parse import quote, quote_plus

import re2

SHORTEST = 4
"""Minimum characters of a value: shorter ones are not searched for, because they occur inside ordinary words."""
HUB_CREDENTIAL = r"thp_[A-Za-z0-9_-]{20,}"
"""Pattern of this hub's access tokens, wherever they occur."""
_SHORTEST_CORE = 8


def spellings(secret: str) -> list[str]:
    """Return the value itself and its encodings in JSON, URLs, HTML, hexadecimal and base64."""
    raw = secret.encode("utf-8", "surrogatepass")
    once = json.dumps(secret)[1:-1]
    found = [
        secret, once, json.dumps(once)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], html.escape(secret),
        quote(raw, safe=""), quote(raw), quote_plus(raw), re.sub("%..", lambda m: m[0].lower(), quote(raw, safe="")),
        repr(secret)[1:-1],
    ]  # fmt: skip
    if len(raw) >= SHORTEST + 2:
        found += [raw.hex(), raw.hex().upper()]
    # Inside a longer base64 text ("user:SECRET") the value starts at any of three offsets. The characters at its
    # ends mix with the neighbors' bits; those in between do not depend on the surrounding text.
    for offset in range(3):
        whole = base64.b64encode(b"\0" * offset + raw).decode()
        core = whole[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6]
        if len(core) >= _SHORTEST_CORE:
            found += [core, core.replace("+", "-").replace("/", "_")]
    return found


class SecretValues:
    """A search for any of the values in a text, in one pass whose speed does not depend on their number."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.raw = tuple(dict.fromkeys(value for value in values if len(value) >= SHORTEST))
        owners: dict[str, str] = {}
        for value in self.raw:
            for spelling in spellings(value):
                owners.setdefault(spelling, value)
        self.owners = owners
        # A search in the canonical JSON text decides whether a value has to be searched in detail.
        in_json = dict.fromkeys(json.dumps(spelling)[1:-1] for spelling in owners)
        self._in_json = re2.compile("|".join([HUB_CREDENTIAL, *map(re2.escape, in_json)]))
        self._shortest = min(map(len, in_json), default=1 << 62)
        longest_first = sorted(owners, key=len, reverse=True)
        self._in_text = re2.compile("|".join([HUB_CREDENTIAL, *map(re2.escape, filter(_encodes, longest_first))]))

    def in_json(self, text: str) -> bool:
        """Return whether canonical (ASCII) JSON text contains any of the values."""
        if len(text) < self._shortest and "thp_" not in text:
            return False
        return self._in_json.search(text) is not None

    def mask(self, text: str, mark: Callable[[str], str]) -> str:
        """Return the text with every match replaced by `mark(value)`."""
        if not _encodes(text):
            # The engine works on UTF-8, in which a lone surrogate has no form: so no match can contain one.
            return "".join(
                part if not _encodes(part) else self.mask(part, mark) for part in re.split("([\ud800-\udfff]+)", text)
            )
        if self._in_text.search(text) is None:
            return text
        return str(self._in_text.sub(lambda match: mark(self.owners.get(match.group(), match.group())), text))

    def equals(self, number: str) -> bool:
        """Return whether a number's text contains one of the values; such a number must be hidden."""
        return any(value in number for value in self.raw)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
