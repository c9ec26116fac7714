"""Helpers of the list pages: rows that match a search, and the addresses of the neighbouring pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.core.paginator import Page
from django.db.models import Q, QuerySet

MAX_SEARCH_WORDS = 5
"""Maximum number of words of a search that count."""


def filter_rows(rows: QuerySet[Any], fields: Iterable[str], text: str) -> QuerySet[Any]:
    """Return the rows in which every word occurs in at least one of the fields; all rows for an empty search."""
    for word in text.replace("\0", " ").split()[:MAX_SEARCH_WORDS]:  # PostgreSQL takes no NUL
        anywhere = Q()
        for name in fields:
            anywhere |= Q(**{f"{name}__icontains": word})
        rows = rows.filter(anywhere)
    return rows


def adjacent_pages(page: Page[Any], address: Callable[[int], str]) -> tuple[str, str]:
    """Return the addresses of the previous and the next page, by page number; "" when there is none."""
    before = address(page.previous_page_number()) if page.has_previous() else ""
    return before, address(page.next_page_number()) if page.has_next() else ""
