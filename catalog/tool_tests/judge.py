"""The judgement of one run of a test case: plain data in, a code out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from audit import outcomes
from audit.types import Reason
from catalog.functions.content import ABSENT
from catalog.schemas import validator
from catalog.schemas.errors import path_text

MAX_TEXT_CHARACTERS = 200
MAX_CHECK_SECONDS = 1.0
_ALIKE = {outcomes.UNKNOWN_TOOL: outcomes.REFUSED}
"""What a client cannot tell apart, a test does not either."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of one run."""

    status: str
    """A status of the audit log."""
    text: str
    """What the client would read: the texts of the result, or the sentence of the refusal."""
    structured: Any = ABSENT
    call_id: UUID | None = None


def judge(ended: Ended, expectation: Mapping[str, Any]) -> Reason | None:
    """Return why the test failed, None when it passed. `expectation` is that of `ToolTest.expectation`.

    No value of the result is in the reason: the log has them, for those who may read it.
    """
    status = _ALIKE.get(ended.status, ended.status)
    if status != expectation["status"]:
        return Reason("test.status", {"expected": expectation["status"], "got": status, "text": _cut(ended.text)})
    match expectation["match"]:
        case "text" if expectation["expected"] not in ended.text:
            return Reason("test.text", {"text": _cut(expectation["expected"])})
        case "json" | "schema":
            value = _value(ended)
            if value is ABSENT:
                return Reason("test.no_json")
            return (
                _compare(value, expectation["expected"])
                if expectation["match"] == "json"
                else _validate(value, expectation["expected"])
            )
    return None


def _value(ended: Ended) -> Any:
    """Return the structured content, or what the only text says as JSON; ABSENT without either."""
    if ended.structured is not ABSENT:
        return ended.structured
    try:
        return json.loads(ended.text)
    except (ValueError, RecursionError):
        return ABSENT


def _compare(value: Any, expected: Any) -> Reason | None:
    path = find_difference(value, expected)
    return None if path is None else Reason("test.values", {"where": path_text(path) or "result"})


def find_difference(value: Any, expected: Any, path: tuple[str | int, ...] = ()) -> tuple[str | int, ...] | None:
    """Return the path of the first difference; members that `expected` does not name may be anything.

    A list has as many items as the expected one. A number equals one of the same value, 1 equals 1.0; true is no 1.
    """
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            return path
        for name, inner in expected.items():
            if name not in value:
                return (*path, name)
            if (found := find_difference(value[name], inner, (*path, name))) is not None:
                return found
        return None
    if isinstance(expected, list):
        if not isinstance(value, list) or len(value) != len(expected):
            return path
        for index, inner in enumerate(expected):
            if (found := find_difference(value[index], inner, (*path, index))) is not None:
                return found
        return None
    return None if (type(value) is type(expected) and value == expected) or _same_number(value, expected) else path


def _same_number(one: Any, other: Any) -> bool:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    return bool(numbers and one == other)


def _validate(value: Any, schema: dict[str, Any]) -> Reason | None:
    text = json.dumps(schema, sort_keys=True)
    check = validator.validator(f"test:{hashlib.sha256(text.encode()).hexdigest()}", schema)
    problem = check(value, MAX_CHECK_SECONDS)
    return None if problem is None else Reason("test.schema", {"where": path_text(problem.path) or "result"})


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARACTERS else text[:MAX_TEXT_CHARACTERS] + "…"


def join_texts(content: Sequence[Mapping[str, Any]]) -> str:
    """Return the texts of a result's content, a line for each."""
    return "\n".join(str(block["text"]) for block in content if block.get("type") == "text")
