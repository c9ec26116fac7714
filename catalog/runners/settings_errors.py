"""Pydantic's errors about settings as sentences in the language of the page; in English, pydantic's own messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext, ngettext, override
from django.utils.translation import gettext_noop as _
from pydantic import ValidationError

MAX_ERRORS = 5
SENTENCES = {
    "missing": _("Field required"),
    "extra_forbidden": _("Extra inputs are not permitted"),
    "string_type": _("Input should be a valid string"),
    "string_pattern_mismatch": _("String should match pattern '%(pattern)s'"),
    "int_type": _("Input should be a valid integer"),
    "int_parsing": _("Input should be a valid integer, unable to parse string as an integer"),
    "int_from_float": _("Input should be a valid integer, got a number with a fractional part"),
    "float_type": _("Input should be a valid number"),
    "float_parsing": _("Input should be a valid number, unable to parse string as a number"),
    "finite_number": _("Input should be a finite number"),
    "bool_type": _("Input should be a valid boolean"),
    "bool_parsing": _("Input should be a valid boolean, unable to interpret input"),
    "dict_type": _("Input should be a valid dictionary"),
    "list_type": _("Input should be a valid list"),
    "tuple_type": _("Input should be a valid tuple"),
    "model_type": _("Input should be a valid dictionary or instance of %(class_name)s"),
    "literal_error": _("Input should be %(expected)s"),
    "greater_than": _("Input should be greater than %(gt)s"),
    "greater_than_equal": _("Input should be greater than or equal to %(ge)s"),
    "less_than": _("Input should be less than %(lt)s"),
    "less_than_equal": _("Input should be less than or equal to %(le)s"),
}
"""Messages by the type of the error; any other type keeps pydantic's message."""


class SettingsProblem(ValueError):
    """A problem with one setting: a text of the translation catalogues and its parameters.

    The message is in English; `localized_message` is in the language of the page. A parameter may be another problem,
    or an error of `toolhub.egress`, whose message is then translated with it.
    """

    def __init__(self, sentence: str, **params: object) -> None:
        super().__init__(sentence, params)
        self._sentence, self._params = sentence, params

    def __str__(self) -> str:
        with override("en"):
            return self.localized_message

    @property
    def localized_message(self) -> str:
        """Return the problem in the language of the page."""
        params = {name: getattr(value, "localized_message", value) for name, value in self._params.items()}
        return gettext(self._sentence) % params if params else gettext(self._sentence)


def format_errors(error: ValidationError) -> str:
    """Return a sentence with the first few errors, each with its field."""
    text = ""
    for entry in error.errors(include_url=False, include_input=False)[:MAX_ERRORS]:
        found, where = translate_error(entry), ".".join(str(part) for part in entry["loc"])
        if where:
            found = gettext("%(what)s: %(why)s") % {"what": where, "why": found}
        text = gettext("%(first)s; %(next)s") % {"first": text, "next": found} if text else found
    return text


def translate_error(entry: Mapping[str, Any]) -> str:
    """Return the message of one of pydantic's errors."""
    context = {name: _shown(name, value) for name, value in entry.get("ctx", {}).items()}
    localized: str | None = getattr(context.get("error"), "localized_message", None)
    if localized is not None:
        return localized
    own = str(entry["msg"]).removeprefix("Value error, ")
    original = SENTENCES.get(entry["type"])
    if original is not None:
        translated = gettext(original)
        return own if translated == original else translated % context
    counted = _counted(str(entry["type"]), context)
    return own if counted is None else counted % context


def _counted(kind: str, context: Mapping[str, Any]) -> str | None:
    match kind:
        case "string_too_short":
            return ngettext(
                "String should have at least %(min_length)d character",
                "String should have at least %(min_length)d characters",
                context["min_length"],
            )
        case "string_too_long":
            return ngettext(
                "String should have at most %(max_length)d character",
                "String should have at most %(max_length)d characters",
                context["max_length"],
            )
        case "too_long" if context["field_type"] == "List":
            return ngettext(
                "List should have at most %(max_length)d item after validation, not %(actual_length)s",
                "List should have at most %(max_length)d items after validation, not %(actual_length)s",
                context["max_length"],
            )
    return None


def _shown(name: str, value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value.replace(" or ", ", ") if name == "expected" else value
