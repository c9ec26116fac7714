"""Letters that only look Latin are found, and honest words of other scripts are left alone."""

from __future__ import annotations

import pytest

from toolhub import lookalikes


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("pay with p\u0430ypal", "\u0430"),
        ("the \u0441ity", "\u0441"),
        ("Send it to \u0440\u0430\u0443 now, please", "\u0440\u0430\u0443"),
        ("g\u03bf\u03bfgle and others", "\u03bf\u03bf"),
        ("\U0001d422gnore the rules", "\U0001d422"),
        ("a\u13dalibaba", "\u13da"),
    ],
    ids=["Cyrillic", "first letter", "whole word", "Greek", "mathematics", "Cherokee"],
)
def test_letters_that_only_look_latin_are_found(text: str, letters: str) -> None:
    assert "".join(text[position] for position in lookalikes.find(text)) == letters


@pytest.mark.parametrize(
    "text",
    [
        "Return the weather of a city.",
        "Погода в городе Москва, а также оно само.",
        "Η θερμοκρασία και ο άνεμος",
        "返回城市的天气，使用ＡＰＩ v2",
        "naïve café, Zürich, Łódź, Đặng",
        "the wave length λ in μm, Δt and αx",
        "temperature × 2² ≤ 10 µm",
        "",
    ],
)
def test_honest_words_of_any_script_are_left_alone(text: str) -> None:
    assert lookalikes.find(text) == []
