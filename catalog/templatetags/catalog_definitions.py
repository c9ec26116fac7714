"""Values from outside on a page: indented, with invisible characters made visible."""

from __future__ import annotations

from typing import Any

from django import template

from audit import word_diff
from audit.word_diff import Piece
from catalog import quarantine
from catalog.reviews import review_texts
from catalog.reviews.changes import Change
from toolhub.invisible import show

register = template.Library()


@register.filter
def visible(value: Any) -> str:
    return show(str(value))


@register.filter
def readable(value: Any) -> str:
    return quarantine.readable(value)


def compare_words(change: Change, budget: word_diff.Budget) -> list[Piece]:
    """Return the difference of a change, in words."""
    before, after = change.before or "", change.after or ""
    return word_diff.pieces(before, after, budget) or word_diff.show(after, word_diff.NEW)


@register.simple_tag
def word_budget() -> word_diff.Budget:
    """Return what one page may compare."""
    return word_diff.Budget()


@register.filter
def pieces(change: Change, budget: word_diff.Budget) -> list[Piece]:
    return compare_words(change, budget)


@register.filter
def place(change: Change) -> str:
    return review_texts.describe_place(change.member, change.path)
