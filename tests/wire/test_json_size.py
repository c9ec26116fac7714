"""How many values JSON has is known before it is decoded, whole or in pieces."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhub.wire.json_size import MAX_VALUES, ValueCounter, count_values, has_too_many_values, strip_strings

TEXTS = st.text(alphabet='",[{\\\n\r\0 äx', max_size=12)
VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def count_in_python(value: Any) -> int:
    """Opening brackets, and commas between the members."""
    if isinstance(value, dict):
        return 1 + max(0, len(value) - 1) + sum(map(count_in_python, value.values()))
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(count_in_python, value))
    return 0


def add_in_pieces(counter: ValueCounter, data: bytes, ends: list[int]) -> tuple[int, int]:
    cuts = sorted({0, len(data), *(end % (len(data) + 1) for end in ends)})
    found = [counter.add(data[start:end]) for start, end in pairwise(cuts)]
    return sum(values for values, _ in found), max((most for _, most in found), default=0)


@given(VALUES, st.lists(st.integers(0, 1000), max_size=8), st.booleans())
def test_pieces_have_as_many_values_as_the_whole(value: Any, ends: list[int], ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    expected = count_in_python(value)
    assert count_values(strip_strings(data)) == expected
    assert add_in_pieces(ValueCounter(), data, ends) == (expected, expected)


@given(st.lists(VALUES, min_size=1, max_size=4), st.lists(st.integers(0, 1000), max_size=8), st.data())
def test_each_event_of_a_stream_counts_for_itself(values: list[Any], ends: list[int], data: st.DataObject) -> None:
    end = data.draw(st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r"]))
    stream = b"".join(b"event: message" + end[: len(end) // 2] + b"data: " + json.dumps(one).encode() + end
                      for one in values)  # fmt: skip
    counts = list(map(count_in_python, values))
    assert add_in_pieces(ValueCounter(events=True), stream, ends) == (sum(counts), max(counts))


@pytest.mark.parametrize(
    ("piece", "too_many"),
    [
        (b"{},", True),
        (b"1,", True),
        (b'"",', True),
        (b'"a,b[c{d",', False),
        (b'",', False),
        (b'\\",', False),
    ],
    ids=["objects", "numbers", "texts", "punctuation in few texts", "one long text", "quotes in one long text"],
)
def test_only_values_count_and_not_what_texts_are_made_of(piece: bytes, too_many: bool) -> None:
    repeats = MAX_VALUES + 1 if too_many else MAX_VALUES // 4
    if piece == b'"a,b[c{d",':
        body = b"[" + piece * (MAX_VALUES // 2) + b"0]"
    elif piece == b'",':
        body = b'["' + b"," * (2 * MAX_VALUES) + b'"]'
    elif piece == b'\\",':
        body = b'["' + piece * (2 * MAX_VALUES) + b'"]'
    else:
        body = b"[" + piece * repeats + b"0]"
    json.loads(body)
    assert has_too_many_values(body) is too_many


def test_a_comment_of_a_stream_cannot_hide_the_values_that_follow_it() -> None:
    counter = ValueCounter(events=True)
    assert counter.add(b': it is "open') == (0, 0)
    assert counter.add(b"\ndata: [1,2,3]\n") == (3, 3)
    assert counter.add(b"data: [4,5]\n\ndata: [6]\n\n") == (3, 5)
