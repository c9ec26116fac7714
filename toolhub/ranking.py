"""The order of search results by name: the exact name first, then prefixes, words that begin so, and the rest."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When

WORD_BREAKS = " _-./:@"
"""Characters in names after which a new word begins."""


def rank_by_name(rows: QuerySet[Any], name: str, text: str) -> QuerySet[Any]:
    """Return the rows ordered by how well the column `name` matches the text, then by name; all of them are kept."""
    text = text.replace("\0", "").strip()  # PostgreSQL takes no NUL
    if not text:
        return rows.order_by(name, "pk")
    word = Q()
    for character in WORD_BREAKS:
        word |= Q(**{f"{name}__icontains": f"{character}{text}"})
    rank = Case(
        When(Q(**{f"{name}__iexact": text}), then=Value(0)),
        When(Q(**{f"{name}__istartswith": text}), then=Value(1)),
        When(word, then=Value(2)),
        When(Q(**{f"{name}__icontains": text}), then=Value(3)),
        default=Value(4),
        output_field=IntegerField(),
    )
    ranked: QuerySet[Any] = rows.annotate(rank_by_name=rank).order_by("rank_by_name", name, "pk")
    return ranked
