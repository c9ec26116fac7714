"""A limit as a person says it."""

from __future__ import annotations

import pytest
from django.utils import translation

from catalog.templatetags.catalog_limits import format_rate


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        ("6/m", "at most 6 calls a minute"),
        ("100/5m", "at most 100 calls in 5 minutes"),
        ("60/1h", "at most 60 calls an hour"),
        ("1/2d", "at most 1 calls in 2 days"),
        ("9/s", "at most 9 calls a second"),
        ("whatever else", "whatever else"),
    ],
)
def test_a_rate_is_described(rate: str, words: str) -> None:
    assert format_rate(rate) == words


def test_the_description_of_a_rate_is_in_the_language_of_the_page() -> None:
    with translation.override("zh-hans"):
        assert format_rate("6/m") == "每分钟最多 6 次调用"
