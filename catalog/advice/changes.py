"""Changes of a definition that follow from advice: a link carries one to the editor, which shows it and saves nothing.

A link is signed, so that nobody can make one that puts a text of their choice into a form. What it carries from a
client's call is a name only; everything else is read from the definition when the link is followed.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.core import signing
from django.utils.translation import gettext as _
from django.utils.translation import override

from catalog.advice import words
from catalog.schemas.errors import path_text

MAX_TIMEOUT_SECONDS = 600.0
MAX_LISTED_CHOICES = 20
_SALT = "catalog.advice.changes"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
"""Names from calls that a definition may repeat: no client can bring a sentence into it."""

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Change:
    code: str
    """One of CODES."""
    place: Place = ()
    """The parameter: names of members, and a number for any item of a list; empty for the tool as a whole."""
    name: str = ""
    """A name that clients sent instead of the right one."""

    @property
    def is_possible(self) -> bool:
        return self.code in CODES and (not self.name or _NAME.fullmatch(self.name) is not None)

    def sign(self) -> str:
        return signing.dumps([self.code, list(self.place), self.name], salt=_SALT, compress=True)

    @classmethod
    def read(cls, signed: str) -> Change | None:
        """Return the change of a link; None when this installation did not sign it."""
        try:
            code, place, name = signing.loads(signed, salt=_SALT)
        except (signing.BadSignature, ValueError, TypeError):
            return None
        found = cls(code, tuple(place), name)
        return found if found.is_possible else None


@dataclass(frozen=True, slots=True)
class Applied:
    """What a change did to a definition in memory."""

    field: str
    """The field of the tool that changed."""
    parameter: str
    """The parameter whose description changed; empty for the tool's own fields."""
    text: str
    """The sentence that was added, or the new value."""


def apply(change: Change, row: Any) -> Applied | None:
    """Change the definition of a tool in memory; return None when there is nothing to change or it does not fit.

    Sentences are added in the language of the description that they join.
    """
    if change.code == "longer_timeout":
        longer = min(MAX_TIMEOUT_SECONDS, row.timeout * 2)
        if longer <= row.timeout:
            return None
        row.timeout = longer
        return Applied("timeout", "", f"{longer:g}")
    if not change.place:
        with override(_language(row.description)):
            sentence = _TOOL_TEXTS[change.code](change, row) if change.code in _TOOL_TEXTS else ""
        if not sentence or sentence in row.description:
            return None
        row.description = _join(row.description, sentence)
        return Applied("description", "", sentence)
    schema = copy.deepcopy(row.input_schema) if isinstance(row.input_schema, dict) else {}
    part = _find(schema, change.place)
    if part is None or change.code not in _PARAMETER_TEXTS:
        return None
    before = str(part.get("description") or "")
    with override(_language(before or row.description)):
        sentence = _PARAMETER_TEXTS[change.code](change, part)
    if not sentence or sentence in before:
        return None
    part["description"] = _join(before, sentence)
    row.input_schema = schema
    return Applied("input_schema", path_text(change.place, any_item=True), sentence)


def _language(text: str) -> str:
    return "zh-hans" if words.has_cjk(text) else "en"


def _join(text: str, sentence: str) -> str:
    text = text.rstrip()
    if not text:
        return sentence
    if words.has_cjk(sentence):
        return f"{text}{'' if text[-1] in '。！？' else '。'}{sentence}"
    return f"{text}{'' if text[-1] in '.!?' else '.'} {sentence}"


def _find(schema: dict[str, Any], place: Sequence[str | int]) -> dict[str, Any] | None:
    """Return the schema of a parameter; None behind a reference, whose target may describe other parameters too."""
    part = schema
    for step in place:
        inner = part.get("items") if isinstance(step, int) else (part.get("properties") or {}).get(step)
        if not isinstance(inner, dict) or "$ref" in inner:
            return None
        part = inner
    return part


def _other_name(change: Change, part: dict[str, Any]) -> str:
    return _('Always called "%(right)s", never "%(wrong)s".') % {"right": change.place[-1], "wrong": change.name}


def _choices(change: Change, part: dict[str, Any]) -> str:
    listed = part.get("enum")
    if not isinstance(listed, list) or len(listed) > MAX_LISTED_CHOICES:
        return ""
    values = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in listed]
    return _("Exactly one of: %(choices)s.") % {"choices": ", ".join(values)}


def _bounds(change: Change, part: dict[str, Any]) -> str:
    for keys, text in (
        (("minimum", "maximum"), (_("From %(low)s to %(high)s."), _("At least %(low)s."), _("At most %(high)s."))),
        (
            ("minLength", "maxLength"),
            (
                _("%(low)s to %(high)s characters."),
                _("At least %(low)s characters."),
                _("At most %(high)s characters."),
            ),
        ),
        (
            ("minItems", "maxItems"),
            (_("%(low)s to %(high)s items."), _("At least %(low)s items."), _("At most %(high)s items.")),
        ),
    ):
        low, high = (part.get(key) for key in keys)
        if low is None and high is None:
            continue
        chosen = text[0] if low is not None and high is not None else text[1] if high is None else text[2]
        return chosen % {"low": low, "high": high}
    return ""


def _format(change: Change, part: dict[str, Any]) -> str:
    examples = part.get("examples")
    if isinstance(examples, list) and examples and isinstance(examples[0], str):
        return _("For example: %(example)s") % {"example": examples[0]}
    form = part.get("pattern") or part.get("format")
    return _("Format: %(format)s") % {"format": form} if isinstance(form, str) else ""


def _type(change: Change, part: dict[str, Any]) -> str:
    texts = {
        "string": _("A text, in quotation marks."),
        "integer": _("A whole number without quotation marks, such as 5."),
        "number": _("A number without quotation marks, such as 2.5."),
        "boolean": _("true or false, without quotation marks."),
        "array": _("A list, in square brackets, also for one value."),
        "object": _("An object, in braces, not a text."),
    }
    kind = part.get("type")
    return texts.get(kind, "") if isinstance(kind, str) else ""


def _required(change: Change, part: dict[str, Any]) -> str:
    return _("Required in every call.")


def _no_repeat(change: Change, row: Any) -> str:
    return _("The same arguments give the same result for minutes: do not repeat a call.")


def _use_this(change: Change, row: Any) -> str:
    return _("Use this tool instead of %(wrong)s, which does not exist.") % {"wrong": change.name}


_PARAMETER_TEXTS: dict[str, Callable[[Change, dict[str, Any]], str]] = {
    "other_name": _other_name,
    "choices": _choices,
    "bounds": _bounds,
    "format": _format,
    "type": _type,
    "required": _required,
}
_TOOL_TEXTS: dict[str, Callable[[Change, Any], str]] = {"no_repeat": _no_repeat, "use_this": _use_this}
CODES = frozenset({*_PARAMETER_TEXTS, *_TOOL_TEXTS, "longer_timeout"})
