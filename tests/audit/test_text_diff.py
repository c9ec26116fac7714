"""Line by line, what is different: right for small texts, bounded for hostile ones."""

from __future__ import annotations

import random

import pytest

from audit import display
from audit.text_diff import CONTEXT_LINES, GONE, MAX_DIFF_BYTES, MAX_LINE_CHARACTERS, NEW, SAME, SKIPPED, lines


def kinds(before: str, after: str) -> list[tuple[str, str]]:
    return [(line.kind, line.text) for line in lines(before, after)]


def test_equal_texts_have_no_difference() -> None:
    assert lines("a\nb", "a\nb") == []


def test_json_is_compared_value_by_value() -> None:
    assert kinds('{"a":1,"b":[1]}', '{"a":1,"b":[2]}') == [
        (SAME, "{"), (SAME, '  "a": 1,'), (SAME, '  "b": ['), (GONE, "    1"), (NEW, "    2"), (SAME, "  ]"),
        (SAME, "}"),
    ]  # fmt: skip


def test_unchanged_parts_are_folded_away_except_around_a_change() -> None:
    old = [str(number) for number in range(40)]
    new = [*old[:20], "x", *old[21:]]
    found = kinds("\n".join(old), "\n".join(new))
    assert found[0] == (SKIPPED, str(20 - CONTEXT_LINES)) and found[-1] == (SKIPPED, str(19 - CONTEXT_LINES))
    assert [(kind, text) for kind, text in found if kind in {GONE, NEW}] == [(GONE, "20"), (NEW, "x")]


def test_both_texts_can_be_read_off_the_difference() -> None:
    chance = random.Random(3)
    for _ in range(50):
        old = [chance.choice("abc") for _ in range(chance.randrange(9))]
        new = [chance.choice("abc") for _ in range(chance.randrange(9))]
        found = kinds("\n".join(old), "\n".join(new))
        if old == new or any(kind == SKIPPED for kind, _ in found):
            continue
        assert [text for kind, text in found if kind != NEW] == old
        assert [text for kind, text in found if kind != GONE] == new


@pytest.mark.parametrize(
    "unit",
    ["<", '"', "\u202e", "a\n", "ab\nba\n", "[", "é"],
    ids=["lt", "quote", "bidi", "line", "two", "deep", "wide"],
)
def test_hostile_texts_make_no_large_page(unit: str) -> None:
    before, after = unit * 200_000, "x" + unit * 199_000
    found = lines(before, after)
    assert found and sum(display.count_page_bytes(line.text) + 60 for line in found) < MAX_DIFF_BYTES + 10_000


def test_invisible_characters_are_spelled_out() -> None:
    assert kinds("a\u202eb", "ab") == [(GONE, "a⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩b"), (NEW, "ab")]


def test_a_change_far_into_a_long_line_is_not_left_out() -> None:
    long = "word " * 400
    found = kinds(f"{long}before{long}", f"{long}after{long}")
    assert any(kind == GONE and "before" in text for kind, text in found)
    assert any(kind == NEW and "after" in text for kind, text in found)
    assert max(len(text) for _, text in found) <= MAX_LINE_CHARACTERS
