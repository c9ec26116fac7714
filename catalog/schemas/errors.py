"""Problems of arguments: a code, the place and parameters; the sentence is made where it is shown.

The English sentence helps a model to correct itself. Neither it nor the parameters repeat a secret.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from django.utils.translation import gettext, gettext_noop

from audit.redaction.redactor import is_secret_name
from audit.types import Reason
from toolhub import contact
from toolhub.wire import json_pointer

MAX_SENTENCE_CHARACTERS = 400
MAX_PLACE_CHARACTERS = 150
MAX_LISTING_CHARACTERS = 200
MAX_VALUE_CHARACTERS = 60
MAX_DEPTH = 50
MAX_PROBLEMS = 10
"""Maximum number of problems that one answer names."""
MAX_MESSAGE_CHARACTERS = 300
"""Maximum size of a sentence that a schema has for its own rule (errorMessage)."""
PREFIX: Final = "arguments."
"""Prefix of the codes in reasons."""

MISSING, UNKNOWN, TYPE, ENUM, CONST, PATTERN = "missing", "unknown", "type", "enum", "const", "pattern"
NOTHING, OTHER = "nothing", "other"
TOO_LARGE, TOO_COMPLEX, UNUSABLE, BUSY = "too_large", "too_complex", "unusable_schema", "busy"
HIDDEN_LIMIT = "secret_limit"
MESSAGE = "message"
PREFIX_TEXT = "prefix"
NOT_ENUM, NOT_PATTERN, NOT_PREFIX, NOT_RANGE, NOT_LENGTH = (
    "not_enum", "not_pattern", "not_prefix", "not_range", "not_length",
)  # fmt: skip
PROMPT_OBJECT, PROMPT_UNKNOWN, PROMPT_TEXT, PROMPT_CHOICE, PROMPT_MISSING = (
    "prompt_object", "prompt_unknown", "prompt_text", "prompt_choice", "prompt_missing",
)  # fmt: skip

_EXPECTED: Final = {
    ENUM: gettext_noop("one of %(values)s"),
    CONST: "%(values)s",
    PATTERN: gettext_noop("text that matches %(pattern)s"),
    "minimum": gettext_noop("at least %(bound)s"),
    "maximum": gettext_noop("at most %(bound)s"),
    "exclusiveMinimum": gettext_noop("more than %(bound)s"),
    "exclusiveMaximum": gettext_noop("less than %(bound)s"),
    "minLength": gettext_noop("at least %(bound)s characters"),
    "maxLength": gettext_noop("at most %(bound)s characters"),
    "minItems": gettext_noop("at least %(bound)s items"),
    "maxItems": gettext_noop("at most %(bound)s items"),
    "minProperties": gettext_noop("at least %(bound)s members"),
    "maxProperties": gettext_noop("at most %(bound)s members"),
    "multipleOf": gettext_noop("a multiple of %(bound)s"),
    "uniqueItems": gettext_noop("items that differ"),
    NOTHING: gettext_noop("nothing here"),
    "anyOf": gettext_noop("something that fits any of the schema's alternatives"),
    "oneOf": gettext_noop("something that fits one of the schema's alternatives"),
    PREFIX_TEXT: gettext_noop("text that begins with %(prefix)s"),
    NOT_ENUM: gettext_noop("anything but %(values)s"),
    NOT_PATTERN: gettext_noop("text that does not match %(pattern)s"),
    NOT_PREFIX: gettext_noop("text that does not begin with %(prefix)s"),
    NOT_RANGE: gettext_noop("anything but a number from %(low)s to %(high)s"),
    NOT_LENGTH: gettext_noop("fewer than %(low)s or more than %(high)s characters or items"),
    OTHER: gettext_noop('something that satisfies "%(keyword)s" of the schema'),
}
"""The expected kind of value, by code."""
_WHOLE: Final = {
    TOO_LARGE: gettext_noop("The arguments are larger than %(limit)s bytes."),
    TOO_COMPLEX: gettext_noop("arguments: too large or too complicated to be checked in time; send less at once"),
    UNUSABLE: gettext_noop("arguments: the schema of this tool cannot be used; ask %(contact)s to fix it"),
    HIDDEN_LIMIT: gettext_noop(
        "The arguments contain too many secrets: at most %(most)s, with 20,000 characters. Send fewer in one call."
    ),
    BUSY: gettext_noop("All threads for tools are busy. Try again in a minute."),
    PROMPT_OBJECT: gettext_noop("arguments: must be an object."),
    PROMPT_UNKNOWN: gettext_noop("%(name)s: there is no such argument."),
    PROMPT_TEXT: gettext_noop("%(name)s: must be text."),
    PROMPT_CHOICE: gettext_noop("%(name)s: must be one of %(values)s."),
    PROMPT_MISSING: gettext_noop("%(name)s: is required."),
}
"""Complete sentences, by code."""
BOUNDS: Final = frozenset(code for code, text in _EXPECTED.items() if "%(bound)s" in text)
CODES: Final = frozenset({MISSING, UNKNOWN, TYPE, MESSAGE, *_EXPECTED, *_WHOLE})
WHOLE_CODES: Final = frozenset(_WHOLE)
"""Codes of problems of the arguments as a whole, which have no others beside them."""
_OF_RESULTS: Final = {
    TOO_COMPLEX: "too large or too complicated to be checked in time",
    UNUSABLE: "the output schema cannot be used; ask %(contact)s to fix it",
}

Translate = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One problem of the arguments."""

    path: tuple[str | int, ...]
    """Names of members and indexes of items, from the outermost; empty: the arguments as a whole."""
    code: str
    """One of CODES."""
    params: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """The parameters of the sentence: limits, listed values, and in `got` and `value` the actual value. JSON data."""
    others: tuple[SchemaProblem, ...] = ()
    """What else is wrong, at most MAX_PROBLEMS with this one."""

    def __str__(self) -> str:
        return english(self)

    @property
    def reason(self) -> Reason:
        """Return the form that the log keeps beside the sentence."""
        path = [part if isinstance(part, int) else cut(part, MAX_PLACE_CHARACTERS) for part in self.path[:MAX_DEPTH]]
        others = [{"code": one.code, **one.reason.params} for one in self.others]
        return Reason(PREFIX + self.code, {**self.params, "path": path, **({"others": others} if others else {})})

    @property
    def all(self) -> tuple[SchemaProblem, ...]:
        """Return every problem, this one first."""
        return replace(self, others=()), *self.others

    @classmethod
    def from_reason(cls, reason: Reason | None) -> SchemaProblem | None:
        """Return the problem behind a reason, None for another kind of reason."""
        if reason is None or not reason.code.startswith(PREFIX) or reason.code.removeprefix(PREFIX) not in CODES:
            return None
        params = dict(reason.params)
        path, others = params.pop("path", []), params.pop("others", [])
        if not isinstance(path, list) or not isinstance(others, list):
            return None
        read = [
            cls.from_reason(Reason(f"{PREFIX}{one.get('code')}", {k: v for k, v in one.items() if k != "code"}))
            for one in others
            if isinstance(one, dict)
        ]
        known = tuple(one for one in read if one is not None)
        return cls(tuple(path), reason.code.removeprefix(PREFIX), params, known)


def english(problem: SchemaProblem) -> str:
    """Return the sentence, or sentences, that clients get and the log keeps."""
    return _sentences(problem, str)


def english_of_result(problem: SchemaProblem) -> str:
    """Return the sentence for a result that does not match its output schema."""
    path = path_text(problem.path)
    rest = _OF_RESULTS.get(problem.code, "") % {"contact": contact.english()} or _rest(problem, str)
    return cut(f"{path}: {rest}" if path else f"result: {rest}")


def translate(problem: SchemaProblem) -> str:
    """Return the sentence, or sentences, in the language of the page."""
    return _sentences(problem, gettext)


def as_data(problem: SchemaProblem) -> list[dict[str, Any]]:
    """Return every problem as data for programs: JSON pointer, code, and in English what was expected and got."""
    found = []
    for one in problem.all:
        steps = (json_pointer.escape(str(part)) for part in one.path[:MAX_DEPTH])
        data = {"path": cut("".join(f"/{step}" for step in steps), 2 * MAX_PLACE_CHARACTERS), "code": one.code}
        if expected := translate_expected(one.code, one.params):
            data["expected"] = expected
        if "got" in one.params:
            data["got"] = _format_value(one.params, str)
        if one.code in (MESSAGE, UNKNOWN, *_WHOLE):
            data["message"] = _rest(one, str)
        found.append(data)
    return found


def translate_rest(problem: SchemaProblem) -> str:
    """Return the sentence in the language of the page without the place, which a form's field shows already."""
    return cut(_rest(problem, gettext))


def translate_expected(code: str, params: Mapping[str, Any]) -> str:
    """Return what was expected in the language of the page; empty for a code that expects no value."""
    return expected_text(code, params, gettext) if code == TYPE or code in _EXPECTED else ""


def wrong_value(path: Sequence[str | int], expected: Expected, value: Any, *, secret: bool) -> SchemaProblem:
    """Return the problem of a value: `argument "a": expected integer, got string "x"`."""
    code, params = expected
    secret = secret or any(isinstance(part, str) and is_secret_name(part) for part in path)
    return SchemaProblem(tuple(path), code, {**params, **({"got": kind(value)} if secret else _describe_value(value))})


def missing_member(path: Sequence[str | int], name: str) -> SchemaProblem:
    return SchemaProblem((*path, name), MISSING)


def unknown_member(path: Sequence[str | int], name: str, known: Iterable[str]) -> SchemaProblem:
    return SchemaProblem((*path, name), UNKNOWN, {"values": format_listing(known)})


Expected = tuple[str, dict[str, Any]]
"""A code with its parameters, without the actual value."""


def expected_of(keyword: str, value: Any) -> Expected:
    """Return the expectation of a schema keyword."""
    match keyword:
        case "type":
            return TYPE, {"types": [str(name) for name in value] if isinstance(value, list) else [str(value)]}
        case "enum":
            return ENUM, {"values": format_listing(value)}
        case "const":
            return CONST, {"values": format_listing([value])}
        case "pattern":
            return PATTERN, {"pattern": cut(str(value), 150 - len("text that matches "))}
        case "uniqueItems" | "anyOf" | "oneOf":
            return keyword, {}
        case "None":
            return NOTHING, {}
    if keyword in _EXPECTED:
        return keyword, {"bound": str(value)}
    return OTHER, {"keyword": cut(keyword, 50)}


def expected_prefix(text: str) -> Expected:
    """Return the expectation that a text begins with this one."""
    return PREFIX_TEXT, {"prefix": cut(json.dumps(text, ensure_ascii=False), 150)}


def unwanted(code: str, operand: Any) -> Expected:
    """Return the opposite of an expectation: of "enum", "pattern", "prefix", or the bounds of "range" or "length"."""
    if code in ("range", "length"):
        low = operand.get("minimum", operand.get("exclusiveMinimum"))
        high = operand.get("maximum", operand.get("exclusiveMaximum"))
        return f"not_{code}", {"low": str(low), "high": str(high)}
    return f"not_{code}", (expected_prefix(operand) if code == PREFIX_TEXT else expected_of(code, operand))[1]


def kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def is_secret(schema: Any) -> bool:
    return isinstance(schema, dict) and (schema.get("writeOnly") is True or schema.get("format") == "password")


def holds_secret(value: Any) -> bool:
    """Return whether a schema has a secret anywhere in it."""
    if isinstance(value, dict):
        return is_secret(value) or any(holds_secret(part) for part in value.values())
    return isinstance(value, list) and any(holds_secret(part) for part in value)


def path_text(path: Sequence[str | int], *, any_item: bool = False) -> str:
    """Return the path as text: `a.b[0]`, or `a.b[]` for any item of the list."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += "[]" if any_item else f"[{part}]"
        else:
            text += f".{part}" if text else part
    return cut(text, MAX_PLACE_CHARACTERS)


def cut(text: str, max_characters: int = MAX_SENTENCE_CHARACTERS) -> str:
    return text if len(text) <= max_characters else text[: max_characters - 3] + "..."


def format_listing(values: Iterable[Any]) -> str:
    """Return the values as a text of limited length: there may be a hundred thousand."""
    return cut(
        ", ".join(json.dumps(value, ensure_ascii=False) for value in islice(values, 100)), MAX_LISTING_CHARACTERS
    )


def _describe_value(value: Any) -> dict[str, Any]:
    """Return the kind of a value, with the value when it is short and simple."""
    name = kind(value)
    if name in {"array", "object", "null"}:
        return {"got": name}
    if name == "string" and len(value) > MAX_VALUE_CHARACTERS:
        text = json.dumps(value[:MAX_VALUE_CHARACTERS], ensure_ascii=False)
        return {"got": name, "value": text, "characters": len(value)}
    if name == "integer" and abs(value) >= 10**40:
        return {"got": name, "value": None}
    return {"got": name, "value": json.dumps(value, ensure_ascii=False)}


def _sentences(problem: SchemaProblem, say: Translate) -> str:
    if not problem.others:
        return _sentence(problem, say)
    listed = [f"({number}) {_sentence(one, say)}" for number, one in enumerate(problem.all, 1)]
    count = say(gettext_noop("%(number)s problems")) % {"number": len(listed)}
    return say(gettext_noop("%(place)s: %(problem)s")) % {"place": count, "problem": "; ".join(listed)}


def _sentence(problem: SchemaProblem, say: Translate) -> str:
    if problem.code in _WHOLE:
        return cut(_rest(problem, say))
    path = path_text(problem.path)
    place = say(gettext_noop('argument "%(path)s"')) % {"path": path} if path else say(gettext_noop("arguments"))
    return cut(say(gettext_noop("%(place)s: %(problem)s")) % {"place": place, "problem": _rest(problem, say)})


def _rest(problem: SchemaProblem, say: Translate) -> str:
    code, params = problem.code, problem.params
    if code in _WHOLE:
        return say(_WHOLE[code]) % {"name": path_text(problem.path), "contact": contact.describe(say), **params}
    if code == MISSING:
        return say(gettext_noop("is required"))
    if code == MESSAGE:
        return str(params["message"])
    if code == UNKNOWN:
        if not params["values"]:
            return say(gettext_noop("is not known; expected none"))
        return say(gettext_noop("is not known; expected one of %(values)s")) % params
    values = {"expected": expected_text(code, params, say), "got": _format_value(params, say)}
    return say(gettext_noop("expected %(expected)s, got %(got)s")) % values


def expected_text(code: str, params: Mapping[str, Any], say: Translate) -> str:
    """Return what was expected, for a code that expects a value."""
    if code == TYPE:
        text: str
        text, *others = params["types"]
        for other in others:
            text = say(gettext_noop("%(first)s or %(second)s")) % {"first": text, "second": other}
        return text
    return (say(_EXPECTED[code]) if code != CONST else _EXPECTED[code]) % params


def _format_value(params: Mapping[str, Any], say: Translate) -> str:
    name = params["got"]
    if "value" not in params:
        return str(name)
    if params["value"] is None:
        return say(gettext_noop("%(kind)s of many digits")) % {"kind": name}
    values = {"kind": name, "value": params["value"], "number": params.get("characters")}
    if "characters" in params:
        return say(gettext_noop("%(kind)s %(value)s... of %(number)s characters")) % values
    return f"{name} {params['value']}"
