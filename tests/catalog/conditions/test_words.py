"""Conditions in words."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from django.utils.translation import override

import catalog.conditions
import catalog.models
import catalog.policy
from catalog.conditions import windows, words
from catalog.conditions.definitions import parse
from catalog.conditions.mistakes import ConditionError


@pytest.mark.parametrize(
    ("data", "english", "chinese"),
    [
        ({"path": "/region", "op": "equals", "value": "emea"}, 'region is "emea"', "region 为 \"emea\""),
        ({"path": "/region", "op": "one_of", "values": ["emea", 1], "optional": True},
         'region is one of "emea", 1, or is left out', 'region 为 "emea", 1 之一，或者不填'),
        ({"path": "/region", "op": "not_one_of", "values": [None]},
         "region is none of null", "region 不是 null 中的任何一个"),
        ({"path": "/a", "op": "pattern", "pattern": "^x"}, "a matches the pattern ^x", "a 符合模式 ^x"),
        ({"path": "/a", "op": "prefix", "prefix": "web-"}, 'a begins with "web-"', 'a 以 "web-" 开头'),
        ({"path": "/lines/*/amount", "op": "range", "exclusiveMinimum": 0, "maximum": 9.5},
         "lines[].amount is more than 0 and at most 9.5", "lines[].amount 大于 0，至多 9.5"),
        ({"path": "/a", "op": "length", "maximum": 3},
         "a has at most 3 characters or items", "a 有至多 3 个字符或列表项"),
        ({"path": "/a", "op": "belongs_to", "list": "ours"}, "a is in the list “ours”", "a 在列表“ours”中"),
        ({"path": "/lines", "op": "equals", "value": [{"sku": "é", "n": [1, None]}]},
         'lines is [{"sku": "é", "n": [1, null]}]', 'lines 为 [{"sku": "é", "n": [1, null]}]'),
        ({"path": "", "op": "only", "names": ["path", "force"]},
         "no other arguments than path, force", "除 path, force 外没有其他参数"),
        ({"path": "", "op": "only", "names": []}, "no arguments", "没有参数"),
        ({"path": "/o/dry", "op": "fixed", "value": True}, "o.dry is always true", "o.dry 始终为 true"),
    ],
)  # fmt: skip
def test_a_condition_is_a_sentence_in_both_languages(data: dict[str, Any], english: str, chinese: str) -> None:
    (condition,) = parse([data])
    assert words.english(condition) == english
    with override("zh-hans"):
        assert words.translate(condition) == chinese
        assert words.english(condition) == english


def test_a_mistake_says_which_condition_and_what_to_do() -> None:
    with pytest.raises(ConditionError) as raised:
        parse([{"path": "/a", "op": "equals", "value": 1}, {"path": "region", "op": "equals", "value": 1}])
    assert words.mistake(raised.value) == (
        'Condition 2: The path region is not the place of an argument. Write it like "/region" or "/lines/*/amount", '
        "at most 8 steps."
    )
    with override("zh-hans"):
        assert words.mistake(raised.value).startswith("条件 2：路径 region 不是参数的位置。")


@pytest.mark.parametrize(
    ("kind", "sentences"),
    [
        ("ConditionError", words._MISTAKES),
        ("WindowError", words._WINDOW_MISTAKES),
        ("FlagError", words._FLAG_MISTAKES),
    ],
)
def test_every_mistake_has_a_sentence(kind: str, sentences: dict[str, str]) -> None:
    codes = set()
    for package in (catalog.conditions, catalog.models, catalog.policy):
        for path in Path(str(package.__file__)).parent.glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == kind:
                    codes |= {one.value for one in ast.walk(node.args[0]) if isinstance(one, ast.Constant)}
    assert codes == set(sentences) and len(codes) > 3


def test_a_time_window_is_said_with_its_days_times_and_zone() -> None:
    def say(days: tuple[str, ...], opens: str, closes: str) -> str:
        (window,) = windows.parse([{"days": list(days), "from": opens, "to": closes, "zone": "UTC"}])
        return words.translate_window(window)

    assert say(("fri", "mon"), "09:00", "17:30") == "Mon, Fri from 09:00 to 17:30 (UTC)"
    assert say(windows.DAYS, "00:00", "24:00") == "every day from 00:00 to 24:00 (UTC)"
    assert say(("sat",), "22:00", "06:00") == "Sat from 22:00 to 06:00 (UTC)"
