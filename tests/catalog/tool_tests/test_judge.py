"""The judgement of a run: what passes, and what is named as the reason when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils.translation import override

from audit.types import Reason
from catalog.functions.content import ABSENT
from catalog.tool_tests import messages
from catalog.tool_tests.judge import Ended, find_difference, judge


def expectation(match: str = "status", expected: Any = "", status: str = "ok") -> dict[str, Any]:
    return {"status": status, "match": match, "expected": expected}


def code(ended: Ended, expected: dict[str, Any]) -> str:
    problem = judge(ended, expected)
    return "" if problem is None else problem.code


VALUE = {"rows": [{"id": 1, "name": "chair"}, {"id": 2, "name": "lamp"}], "total": 2, "more": None}


@pytest.mark.parametrize(
    ("ended", "expected", "problem"),
    [
        (Ended("ok", "x"), expectation(), ""),
        (Ended("tool_error", "no"), expectation(), "test.status"),
        (Ended("tool_error", "no"), expectation(status="tool_error"), ""),
        # A client cannot tell these apart.
        (Ended("unknown_tool", ""), expectation(status="refused"), ""),
        (Ended("ok", "ready: 3 rows"), expectation("text", "3 rows"), ""),
        (Ended("ok", "ready"), expectation("text", "3 rows"), "test.text"),
        (Ended("tool_error", "no such order"), expectation("text", "no such", "tool_error"), ""),
        (Ended("ok", "", VALUE), expectation("json", {"total": 2}), ""),
        (Ended("ok", "", VALUE), expectation("json", {"rows": [{"id": 1}, {"name": "lamp"}]}), ""),
        (Ended("ok", "", VALUE), expectation("json", {"rows": [{"id": 1}]}), "test.values"),
        (Ended("ok", "", VALUE), expectation("json", {"total": 3}), "test.values"),
        (Ended("ok", "", None), expectation("json", None), ""),
        (Ended("ok", '{"a": 1}'), expectation("json", {"a": 1}), ""),
        (Ended("ok", "plain"), expectation("json", {"a": 1}), "test.no_json"),
        (Ended("ok", "", VALUE), expectation("schema", {"type": "object", "required": ["total"]}), ""),
        (Ended("ok", "", VALUE), expectation("schema", {"properties": {"total": {"maximum": 1}}}), "test.schema"),
    ],
)
def test_a_run_passes_or_fails_for_a_named_reason(ended: Ended, expected: dict[str, Any], problem: str) -> None:
    assert code(ended, expected) == problem


@pytest.mark.parametrize(
    ("value", "expected", "path"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ("a", "b", 1)),
        ({"a": 1}, {"b": 1}, ("b",)),
        ({"a": 1, "c": 2}, {"a": 1}, None),
        (1, 1.0, None),
        (True, 1, ()),
        (1, True, ()),
        ("1", 1, ()),
        ([1], [1, 2], ()),
        ({}, [], ()),
        (None, {}, ()),
    ],
)
def test_the_first_difference_is_named_and_what_is_not_expected_may_be_anything(
    value: Any, expected: Any, path: tuple[str | int, ...] | None
) -> None:
    assert find_difference(value, expected) == path


def test_no_value_of_a_result_is_in_the_reason() -> None:
    secret = "hunter2-in-the-result"
    for expected in (expectation("json", {"a": "x"}), expectation("schema", {"properties": {"a": {"maxLength": 1}}})):
        problem = judge(Ended("ok", "", {"a": secret}), expected)
        assert problem is not None and secret not in problem.text


@pytest.mark.parametrize("problem", sorted(messages.TEXTS))
def test_every_reason_has_a_sentence_in_both_languages(problem: str) -> None:
    params = dict.fromkeys(("got", "expected", "text", "where", "seconds", "user", "editor", "error"), "x")
    stored = Reason(problem, params).text
    with override("en"):
        english = messages.translate(stored)
    with override("zh-hans"):
        assert messages.translate(stored) not in ("", english)


@pytest.mark.parametrize("stored", ["", "x", "[]", '["test.unheard_of", {}]', '["test.text", {}]'])
def test_a_stored_reason_that_was_edited_has_no_sentence(stored: str) -> None:
    assert messages.translate(stored) == ""


def test_an_absent_value_is_no_value() -> None:
    assert code(Ended("ok", "", ABSENT), expectation("json", {})) == "test.no_json"
