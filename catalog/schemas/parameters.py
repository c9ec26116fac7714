"""An input schema as readable rows: name, type, whether required, description, choices, default.

Pure. Parts that a row cannot express (oneOf, patterns, conditions) stay in the schema, which the page can show as it
is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from toolhub.wire import hints, json_pointer

MAX_ROWS, MAX_DEPTH, MAX_CHOICES = 100, 3, 40

TYPES: dict[str, Promise] = {
    "string": gettext_lazy("text"),
    "integer": gettext_lazy("whole number"),
    "number": gettext_lazy("number"),
    "boolean": gettext_lazy("yes or no"),
    "object": gettext_lazy("group"),
    "array": gettext_lazy("list"),
    "null": gettext_lazy("nothing"),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    """The name with its parents, such as `filter.since`; `items[].id` is inside a list."""
    type: str
    required: bool
    description: str
    choices: tuple[str, ...]
    default: str
    """As JSON; "" when there is none."""
    bounds: str


def list_parameters(schema: dict[str, Any]) -> list[Parameter]:
    found: list[Parameter] = []
    for parameter in _walk(schema, "", 0, schema):
        if len(found) == MAX_ROWS:
            break
        found.append(parameter)
    return found


def list_arguments(schema: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Parameter]]:
    """Yield the schema of each argument, with local references resolved, and its row: for forms."""
    properties = schema.get("properties")
    required = schema.get("required")
    for name, written in properties.items() if isinstance(properties, dict) else ():
        part = resolve_reference(written, schema)
        yield part, _row(name, part, isinstance(required, list) and name in required)


def _walk(schema: Any, prefix: str, depth: int, root: Any) -> Iterator[Parameter]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return
    required = schema.get("required")
    required = required if isinstance(required, list) else []
    for name, written in properties.items():
        part = resolve_reference(written, root)
        path = f"{prefix}{name}"
        yield _row(path, part, name in required)
        if depth + 1 < MAX_DEPTH:
            yield from _walk(part, f"{path}.", depth + 1, root)
            yield from _walk(resolve_reference(part.get("items"), root), f"{path}[].", depth + 1, root)


def resolve_reference(part: Any, root: Any) -> dict[str, Any]:
    """Return the schema itself, or the target of a local reference like `#/$defs/Point`."""
    for _hop in range(8):
        if not isinstance(part, dict):
            return {}
        reference = part.get("$ref")
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return part
        beside = {key: value for key, value in part.items() if key != "$ref"}
        target = root
        for step in reference[2:].split("/") if reference != "#" else ():
            target = target.get(json_pointer.unescape(step)) if isinstance(target, dict) else None
        part = {**target, **beside} if isinstance(target, dict) else {}
    return {}


def _row(name: str, part: dict[str, Any], required: bool) -> Parameter:
    listed = part.get("enum")
    if not isinstance(listed, list):
        listed = [part["const"]] if "const" in part else []
    choices = [value if isinstance(value, str) else _json(value) for value in listed[:MAX_CHOICES]]
    if len(listed) > MAX_CHOICES:
        choices.append("…")
    return Parameter(
        name=name,
        type=_type(part),
        required=required,
        description=str(part.get("description") or part.get("title") or ""),
        choices=tuple(choices),
        default=_json(part["default"]) if "default" in part else "",
        bounds=_bounds(part),
    )


def _type(part: dict[str, Any]) -> str:
    written = part.get("type")
    names = written if isinstance(written, list) else [written]
    if written is None:
        options: list[Any] = next((part[key] for key in ("anyOf", "oneOf") if isinstance(part.get(key), list)), [])
        names = [option.get("type") for option in options if isinstance(option, dict)]
    words = [str(TYPES[name]) for name in names if isinstance(name, str) and name in TYPES]
    inner = part.get("items")
    if names == ["array"] and isinstance(inner, dict) and inner.get("type") in TYPES:
        return _("list of %(type)s") % {"type": TYPES[inner["type"]]}
    form = part.get("format")
    text = _(" or ").join(dict.fromkeys(words)) or _("anything")
    return f"{text} ({form})" if isinstance(form, str) else text


def _bounds(part: dict[str, Any]) -> str:
    low, high = part.get("minimum", part.get("exclusiveMinimum")), part.get("maximum", part.get("exclusiveMaximum"))
    shortest, longest = part.get("minLength", part.get("minItems")), part.get("maxLength", part.get("maxItems"))
    texts = []
    if low is not None or high is not None:
        texts.append(f"{'' if low is None else low} … {'' if high is None else high}".strip())
    if shortest is not None and longest is not None:
        texts.append(_("length %(low)s to %(high)s") % {"low": shortest, "high": longest})
    elif longest is not None:
        texts.append(_("length at most %s") % longest)
    elif shortest:
        texts.append(_("length at least %s") % shortest)
    return ", ".join(texts)


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "…"


@dataclass(frozen=True, slots=True)
class Mark:
    """One annotation in plain words."""

    key: str
    text: str
    tone: str


MARKS: dict[str, tuple[Promise, str]] = {
    "reads": (gettext_lazy("read-only"), "good"),
    "changes": (gettext_lazy("makes changes"), "warn"),
    "destroys": (gettext_lazy("may delete or overwrite data"), "bad"),
    "repeat": (gettext_lazy("safe to repeat"), ""),
    "world": (gettext_lazy("reaches outside systems"), ""),
}


def kinds(annotations: dict[str, Any]) -> list[str]:
    """Return the kinds that the annotations declare.

    A missing annotation counts as the specification's default, the less safe one.
    """
    if annotations.get("readOnlyHint") is True:
        found = ["reads"]
    else:
        found = ["changes"]
        if hints.may_destroy(annotations):
            found.append("destroys")
        if annotations.get("idempotentHint") is True:
            found.append("repeat")
    if annotations.get("openWorldHint") is not False:
        found.append("world")
    return found


def marks(annotations: dict[str, Any]) -> list[Mark]:
    """Return the marks for the annotations, in words."""
    return [Mark(kind, str(MARKS[kind][0]), MARKS[kind][1]) for kind in kinds(annotations)]
