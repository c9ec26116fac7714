"""What is wrong with an argument, in a sentence that helps a model to correct itself and repeats no secret."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from audit.redaction.redactor import is_secret_name

LONGEST = 400
LONGEST_VALUE = 60


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


def shown(value: Any) -> str:
    """The kind of a value, with the value when it is short and simple."""
    name = kind(value)
    if name in {"array", "object", "null"}:
        return name
    if name == "string" and len(value) > LONGEST_VALUE:
        return f"string {json.dumps(value[:LONGEST_VALUE], ensure_ascii=False)}... of {len(value)} characters"
    text = json.dumps(value, ensure_ascii=False) if name != "integer" or abs(value) < 10**40 else "of many digits"
    return f"{name} {text}"


def is_secret(schema: Any) -> bool:
    return isinstance(schema, dict) and (schema.get("writeOnly") is True or schema.get("format") == "password")


def holds_secret(value: Any) -> bool:
    """Anywhere in a schema."""
    if isinstance(value, dict):
        return is_secret(value) or any(holds_secret(part) for part in value.values())
    return isinstance(value, list) and any(holds_secret(part) for part in value)


def place(path: Sequence[str | int]) -> str:
    if not path:
        return "arguments"
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return f'argument "{cut(text, 150)}"'


def cut(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def listing(values: Iterable[Any]) -> str:
    """As many as can be shown: there may be a hundred thousand."""
    return cut(", ".join(json.dumps(value, ensure_ascii=False) for value in islice(values, 100)), 200)


def wrong(path: Sequence[str | int], expected: str, value: Any, *, secret: bool) -> str:
    """`argument "a": expected integer, got string "x"`."""
    secret = secret or any(isinstance(part, str) and is_secret_name(part) for part in path)
    got = kind(value) if secret else shown(value)
    return cut(f"{place(path)}: expected {expected}, got {got}")


def missing(path: Sequence[str | int], name: str) -> str:
    return cut(f"{place([*path, name])}: is required")


def unknown(path: Sequence[str | int], name: str, known: Iterable[str]) -> str:
    names = list(known)
    return cut(f"{place([*path, name])}: is not known; expected {'one of ' + listing(names) if names else 'none'}")


def types(names: Any) -> str:
    return " or ".join(names) if isinstance(names, list) else str(names)
