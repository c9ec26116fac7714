"""Redaction rules of an installation: secret names and values, and the key of the digests that replace them.

Secret values are known in advance, and are found in every encoding in which they may occur inside other text.
"""

from __future__ import annotations

import base64
import hmac
import html
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]
from typing import Any
from urllib.parse import quote, quote_plus

import re2
from django.conf import settings

from audit.redaction.names import SecretNames
from toolhub.parts import parts

MIN_VALUE_CHARACTERS = 4
"""Minimum characters of a value: shorter ones are not searched for, because they occur inside ordinary words."""
HUB_CREDENTIAL_PATTERN = r"th[cprso]_[A-Za-z0-9_-]{20,}"
"""Pattern of this hub's access tokens, refresh tokens, codes and client secrets, wherever they occur."""
_HUB_CREDENTIAL_PREFIXES = ("thp_", "tho_", "thr_", "thc_", "ths_")
_MIN_CORE_CHARACTERS = 8
_MAX_PATTERN_CHARACTERS = 200
"""Maximum characters of a value whose spellings are part of the pattern. Longer ones are searched one by one: a pattern
of all spellings of 20,000 characters takes 90 ms to compile (measured)."""
MAX_HIDDEN_VALUES, MAX_SPELLED_CHARACTERS, MAX_LONG_CHARACTERS = 50, 20_000, 20_000
"""Maximum number of values that are searched for in one call, characters of the spellings of the short ones, and of the
long ones. With a pattern of 36,000 characters the engine runs out of memory, prints a line for each search, and takes
46 ms for 60 kB (measured). See `are_too_many`."""
MAX_LOGGED_VALUES = 300
_SETTINGS = frozenset(
    {"REDACT_NAMES", "REDACT_VALUES", "RECORD_KEY", "RECORD_OLD_KEYS", "SECRET_KEY", "ENCRYPTION_KEYS"}
)
_encode = c_make_encoder(None, str, encode_basestring_ascii, None, ":", ",", True, False, True)


def canonical(value: Any) -> str:
    """Return the canonical JSON text of a value: ASCII, sorted, without spaces. Both databases keep every byte."""
    return "".join(_encode(value, 0))


def spellings(secret: str) -> list[str]:
    """Return the value itself and its encodings in JSON, URLs, HTML, hexadecimal and base64."""
    raw = secret.encode("utf-8", "surrogatepass")
    once = json.dumps(secret)[1:-1]
    found = [
        secret, once, json.dumps(once)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], html.escape(secret),
        quote(raw, safe=""), quote(raw), quote_plus(raw), re.sub("%..", lambda m: m[0].lower(), quote(raw, safe="")),
        repr(secret)[1:-1],
    ]  # fmt: skip
    if len(raw) >= MIN_VALUE_CHARACTERS + 2:
        found += [raw.hex(), raw.hex().upper()]
    # Inside a longer base64 text ("user:SECRET") the value starts at any of three offsets. The characters at its
    # ends mix with the neighbors' bits; those in between do not depend on the surrounding text.
    for offset in range(3):
        whole = base64.b64encode(b"\0" * offset + raw).decode()
        core = whole[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6]
        if len(core) >= _MIN_CORE_CHARACTERS:
            found += [core, core.replace("+", "-").replace("/", "_")]
    return found


def are_too_many(values: Iterable[str]) -> bool:
    """Return whether these values of one call cannot be searched for in reasonable time: hide all of the text then."""
    seen: set[str] = set()
    spelled = long = 0
    for value in values:
        if len(value) < MIN_VALUE_CHARACTERS or value in seen:
            continue
        seen.add(value)
        if len(value) <= _MAX_PATTERN_CHARACTERS:
            spelled += sum(map(len, dict.fromkeys(spellings(value))))
        else:
            long += len(value)
        if len(seen) > MAX_HIDDEN_VALUES or spelled > MAX_SPELLED_CHARACTERS or long > MAX_LONG_CHARACTERS:
            return True
    return False


class SecretValues:
    """A search for any of the values in a text, in one pass whose speed does not depend on their number."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.raw = tuple(dict.fromkeys(value for value in values if len(value) >= MIN_VALUE_CHARACTERS))
        owners: dict[str, str] = {}
        for value in self.raw:
            for spelling in spellings(value):
                owners.setdefault(spelling, value)
        self.owners = owners
        longest_first = sorted(owners, key=len, reverse=True)
        self._long = [one for one in longest_first if len(owners[one]) > _MAX_PATTERN_CHARACTERS]
        short = [one for one in longest_first if len(owners[one]) <= _MAX_PATTERN_CHARACTERS]
        # A search in the canonical JSON text decides whether a value has to be searched in detail.
        in_json = dict.fromkeys(json.dumps(spelling)[1:-1] for spelling in short)
        self._in_json = re2.compile("|".join([HUB_CREDENTIAL_PATTERN, *map(re2.escape, in_json)]))
        self._min_characters = min(map(len, in_json), default=1 << 62)
        self._long_in_json = [json.dumps(spelling)[1:-1] for spelling in self._long]
        self._min_long_characters = min(map(len, self._long), default=1 << 62)
        self._in_text = re2.compile("|".join([HUB_CREDENTIAL_PATTERN, *map(re2.escape, filter(_is_encodable, short))]))

    def in_json(self, text: str) -> bool:
        """Return whether canonical (ASCII) JSON text contains any of the values."""
        if len(text) >= self._min_long_characters and any(spelling in text for spelling in self._long_in_json):
            return True
        if len(text) < self._min_characters and not any(prefix in text for prefix in _HUB_CREDENTIAL_PREFIXES):
            return False
        return self._in_json.search(text) is not None

    def mask(self, text: str, mark: Callable[[str], str]) -> str:
        """Return the text with every match replaced by `mark(value)`."""
        if len(text) >= self._min_long_characters:
            for spelling in self._long:
                if spelling in text:
                    text = text.replace(spelling, mark(self.owners[spelling]))
        if not _is_encodable(text):
            # The engine works on UTF-8, in which a lone surrogate has no form: so no match can contain one.
            return "".join(
                part if not _is_encodable(part) else self.mask(part, mark)
                for part in re.split("([\ud800-\udfff]+)", text)
            )
        if self._in_text.search(text) is None:
            return text
        return str(self._in_text.sub(lambda match: mark(self.owners.get(match.group(), match.group())), text))

    def equals(self, number: str) -> bool:
        """Return whether a number's text contains one of the values; such a number must be hidden."""
        if len(number) < MIN_VALUE_CHARACTERS or not self.raw:
            return False
        return self._in_text.search(number) is not None or any(spelling in number for spelling in self._long)


@dataclass(frozen=True, slots=True)
class Rules:
    """Compiled rules: the secrets to hide, and the markers that replace them."""

    names: SecretNames
    values: SecretValues
    key: bytes
    labels: dict[str, str] = field(default_factory=dict)
    """Cached results of `redact_label`: the same few names occur in every call."""

    def digest(self, text: str, characters: int = 16) -> str:
        return (
            "hmac-sha256:" + hmac.digest(self.key, text.encode("utf-8", "surrogatepass"), "sha256").hex()[:characters]
        )

    def marker(self, value: Any) -> dict[str, Any]:
        text = value if isinstance(value, str) else canonical(value)
        return {"$redacted": self.digest(text), "length": len(text)}

    def inline(self, secret: str) -> str:
        return f"[redacted {self.digest(secret)} {len(secret)}]"


class Redaction:
    """Rules of a process, from its settings and from secrets that other parts have added since its start."""

    def __init__(self) -> None:
        self._rules: Rules | None = None
        self._added: dict[str, None] = {}
        self._logged: dict[str, None] = {}
        self._in_logs: SecretValues | None = None

    @property
    def rules(self) -> Rules:
        """Rules in force, compiled on first use."""
        return self._rules or self._compile()

    def add_values(self, values: Iterable[str]) -> None:
        """Also hide these values from now on: secrets of other parts, such as an upstream's password."""
        new = {value: None for value in values if value not in self._added}
        if new:
            self._added.update(new)
            self._rules = None

    def add_log_values(self, values: Iterable[str]) -> None:
        """Mask these values in log lines from now on: users' personal secrets, of which the latest 300 are kept.

        The audit log masks them in the calls that used them; masking all of them everywhere would slow every call.
        """
        for value in values:
            self._logged[value] = self._logged.pop(value, None)
            self._in_logs = None
        while len(self._logged) > MAX_LOGGED_VALUES:
            self._logged.pop(next(iter(self._logged)))

    def mask_logged(self, text: str) -> str:
        """Return the text without the values of `add_log_values`."""
        if not self._logged:
            return text
        values = self._in_logs
        if values is None:
            values = self._in_logs = SecretValues(self._logged)
        return values.mask(text, self.rules.inline)

    def on_setting_changed(self, *, setting: str, **_: Any) -> None:
        """Discard the compiled rules. Handler of Django's signal, which only tests send."""
        if setting in _SETTINGS:
            self._rules = None

    def _compile(self) -> Rules:
        added = list(self._added)
        values = [*settings.REDACT_VALUES, *_own_secrets(), *added]
        key = hmac.digest((settings.RECORD_KEY or settings.SECRET_KEY).encode(), b"toolhub redaction 1", "sha256")
        rules = Rules(SecretNames(settings.REDACT_NAMES), SecretValues(map(str.strip, values)), key)
        self._rules = rules
        if len(self._added) > len(added):
            self._rules = None  # another thread added a value meanwhile
        return rules


def redaction() -> Redaction:
    """Return the redaction of this process; for log lines before `audit.apps` created it, one of the settings alone."""
    return parts.find(Redaction) or Redaction()


def _own_secrets() -> list[str]:
    database = settings.DATABASES["default"].get("PASSWORD")
    keys = (settings.SECRET_KEY, settings.RECORD_KEY, *settings.RECORD_OLD_KEYS, *settings.ENCRYPTION_KEYS)
    return [str(value) for value in (*keys, database) if value]


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
