"""What the lists of these pages share: the rows that fit what was typed, and the addresses of the pages around one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.core.paginator import Page
from django.db.models import Q, QuerySet

WORDS = 5
"""Words of a search that count."""


def matching(rows: QuerySet[Any], fields: Iterable[str], text: str) -> QuerySet[Any]:
    """The rows in which every word occurs in at least one of the fields; all of them when nothing was typed."""
    for word in text.split()[:WORDS]:
        anywhere = Q()
        for name in fields:
            anywhere |= Q(**{f"{name}__icontains": word})
        rows = rows.filter(anywhere)
    return rows


def around(page: Page[Any], address: Callable[[int], str]) -> tuple[str, str]:
    """The addresses of the page before and of the one after, by its number; "" where there is none."""
    before = address(page.previous_page_number()) if page.has_previous() else ""
    return before, address(page.next_page_number()) if page.has_next() else ""
