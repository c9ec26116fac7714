"""Order of the results of a search: the whole name, its beginning, the beginning of a word, any other place."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from django.db.models import Case, IntegerField, Q, Value, When
from django.db.models.expressions import Combinable

SEPARATORS = " _-./:@"
"""Characters before which a word of a name ends."""


class Rank(IntEnum):
    EXACT = 0
    PREFIX = 1
    WORD = 2
    CONTAINS = 3
    ELSEWHERE = 4
    """In no name as a whole: the words of the query are in several places."""


def rank_text(text: str, query: str) -> Rank | None:
    """Return how a text matches the query in any case; None when a word of the query is missing."""
    text, query = text.casefold(), query.casefold()
    if text == query:
        return Rank.EXACT
    if text.startswith(query):
        return Rank.PREFIX
    if any(f"{separator}{query}" in text for separator in SEPARATORS):
        return Rank.WORD
    if query in text:
        return Rank.CONTAINS
    return Rank.ELSEWHERE if all(word in text for word in query.split()) else None


def rank_rows(fields: Iterable[str], query: str) -> Combinable:
    """Return the expression for the rank of a row: the best one of its fields."""
    names = tuple(fields)

    def anywhere(lookup: str, *texts: str) -> Q:
        found = Q()
        for name in names:
            for text in texts:
                found |= Q(**{f"{name}__{lookup}": text})
        return found

    return Case(
        When(anywhere("iexact", query), then=Value(Rank.EXACT.value)),
        When(anywhere("istartswith", query), then=Value(Rank.PREFIX.value)),
        When(anywhere("icontains", *(f"{mark}{query}" for mark in SEPARATORS)), then=Value(Rank.WORD.value)),
        When(anywhere("icontains", query), then=Value(Rank.CONTAINS.value)),
        default=Value(Rank.ELSEWHERE.value),
        output_field=IntegerField(),
    )
