"""Redaction of arguments, results and error texts for the audit log: no secret in plain text.

A secret is a field that the schema marks (writeOnly, format: password, x-secret), a field whose name is on a list, or
a configured value wherever it occurs. It is stored as a keyed digest and its length, so that two entries of the same
secret can be recognized as equal, and nobody without the audit log's key can guess it. A value that is hidden in one
place is hidden everywhere else in the same value, and `found` passes it on to the result and the error of that call.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from audit.redaction.names import SecretNames
from audit.redaction.rules import MIN_VALUE_CHARACTERS, Rules, SecretValues, are_too_many, canonical, redaction
from audit.redaction.schema_fields import Schemas, SecretFields, has_marks

__all__ = [
    "CHANGED",
    "DIGESTS",
    "HIDDEN",
    "MASK",
    "REDACTED",
    "WHOLE",
    "LogFilter",
    "Redactor",
    "canonical",
    "is_secret_name",
    "mask_values",
    "redact_label",
    "redact_text",
    "redactor",
    "result_redactor",
    "rules",
]

HIDDEN, CHANGED = "(hidden)", "(hidden, changed)"
"""Texts that admin activity has in place of the value of a secret field."""
WHOLE, REDACTED, DIGESTS = "whole", "redacted", "digests"
NOT_LOGGED = '{"$redacted":"not logged: '
"""How the text begins that stands for a value that cannot be searched."""
_MAX_NESTED_TEXTS = 4
"""Maximum levels of JSON inside a string of JSON that are searched; a deeper string is hidden completely."""

_MAX_CACHED_LABELS = 5_000
MASK = "[hidden secret]"
_MIN_REVEALING_CHARACTERS = 12
"""Number of leading characters of a secret that reveal too much."""
_MARKER = re.compile(r"hmac-sha256:[0-9a-f]{16}")


def rules() -> Rules:
    """Return the rules for secrets that this installation hides everywhere."""
    return redaction().rules


def is_secret_name(name: str) -> bool:
    """Return whether a field of this name holds a secret, according to the one list of such names."""
    return redaction().rules.names(name)


def mask_values(values: Sequence[str], text: str) -> str:
    """Return `text` with these values masked, in any spelling of them."""
    return _compile_values(tuple(values)).mask(text, lambda secret: MASK)


@lru_cache(maxsize=256)
def _compile_values(values: tuple[str, ...]) -> SecretValues:
    return SecretValues(values)


class Redactor:
    """A redactor for the values of one schema: create it once and keep it with the definition."""

    __slots__ = ("_fields", "_member", "_mode")

    def __init__(self, schema: dict[str, Any] | None, mode: str, member: str | None = None) -> None:
        if mode not in {WHOLE, REDACTED, DIGESTS}:
            raise ValueError(f"unknown way to record: {mode!r}")
        self._mode = mode
        self._member = member
        self._fields = SecretFields(schema) if schema and mode == REDACTED and has_marks(schema) else None

    def text(self, value: Any, found: list[str] | None = None, extra: Sequence[str] = ()) -> str:
        """Return canonical JSON text without secrets, ready to be stored.

        `found` receives the hidden values, `extra` are further values to hide: pass `found` of the arguments as `extra`
        of the result and of `redact_text`. Where these are too many to search for, all of the value is hidden.
        """
        current = redaction().rules
        try:
            text = canonical(value)
            if self._mode == DIGESTS:
                return _hide_all(text, current)
            known = current.values.in_json(text)
            quick = not known and not extra
            if quick and (
                self._mode == WHOLE or (self._fields is None and not _may_contain_secrets(value, current.names))
            ):
                return text
            return self._redact_thoroughly(value, text, known, current, found, extra)
        except (RecursionError, TypeError, ValueError) as error:
            # A value that cannot be searched might hold a secret.
            return canonical({"$redacted": f"not logged: {type(error).__name__}", "length": 0})  # see NOT_LOGGED

    def value(self, value: Any) -> Any:
        """Return plain data without secrets, ready to be stored."""
        return json.loads(self.text(value))

    def _redact_thoroughly(
        self, value: Any, text: str, known: bool, current: Rules, found: list[str] | None, extra: Sequence[str]
    ) -> str:
        hidden: list[str] = []
        walk = _Walk(current, self._fields if self._mode == REDACTED else None, self._mode == REDACTED, hidden)
        walk.values = current.values if known else None
        start = self._fields.start if self._fields else ()
        if self._member is not None and isinstance(value, dict):
            new: Any = {
                name: walk.member(name, inner, start if name == self._member else ()) for name, inner in value.items()
            }
        else:
            new = walk.any(value, start)
        if found is not None:
            found.extend(dict.fromkeys(hidden))
        if are_too_many((*hidden, *extra)):
            return _hide_all(text, current)
        if hidden or extra:
            second = _Walk(current, None, False, [])
            second.values = SecretValues([*hidden, *extra])
            new = second.any(new, ())
        result = canonical(new)
        if current.values.in_json(result):
            return _hide_all(text, current)
        return result


def _hide_all(text: str, current: Rules) -> str:
    return canonical({"$redacted": current.digest(text, 64), "length": len(text)})


class _Walk:
    """One pass over a value. Unchanged parts remain the same objects."""

    def __init__(self, current: Rules, fields: SecretFields | None, names: bool, hidden: list[str]) -> None:
        self.current, self.fields, self.names, self.hidden = current, fields, names, hidden
        self.values: SecretValues | None = None
        self.depth = 0

    def any(self, value: Any, schemas: Schemas) -> Any:
        if self.fields is not None and schemas and self.fields.is_secret(schemas):
            return self.hide(value)
        if isinstance(value, str):
            return self.string(value)
        if isinstance(value, dict):
            return self.object(value, schemas)
        if isinstance(value, (list, tuple)):
            inner = self.fields.element if self.fields is not None and schemas else None
            return [self.any(item, inner(schemas, index) if inner else ()) for index, item in enumerate(value)]
        if self.values is not None and type(value) in (int, float) and self.values.equals(canonical(value)):
            return self.current.marker(value)
        return value

    def object(self, value: dict[str, Any], schemas: Schemas) -> Any:
        if _is_marker(value):
            return value
        fields = self.fields
        return {
            self.name(str(name)): self.member(
                str(name), inner, fields.member(schemas, str(name)) if fields is not None and schemas else ()
            )
            for name, inner in value.items()
        }

    def member(self, name: str, value: Any, schemas: Schemas) -> Any:
        if self.names and self.current.names(name):
            return self.hide(value)
        return self.any(value, schemas)

    def name(self, name: str) -> str:
        return name if self.values is None else self.values.mask(name, self.current.inline)

    def string(self, text: str) -> Any:
        if _looks_like_json(text):
            inner = self.redact_nested_json(text)
            if inner is not text:
                return inner
        if self.values is None:
            return text
        masked = self.values.mask(text, self.current.inline)
        if masked is not text and text in self.values.owners:
            return self.current.marker(self.values.owners[text])
        return masked

    def redact_nested_json(self, text: str) -> Any:
        """Redact a string that is JSON itself, by the names of its fields too."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if not isinstance(value, (dict, list, str)):
            return text
        if self.depth >= _MAX_NESTED_TEXTS:
            return self.hide(text)
        before = canonical(value)
        if self.values is None and self.current.values.in_json(before):
            self.values = self.current.values
        self.depth += 1
        after = canonical(self.any(value, ()))
        self.depth -= 1
        return text if after == before else after

    def hide(self, value: Any) -> Any:
        if _is_marker(value) or value in (HIDDEN, CHANGED):
            return value
        pending = [value]
        while pending:
            item = pending.pop()
            if isinstance(item, dict):
                pending.extend(item.values())
            elif isinstance(item, (list, tuple)):
                pending.extend(item)
            elif item is not None and not isinstance(item, bool) and len(str(item)) >= MIN_VALUE_CHARACTERS:
                self.hidden.append(str(item))
        return self.current.marker(value)


def _is_marker(value: Any) -> bool:
    """Return whether the value is a marker exactly as `Rules.marker` makes it, so that no caller can forge one."""
    if not isinstance(value, dict) or len(value) != 2 or type(value.get("length")) is not int:
        return False
    return _MARKER.fullmatch(str(value.get("$redacted"))) is not None


def _looks_like_json(text: str) -> bool:
    return len(text) > 6 and text[0] in '{["\n\t\r ' and '"' in text and text.lstrip()[:1] in ("{", "[", '"')


def _may_contain_secrets(value: Any, names: SecretNames) -> bool:
    """Return whether any name is on the list, or a string might be JSON with such names: a fast check before _Walk."""
    known = names.known
    pending = [value]
    while pending:
        item = pending.pop()
        if type(item) is dict:
            for name, inner in item.items():
                if known.get(name, None) or (name not in known and names(name)):
                    return True
                if type(inner) is str:
                    if inner and inner[0] in '{["\n\t\r ' and _looks_like_json(inner):
                        return True
                elif type(inner) is dict or type(inner) is list or type(inner) is tuple:
                    pending.append(inner)
        elif type(item) is list or type(item) is tuple:
            pending.extend(item)
        elif type(item) is str and _looks_like_json(item):
            return True
    return False


def redactor(schema: dict[str, Any] | None, mode: str = REDACTED) -> Redactor:
    """Return a redactor for arguments; `schema` is the tool's input schema."""
    return Redactor(schema, mode)


def result_redactor(output_schema: dict[str, Any] | None, mode: str = REDACTED) -> Redactor:
    """Return a redactor for results; `output_schema` applies to the member structuredContent."""
    return Redactor(output_schema, mode, member="structuredContent")


_IN_TEXT = re.compile(
    r"(?P<bearer>\b(?:bearer|basic)\s{1,4})(?P<credential>[A-Za-z0-9._~+/=-]{8,})"
    r"|(?P<scheme>(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,20}://)(?P<user>[^\s/@]{1,300})@"
    r"|(?P<before>[?&](?P<name>[a-z0-9_.\[\]-]{1,100})=)(?P<argument>[^&\s\"'<>]+)",
    re.IGNORECASE,
)
"""Secrets by their place in plain text: after Bearer, before the @ of an address, in a query."""


def redact_text(text: str, extra: Sequence[str] = ()) -> str:
    """Return a sentence or a log line without the configured values, tokens, and the values in `extra`."""
    current = redaction().rules
    if are_too_many(extra):
        return current.inline(text)
    if extra:
        text = SecretValues(extra).mask(text, current.inline)
        for secret in extra:
            text = _hide_beginnings(text, secret, current)
    text = current.values.mask(text, current.inline)
    if "://" in text or "=" in text or "earer" in text or "asic" in text or "BEARER" in text:

        def hide(match: re.Match[str]) -> str:
            if match["bearer"]:
                return match["bearer"] + current.inline(match["credential"])
            if match["scheme"]:
                return f"{match['scheme']}{current.inline(match['user'])}@"
            return match["before"] + current.inline(match["argument"]) if current.names(match["name"]) else match[0]

        text = _IN_TEXT.sub(hide, text)
    return text


def _hide_beginnings(text: str, secret: str, current: Rules) -> str:
    """Hide the first part of a long value, which a sentence may have truncated."""
    if len(secret) <= _MIN_REVEALING_CHARACTERS:
        return text
    start, mark, at = secret[:_MIN_REVEALING_CHARACTERS], current.inline(secret), 0
    while (at := text.find(start, at)) >= 0:
        length = _MIN_REVEALING_CHARACTERS
        while length < len(secret) and text[at + length : at + length + 1] == secret[length]:
            length += 1
        text = f"{text[:at]}{mark}{text[at + length :]}"
        at += len(mark)  # behind the mark, which may have the beginning of the secret itself
    return text


def redact_label(text: str) -> str:
    """Return `redact_text` of a name of a client, tool or request; cached, because these short texts recur."""
    current = redaction().rules
    if text.isdecimal() and not current.values.equals(text):
        return text  # ids of requests are all different: not worth caching
    labels = current.labels
    known = labels.get(text)
    if known is None:
        known = redact_text(text)
        if len(text) <= 200:
            if len(labels) >= _MAX_CACHED_LABELS:
                labels.clear()
            labels[text] = known
    return known


class LogFilter(logging.Filter):
    """Filter for a log handler that masks tokens and configured values in every line, including tracebacks."""

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            return True  # the handler reports a log record with wrong arguments
        mask = redaction().mask_logged
        masked = mask(redact_text(message))
        if masked != message:
            record.msg, record.args = masked, ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = mask(redact_text(record.exc_text))
        if record.stack_info:
            record.stack_info = mask(redact_text(record.stack_info))
        return True
