"""Redaction rules of an installation: secret names and values, and the key of the digests that replace them."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from json.encoder import c_make_encoder, encode_basestring_ascii  # type: ignore[attr-defined]
from typing import Any

from django.conf import settings

from audit.redaction.names import SecretNames
from audit.redaction.values import SecretValues
from toolhub.parts import parts

MAX_LOGGED_VALUES = 300
_SETTINGS = frozenset({"REDACT_NAMES", "REDACT_VALUES", "RECORD_KEY", "SECRET_KEY", "ENCRYPTION_KEYS"})
_encode = c_make_encoder(None, str, encode_basestring_ascii, None, ":", ",", True, False, True)


def canonical(value: Any) -> str:
    """Return the canonical JSON text of a value: ASCII, sorted, without spaces. Both databases keep every byte."""
    return "".join(_encode(value, 0))


@dataclass(frozen=True, slots=True)
class Rules:
    """Compiled rules: the secrets to hide, and the markers that replace them."""

    names: SecretNames
    values: SecretValues
    key: bytes
    labels: dict[str, str] = field(default_factory=dict)
    """Cached results of `label`: the same few names occur in every call."""

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
        self._also: dict[str, None] = {}
        self._logged: dict[str, None] = {}
        self._in_logs: SecretValues | None = None

    @property
    def rules(self) -> Rules:
        """Rules in force, compiled on first use."""
        return self._rules or self._compile()

    def also(self, values: Iterable[str]) -> None:
        """Also hide these values from now on: secrets of other parts, such as an upstream's password."""
        new = {value: None for value in values if value not in self._also}
        if new:
            self._also.update(new)
            self._rules = None

    def also_in_logs(self, values: Iterable[str]) -> None:
        """Mask these values in log lines from now on: users' personal secrets, of which the latest 300 are kept.

        The audit log masks them in the calls that used them; masking all of them everywhere would slow every call.
        """
        for value in values:
            self._logged[value] = self._logged.pop(value, None)
            self._in_logs = None
        while len(self._logged) > MAX_LOGGED_VALUES:
            self._logged.pop(next(iter(self._logged)))

    def mask_logged(self, text: str) -> str:
        """Return the text without the values of `also_in_logs`."""
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
        also = list(self._also)
        values = [*settings.REDACT_VALUES, *_own_secrets(), *also]
        key = hmac.digest((settings.RECORD_KEY or settings.SECRET_KEY).encode(), b"toolhub redaction 1", "sha256")
        rules = Rules(SecretNames(settings.REDACT_NAMES), SecretValues(map(str.strip, values)), key)
        self._rules = rules
        if len(self._also) > len(also):
            self._rules = None  # another thread added a value meanwhile
        return rules


def redaction() -> Redaction:
    """Return the redaction of this process; for log lines before `audit.apps` created it, one of the settings alone."""
    return parts.find(Redaction) or Redaction()


def _own_secrets() -> list[str]:
    database = settings.DATABASES["default"].get("PASSWORD")
    keys = (settings.SECRET_KEY, settings.RECORD_KEY, *settings.ENCRYPTION_KEYS)
    return [str(value) for value in (*keys, database) if value]
