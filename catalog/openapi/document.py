"""A parser of OpenAPI documents: JSON or YAML, limited in size, depth and number of values, without executable tags.

YAML is read node by node into JSON values: no tags, no merge keys, no dates, and only `true` and `false` are booleans,
as in YAML 1.2 (the country code NO stays text). Aliases share their values, and count every time.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from django.utils.translation import gettext as _

from catalog.canonical import loads

MAX_BYTES = 5 * 1024 * 1024
MAX_DEPTH = 64
MAX_VALUES = 400_000
"""Maximum number of values, counted in the expanded document."""
CHARACTERS_PER_VALUE = 100
"""A text counts as one more value for each so many characters."""
MAX_ANCHORS = 10_000
"""Maximum number of YAML anchors, which no value limit counts before the whole document is read."""
NESTING_PROBLEM = "maximum nesting depth"
_PREFIX = "tag:yaml.org,2002:"
_KINDS = ("str", "null", "bool", "int", "float", "timestamp")
_CONSTANTS: dict[str, Any] = {"": None, "~": None}
_CONSTANTS |= {
    spelt: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for spelt in (word, word.title(), word.upper())
}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,300})")
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]{0,300})?(\.[0-9]{1,300})?([eE][-+]?[0-9]{1,3})?")
_VERSION = re.compile(r"3\.[01](\.[0-9]+)?([-+.].*)?")
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentError(Exception):
    """A sentence with the problem of the whole document."""


def parse(data: bytes) -> dict[str, Any]:
    """Return the document as plain JSON values. Raises DocumentError."""
    if len(data) > MAX_BYTES:
        raise DocumentError(_("The document is larger than %(most)d MB.") % {"most": MAX_BYTES // 1_048_576})
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentError(_("The document is not UTF-8 text.")) from None
    value = read(text)
    if not isinstance(value, dict):
        raise DocumentError(_("The document is not an object."))
    if "swagger" in value:
        raise DocumentError(_("This is a Swagger 2.0 document. Convert it to OpenAPI 3 first."))
    version = value.get("openapi")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise DocumentError(_('The document does not declare OpenAPI 3.0 or 3.1, as in "openapi": "3.1.0".'))
    if not isinstance(value.get("paths"), dict):
        raise DocumentError(_('The document has no "paths".'))
    return value


def read(text: str, max_values: int = MAX_VALUES) -> Any:
    """Return the value of JSON, or of YAML within the limits. Raises DocumentError."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = loads(text)
        except ValueError as error:
            # A YAML flow mapping starts like JSON too; an error in text that looks like JSON is reported as a JSON
            # error.
            if text.lstrip()[:2].strip() in ("{", "[") or '"' in text[:200]:
                raise DocumentError(_("The document is not valid JSON: %(why)s.") % {"why": error}) from None
            value = _yaml(text)
    else:
        value = _yaml(text)
    _check_size(value, max_values)
    return value


def _yaml(text: str) -> Any:
    """Parse YAML event by event: composing whole nodes recurses, in C without a limit."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_Loader):
            builder.take(event)
    except yaml.YAMLError as error:
        if NESTING_PROBLEM in str(error):
            # The parser of PyYAML 6.0.4 has a limit of its own, and reaches it before its first event.
            raise _too_deep() from None
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or _("it cannot be read")
        if mark is None:
            raise DocumentError(_("The document is not valid YAML: %(why)s.") % {"why": problem}) from None
        placed = _("The document is not valid YAML: %(why)s (line %(line)d, column %(column)d).")
        raise DocumentError(placed % {"why": problem, "line": mark.line + 1, "column": mark.column + 1}) from None
    except (RecursionError, ValueError):
        raise DocumentError(_("The document contains characters that YAML does not allow.")) from None
    return builder.root


def _too_deep() -> DocumentError:
    return DocumentError(_("The document is more than %(most)d levels deep.") % {"most": MAX_DEPTH})


class _Builder:
    """A builder of JSON values from YAML events; an alias gives the same value again."""

    def __init__(self) -> None:
        self.root: Any = None
        self._open: list[tuple[Any, str | None]] = []
        """Open lists and objects, with the name under which the next value goes."""
        self._anchors: dict[str, Any] = {}
        self._pending: list[str | None] = []
        self._documents = self._anchor_count = 0

    def take(self, event: Any) -> None:
        if getattr(event, "anchor", None) is not None and not isinstance(event, yaml.AliasEvent):
            self._anchor_count += 1
            if self._anchor_count > MAX_ANCHORS:
                raise DocumentError(_("The document has more than %(most)s anchors.") % {"most": f"{MAX_ANCHORS:,}"})
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise DocumentError(_("The file contains several YAML documents. Use a file with one."))
        elif isinstance(event, yaml.ScalarEvent):
            self._put(_scalar(event, names=self._wants_name()), event)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                nothing = _("The alias *%(name)s does not refer to anything complete before it")
                raise _error_at(event, nothing % {"name": str(event.anchor)[:100]})
            self._put(self._anchors[event.anchor], event, alias=True)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            self._begin(event)
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            made = self._open.pop()[0]
            anchor = self._pending.pop()
            if anchor:
                self._anchors[anchor] = made

    def _wants_name(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1][0], dict) and self._open[-1][1] is None

    def _begin(self, event: Any) -> None:
        tag = event.tag
        if tag is not None and tag not in (f"{_PREFIX}seq", f"{_PREFIX}map"):
            raise _error_at(event, _("The tag %(name)s is not supported") % {"name": str(event.tag)[:100]})
        if len(self._open) >= MAX_DEPTH:
            raise _too_deep()
        made: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._put(made, event, alias=True)
        self._open.append((made, None))
        self._pending.append(event.anchor)

    def _put(self, value: Any, event: Any, *, alias: bool = False) -> None:
        if not alias and event.anchor:
            self._anchors[event.anchor] = value
        if not self._open:
            self.root = value
            return
        holder, name = self._open[-1]
        if isinstance(holder, list):
            holder.append(value)
        elif name is not None:
            holder[name] = value
            self._open[-1] = (holder, None)
        elif not isinstance(value, str):
            raise _error_at(event, _("A name in the document is not text"))
        elif value == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
            raise _error_at(event, _("Merge keys (<<) are not supported"))
        elif value in holder:
            raise _error_at(event, _('The name "%(name)s" appears twice in one object') % {"name": value[:100]})
        else:
            self._open[-1] = (holder, value)


def _error_at(event: Any, sentence: str) -> DocumentError:
    placed = _("%(sentence)s (line %(line)d).")
    return DocumentError(placed % {"sentence": sentence, "line": event.start_mark.line + 1})


def parse_plain_scalar(text: str) -> Any:
    """Return the value of an unquoted YAML word."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and any(character.isdigit() for character in text):
        return float(text)
    return text


def _scalar(event: Any, *, names: bool) -> Any:
    text = event.value
    if event.tag is not None and event.tag not in ("!", *(f"{_PREFIX}{kind}" for kind in _KINDS)):
        raise _error_at(event, _("The tag %(name)s is not supported") % {"name": str(event.tag)[:100]})
    unquoted = event.implicit[0] if event.tag is None else event.tag not in ("!", f"{_PREFIX}str")
    if names or not unquoted:
        return text
    value = parse_plain_scalar(text)
    if value in (float("inf"), float("-inf")):
        raise _error_at(event, _("%(text)s is not a number that JSON can represent") % {"text": text[:50]})
    return value


def _check_size(value: Any, max_values: int) -> None:
    """Raise DocumentError for a document that is too deep, or has too many values when expanded.

    Shared parts are weighed once and counted each time.
    """
    weights: dict[int, int] = {}

    def weigh(part: Any, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise _too_deep()
        if isinstance(part, str):
            return 1 + len(part) // CHARACTERS_PER_VALUE  # an alias of a long text is copied with it
        if not isinstance(part, dict | list):
            return 1
        known = weights.get(id(part))
        if known is not None:
            return known
        total = 1 + sum(weigh(child, depth + 1) for child in (part.values() if isinstance(part, dict) else part))
        if total > max_values:
            many = _("The document has more than %(most)s values, including those of aliases.")
            raise DocumentError(many % {"most": f"{max_values:,}"})
        weights[id(part)] = total
        return total

    weigh(value, 0)
