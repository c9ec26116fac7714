"""Conditions in words: what one expects, for pages and for clients, and what is wrong with a stored one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from django.utils.dates import WEEKDAYS_ABBR
from django.utils.translation import gettext, gettext_noop

from catalog.conditions.definitions import ITEMS, Condition, Steps, path_text
from catalog.conditions.mistakes import FlagError, Mistake, WindowError
from catalog.conditions.windows import DAYS, MINUTES_PER_DAY, Window
from catalog.schemas import errors

Translate = Callable[[str], str]

_SENTENCES: Final = {
    "equals": gettext_noop("%(argument)s is %(value)s"),
    "one_of": gettext_noop("%(argument)s is one of %(values)s"),
    "not_one_of": gettext_noop("%(argument)s is none of %(values)s"),
    "pattern": gettext_noop("%(argument)s matches the pattern %(text)s"),
    "prefix": gettext_noop("%(argument)s begins with %(value)s"),
    "range": gettext_noop("%(argument)s is %(bounds)s"),
    "length": gettext_noop("%(argument)s has %(bounds)s characters or items"),
    "belongs_to": gettext_noop("%(argument)s is in the list “%(text)s”"),
    "fixed": gettext_noop("%(argument)s is always %(value)s"),
    "only": gettext_noop("no other arguments than %(names)s"),
}
_NO_ARGUMENTS: Final = gettext_noop("no arguments")
_MISTAKES: Final = {
    "not_list": gettext_noop("Conditions are a list of objects, such as %(example)s."),
    "too_many": gettext_noop("A grant can have at most %(most)s conditions."),
    "not_condition": gettext_noop('A condition is an object with the texts "path" and "op", such as %(example)s.'),
    "path": gettext_noop(
        'The path %(path)s is not the place of an argument. Write it like "/region" or "/lines/*/amount", at most '
        "%(most)s steps."
    ),
    "operator": gettext_noop('There is no operator "%(name)s". The operators are %(known)s.'),
    "member": gettext_noop('A condition with the operator "%(op)s" has no "%(name)s". Remove it.'),
    "optional": gettext_noop('"optional" must be true or false.'),
    "fixed_optional": gettext_noop("A fixed value cannot be left out. Remove “optional”."),
    "fixed_items": gettext_noop("A fixed value belongs to an argument with a name. Name one of the items' members."),
    "only_path": gettext_noop('The operator "only" is about all arguments. Leave its "path" empty.'),
    "only_optional": gettext_noop('The operator "only" is about all arguments. Remove "optional".'),
    "only_twice": gettext_noop('A grant can have one condition with the operator "only". Put all names in one.'),
    "only_fixed": gettext_noop(
        "A grant with fixed values cannot name the only arguments as well. Use “equals” instead of “fixed”."
    ),
    "only_denied": gettext_noop("A grant that denies cannot name the only arguments. Use a grant that allows."),
    "only_asked": gettext_noop("A rule that asks cannot name the only arguments. Remove this condition."),
    "names": gettext_noop(
        '"names" must be a list of at most %(most)s different names of 1 to %(characters)s characters.'
    ),
    "deep_value": gettext_noop("A value can have at most %(most)s levels of lists and objects."),
    "long_value": gettext_noop("A value can have at most %(most)s characters."),
    "no_operand": gettext_noop('"%(name)s" is missing.'),
    "values": gettext_noop('"values" must be a list of 1 to %(most)s values.'),
    "text": gettext_noop('"%(name)s" must be a text of 1 to %(most)s characters.'),
    "scalar": gettext_noop("A value must be a text, a number, true, false or null."),
    "large_number": gettext_noop("A number can be at most %(most)s."),
    "pattern": gettext_noop("The pattern cannot be used: %(why)s."),
    "costly_pattern": gettext_noop(
        "The pattern %(pattern)s nests unlimited repetitions, which can block a client for hours. Repeat once."
    ),
    "bound": gettext_noop("A bound must be a number of at most %(most)s; of a length, a whole one."),
    "bounds": gettext_noop("Give one lower bound, one upper bound, or one of each."),
    "length": gettext_noop("A length starts at 0, and needs a bound that excludes something."),
    "empty_range": gettext_noop("No number is between these bounds. Exchange them."),
    "overlap": gettext_noop("%(path)s has a fixed value, so that %(other)s cannot have another condition. Remove one."),
    "twice": gettext_noop("The condition on %(path)s is there twice. Remove one."),
    "no_argument": gettext_noop("There is no argument %(path)s."),
    "denied": gettext_noop(
        "Grant %(grant)s denies it also when %(path)s is left out, and the tool has no such argument."
    ),
    "impossible": gettext_noop("No arguments of the tool satisfy the conditions."),
    "no_place": gettext_noop("The tool has no argument %(path)s: there is nothing at %(at)s that could be filled in."),
    "not_plain": gettext_noop(
        'The argument %(path)s cannot have a fixed value: its object uses "%(keyword)s". Only arguments that the '
        "schema names one by one can."
    ),
    "no_list": gettext_noop("There is no value list “%(name)s”. Create it first, or choose another one."),
    "secret": gettext_noop("The argument %(path)s is secret, so that no condition can name its values."),
    "no_fixed": gettext_noop("The argument %(path)s is part of an address: clients always send it. Use “equals”."),
    "fixed_denied": gettext_noop("A grant that denies cannot fix a value. Use “equals”."),
    "first_time_items": gettext_noop("%(path)s names every item of a list. Name one argument."),
    "fixed_asked": gettext_noop("A rule that asks cannot fix a value. Use “equals”."),
    "gone": gettext_noop("Grant %(grant)s denies calls by the argument %(path)s, and the definition has none."),
    "denied_secret": gettext_noop("Grant %(grant)s denies calls by the secret argument %(path)s."),
    "wrong_fixed": gettext_noop("%(value)s is no value that the tool accepts for %(path)s."),
}
EXAMPLE: Final = '{"path": "/region", "op": "equals", "value": "emea"}'
_WINDOW_MISTAKES: Final = {
    "not_list": gettext_noop("Time windows are a list of objects, such as %(example)s."),
    "too_many": gettext_noop("A grant can have at most %(most)s time windows."),
    "not_window": gettext_noop(
        'A time window is an object with exactly "days", "from", "to" and "zone", such as %(example)s.'
    ),
    "days": gettext_noop('"days" must be a list of different days of these: %(known)s.'),
    "time": gettext_noop('"%(value)s" is no time at which a window can start or end. Write it like 09:00.'),
    "same_time": gettext_noop("The window starts and ends at the same time. For a whole day, write 00:00 and 24:00."),
    "zone": gettext_noop('There is no time zone "%(name)s". Write it like Europe/Berlin or UTC.'),
}
WINDOW_EXAMPLE: Final = '{"days": ["mon", "tue"], "from": "09:00", "to": "17:30", "zone": "Europe/Berlin"}'
_FLAG_MISTAKES: Final = {
    "not_list": gettext_noop("Enter names of flags, separated by commas."),
    "too_many": gettext_noop("A grant can have at most %(most)s flags."),
    "name": gettext_noop("A flag's name has 1 to 100 letters A-Z and a-z, digits, underscores, hyphens and dots."),
    "no_flag": gettext_noop("There is no flag “%(name)s”. Create it first, or choose another one."),
}


def mistake(error: Mistake) -> str:
    """Return what is wrong and what to do, in the language of the page."""
    params = {name: _readable(value) for name, value in error.params.items()}
    sentences, example, numbered = _MISTAKES, EXAMPLE, gettext_noop("Condition %(number)s: %(sentence)s")
    if isinstance(error, WindowError):
        sentences, example = _WINDOW_MISTAKES, WINDOW_EXAMPLE
        numbered = gettext_noop("Time window %(number)s: %(sentence)s")
    elif isinstance(error, FlagError):
        sentences, example, numbered = _FLAG_MISTAKES, "", gettext_noop("Flag %(number)s: %(sentence)s")
    sentence = gettext(sentences[error.code]) % {"example": example, **params}
    return gettext(numbered) % {"number": error.number, "sentence": sentence} if error.number else sentence


def english(condition: Condition) -> str:
    """Return what the condition expects, as clients read it and the log keeps it."""
    return _describe(condition, str)


def translate(condition: Condition) -> str:
    """Return what the condition expects, in the language of the page."""
    return _describe(condition, gettext)


def translate_window(window: Window) -> str:
    """Return when a time window is open, in the language of the page."""
    days = [str(WEEKDAYS_ABBR[day]) for day in sorted(window.days)]
    return gettext("%(days)s from %(opens)s to %(closes)s (%(zone)s)") % {
        "days": gettext("every day") if len(days) == len(DAYS) else ", ".join(days),
        "opens": _clock(window.opens),
        "closes": _clock(window.closes if window.closes <= MINUTES_PER_DAY else window.closes - MINUTES_PER_DAY),
        "zone": window.zone,
    }


def argument_name(steps: Steps) -> str:
    """Return the place of an argument as people read it: `lines[].amount`."""
    return errors.path_text([0 if step is ITEMS else step for step in steps], any_item=True)


def join(parts: Sequence[str], say: Translate = gettext) -> str:
    """Return several conditions as one text."""
    text = parts[0] if parts else ""
    for part in parts[1:]:
        text = say(gettext_noop("%(first)s and %(second)s")) % {"first": text, "second": part}
    return text


def _describe(condition: Condition, say: Translate) -> str:
    value = condition.value
    params: dict[str, Any] = {"argument": argument_name(condition.steps)}
    match condition.operator:
        case "equals" | "fixed" | "prefix":
            params["value"] = errors.cut(json.dumps(value, ensure_ascii=False), errors.MAX_LISTING_CHARACTERS)
        case "one_of" | "not_one_of":
            params["values"] = errors.format_listing(value)
        case "only" if not value:
            return say(_NO_ARGUMENTS)
        case "only":
            params["names"] = errors.cut(", ".join(value), errors.MAX_LISTING_CHARACTERS)
        case "range" | "length":
            params["bounds"] = _bounds(value, say)
        case _:
            params["text"] = value
    text = say(_SENTENCES[condition.operator]) % params
    return say(gettext_noop("%(condition)s, or is left out")) % {"condition": text} if condition.is_optional else text


def _bounds(bounds: Mapping[str, Any], say: Translate) -> str:
    return join([errors.expected_text(name, {"bound": str(bound)}, say) for name, bound in bounds.items()], say)


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _readable(value: object) -> object:
    return path_text(value) if isinstance(value, tuple) else value
