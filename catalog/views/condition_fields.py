"""The calls that a request for one tool is about: a control for each argument, and the conditions that they make.

The names of the controls hold the path of the argument, so that no value gets to another one when the tool changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

from django import forms
from django.forms import BoundField
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.canonical import dumps
from catalog.conditions import definitions, words
from catalog.conditions.arguments import MAX_TITLE_CHARACTERS, Argument, list_arguments
from catalog.conditions.definitions import ITEMS, MAX_CONDITIONS, MAX_TEXT_CHARACTERS, MAX_VALUES, Steps, path_text
from catalog.conditions.mistakes import ConditionError
from catalog.conditions.original import Original
from catalog.schemas import errors
from toolhub.invisible import show

MAX_SHOWN: Final = 30
"""Maximum arguments that the form has controls for."""
MAX_AREA_CHARACTERS: Final = 300_000
"""Maximum size of the values of one text, which is more than the values of a condition can have."""
VALUES, LOWER, UPPER, ABSENT = "is", "least", "most", "absent"
"""What stands before the path in the name of a control."""
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?")
_TWO_READINGS: Final = re.compile(r"-?[1-9][0-9]{0,2}\.[0-9]{3}")
"""A thousand in one language, and one in the next."""
_NUMBERS: Final = frozenset({"integer", "number"})


@dataclass(frozen=True, slots=True)
class Control:
    """The fields of one argument, by what they ask."""

    kind: str
    """choices | boolean | number | text"""
    name: str
    title: str
    fields: dict[str, BoundField]

    @property
    def values(self) -> BoundField | None:
        return self.fields.get(VALUES)

    @property
    def bounds(self) -> list[BoundField]:
        return [self.fields[part] for part in (LOWER, UPPER) if part in self.fields]

    @property
    def absent(self) -> BoundField | None:
        return self.fields.get(ABSENT)


class ConditionsForm(forms.Form):
    """Controls for the arguments of a tool; without a tool, none. `conditions` has the result of a valid form."""

    def __init__(self, schema: dict[str, Any] | None, data: Any = None) -> None:
        super().__init__(data)
        self._arguments: dict[Steps, tuple[str, Argument]] = {}
        self.is_complete = True
        if schema is not None:
            self._add_fields(schema)
        self.conditions: list[dict[str, Any]] = []

    def _add_fields(self, schema: dict[str, Any]) -> None:
        listing, original = list_arguments(schema), Original(schema)
        usable = [(kind, one) for one in listing.arguments if (kind := _kind_of(one))]
        self.is_complete = listing.is_complete and len(usable) <= MAX_SHOWN
        for number, (kind, one) in enumerate(usable[:MAX_SHOWN], 1):
            self._arguments[one.steps] = (kind, one)
            for part, field in _fields(kind, one, is_required=_is_required(original, one.steps)):
                field.widget.attrs["id"] = f"condition-{number}-{part}"
                self.fields[_field_name(part, one.steps)] = field

    @property
    def controls(self) -> list[Control]:
        """The arguments in their order."""
        found = []
        for steps, (kind, one) in self._arguments.items():
            names = {part: _field_name(part, steps) for part in (VALUES, LOWER, UPPER, ABSENT)}
            fields = {part: self[name] for part, name in names.items() if name in self.fields}
            name, title = (
                errors.cut(show(text), MAX_TITLE_CHARACTERS) for text in (words.argument_name(steps), one.title)
            )
            found.append(Control(kind, name, title if title != name else "", fields))
        return found

    @property
    def is_filled(self) -> bool:
        """Whether the form came back with something in it."""
        return self.is_bound and any(bool(self.data.get(name)) for name in self.data if _is_ours(name))

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        unknown = [name for name in self.data if _is_ours(name) and name not in self.fields and self.data.get(name)]
        if unknown and not self.fields:
            self.add_error(None, _("Values of arguments are possible for one tool only."))
        elif unknown:
            self.add_error(
                None, _("The arguments of the tool changed since you opened the page. Check the values and send again.")
            )
        for steps, (kind, _argument) in self._arguments.items():
            condition = self._read(steps, kind, cleaned)
            if condition is not None:
                self.conditions.append(condition)
        if len(self.conditions) > MAX_CONDITIONS:
            self.add_error(None, _("At most %(most)s arguments can have values.") % {"most": MAX_CONDITIONS})
        return cleaned

    def _read(self, steps: Steps, kind: str, cleaned: dict[str, Any]) -> dict[str, Any] | None:
        """Return the condition on one argument, or None where any value is meant or the fields have errors."""
        condition: dict[str, Any] = {"path": path_text(steps)}
        if kind == "number":
            place = _field_name(LOWER, steps)
            sides = (("minimum", cleaned.get(place)), ("maximum", cleaned.get(_field_name(UPPER, steps))))
            condition["op"] = "range"
            condition |= {keyword: bound for keyword, bound in sides if bound is not None}
        else:
            place = _field_name(VALUES, steps)
            values = cleaned.get(place) or []
            if len(values) == 1:
                condition |= {"op": "equals", "value": values[0]}
            elif values:
                condition |= {"op": "one_of", "values": values}
        if len(condition) <= (2 if kind == "number" else 1):
            return None
        if cleaned.get(_field_name(ABSENT, steps)):
            condition["optional"] = True
        try:
            (parsed,) = definitions.parse([condition])
        except ConditionError as error:
            error.number = 0  # the field is its place
            self.add_error(place, words.mistake(error))
            return None
        return definitions.as_json(parsed)


class ValuesField(forms.MultipleChoiceField):
    """Some of the values that the schema lists, each as JSON; cleaned to the values."""

    widget = forms.CheckboxSelectMultiple
    default_error_messages = {"invalid_choice": gettext_lazy("Choose from the values that are offered.")}

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = {json.dumps(value): value for value in values}  # no character of it is more than ASCII
        super().__init__(choices=[(text, _choice_label(value)) for text, value in self._values.items()], required=False)

    def clean(self, value: Any) -> list[Any]:
        return [self._values[text] for text in dict.fromkeys(super().clean(value))]


class YesNoField(forms.ChoiceField):
    """Cleaned to a list of one truth value, or an empty one for any."""

    default_error_messages = ValuesField.default_error_messages

    def __init__(self) -> None:
        choices = [("", gettext_lazy("any")), ("true", gettext_lazy("yes")), ("false", gettext_lazy("no"))]
        super().__init__(label=gettext_lazy("Value"), choices=choices, required=False)

    def clean(self, value: Any) -> list[bool]:
        chosen = super().clean(value)
        return [chosen == "true"] if chosen else []


class LinesField(forms.CharField):
    """Texts, one a line, without the space around them; cleaned to a list."""

    widget = forms.Textarea(attrs={"rows": 2, "spellcheck": "false"})

    def __init__(self) -> None:
        super().__init__(label=gettext_lazy("Values, one on each line"), max_length=MAX_AREA_CHARACTERS, required=False)

    def clean(self, value: Any) -> list[str]:
        lines = [line.strip() for line in super().clean(value).replace("\r\n", "\n").split("\n")]
        found = list(dict.fromkeys(filter(None, lines)))
        if len(found) > MAX_VALUES:
            raise forms.ValidationError(_("Enter at most %(most)s values.") % {"most": MAX_VALUES})
        return found


class BoundOfNumberField(forms.CharField):
    """A number as JSON writes it; cleaned to it, or to None. What could be read as another number is an error."""

    def __init__(self, label: Any, *, is_whole: bool) -> None:
        attrs = {"inputmode": "decimal", "autocomplete": "off"}
        super().__init__(label=label, max_length=40, required=False, widget=forms.TextInput(attrs=attrs))
        self._is_whole = is_whole

    def clean(self, value: Any) -> int | float | None:
        text = super().clean(value)
        if not text:
            return None
        if not _NUMBER.fullmatch(text):
            sentence = _("“%(text)s” is no number. Write digits only, with a point before decimals: 1500 or 1500.5.")
            raise forms.ValidationError(sentence % {"text": show(text)})
        if _TWO_READINGS.fullmatch(text):
            readings = {"text": text, "whole": text.replace(".", ""), "decimal": text + "0"}
            if self._is_whole:
                raise forms.ValidationError(_("“%(text)s” is no whole number. Write %(whole)s.") % readings)
            raise forms.ValidationError(
                _("“%(text)s” can be read as two numbers. Write %(whole)s or %(decimal)s.") % readings
            )
        exact = Decimal(text)
        if exact == exact.to_integral_value() and exact.adjusted() < 16:
            return int(exact)
        if self._is_whole and exact.adjusted() < 16:
            raise forms.ValidationError(_("Enter a whole number."))
        if Decimal(repr(float(text))) != exact:
            raise forms.ValidationError(_("This number has too many digits."))
        return float(text)


def _fields(kind: str, argument: Argument, *, is_required: bool) -> Iterator[tuple[str, forms.Field]]:
    match kind:
        case "choices":
            yield VALUES, ValuesField(argument.choices or ())
        case "boolean":
            yield VALUES, YesNoField()
        case "number":
            is_whole = "number" not in (argument.kinds or ())
            yield LOWER, BoundOfNumberField(gettext_lazy("at least"), is_whole=is_whole)
            yield UPPER, BoundOfNumberField(gettext_lazy("at most"), is_whole=is_whole)
        case _:
            yield VALUES, LinesField()
    if not is_required:
        yield ABSENT, forms.BooleanField(label=gettext_lazy("or left out"), required=False)


def _kind_of(argument: Argument) -> str:
    """Return the kind of control for an argument; empty for one that no control is for."""
    try:
        definitions.parse_path(path_text(argument.steps))
    except ValueError:
        return ""
    if argument.choices is not None:
        return "choices"
    kinds = (argument.kinds or frozenset()) - {"null"}
    if kinds and kinds <= _NUMBERS:
        return "number"
    return {frozenset({"string"}): "text", frozenset({"boolean"}): "boolean"}.get(kinds, "")


def _is_required(original: Original, steps: Steps) -> bool:
    """Return whether every call has the argument: where alternatives differ, it may be left out."""
    part: Any = original.schema
    for step in steps:
        part = original.resolve(part) if isinstance(part, dict) else {}
        if step is ITEMS:
            part = part.get("items")
        elif step in part.get("required", ()):
            part = (part.get("properties") or {}).get(step)
        else:
            return False
    return True


def _field_name(part: str, steps: Steps) -> str:
    return f"{part}:{quote(path_text(steps), errors='surrogatepass')}"


def _is_ours(name: str) -> bool:
    return name.partition(":")[0] in (VALUES, LOWER, UPPER, ABSENT) and ":" in name


def _choice_label(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if value is None:
        return _("no value")
    text = value if isinstance(value, str) and value.strip() else dumps(value)
    return errors.cut(show(text), MAX_TEXT_CHARACTERS)
