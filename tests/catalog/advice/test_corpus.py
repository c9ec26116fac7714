"""The rules against sixty definitions that a person judged: how often they are right, and how much they find."""

from __future__ import annotations

import pytest

from catalog.advice.tools import check_tool
from tests.catalog.advice.corpus import CORPUS

MIN_PRECISION, MIN_RECALL = 0.95, 0.95


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_in_both_languages_suggestions_are_right_and_little_is_missed(language: str) -> None:
    right = wrong = missed = 0
    differences = []
    for definition in CORPUS:
        if definition.language != language:
            continue
        found = {suggestion.code for suggestion in check_tool(definition.row)}
        right += len(found & definition.expected)
        wrong += len(found - definition.expected)
        missed += len(definition.expected - found)
        if found != definition.expected:
            differences.append((definition.row.name, found ^ definition.expected))
    assert right / (right + wrong) >= MIN_PRECISION, differences
    assert right / (right + missed) >= MIN_RECALL, differences


def test_the_corpus_is_half_english_half_chinese_and_two_fifths_good() -> None:
    languages = [definition.language for definition in CORPUS]
    assert (languages.count("en"), languages.count("zh-hans")) == (30, 30)
    assert sum(not definition.expected for definition in CORPUS) == 24
