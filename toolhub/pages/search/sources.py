"""What the search of the admin finds: rows, pages, settings and ids, each by the rights of the page that shows it.

A row is found exactly when its own admin page would show it to this person. Nothing else is asked, counted or named.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from audit.admin.base import calls_url
from audit.queries import lookup
from catalog.policy import messages as policy_messages
from toolhub import invisible
from toolhub.access import navigation
from toolhub.pages.lists import filter_rows
from toolhub.pages.search.ranking import Rank, rank_rows, rank_text
from toolhub.pages.settings_table import VIEW_SETTINGS, read_settings

MAX_ROWS = 6
"""Maximum results of one kind."""
MAX_RESULTS = 40
MAX_QUERY_CHARACTERS = 100
MAX_TITLE_CHARACTERS = 200
MAX_ROW_ID = 2**31 - 1

KINDS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("catalog.tool", "name", "title", ("name", "title")),
    ("catalog.toolset", "name", "", ("name",)),
    ("catalog.resource", "name", "title", ("name", "title", "uri", "uri_template")),
    ("catalog.prompt", "name", "title", ("name", "title")),
    ("catalog.upstream", "name", "", ("name", "url")),
    ("auth.user", "username", "email", ("username", "first_name", "last_name", "email")),
    ("auth.group", "name", "", ("name",)),
    ("catalog.secret", "name", "", ("name",)),
    ("catalog.valuelist", "name", "description", ("name",)),
    ("catalog.flag", "name", "description", ("name",)),
    ("catalog.approvalrule", "name", "note", ("name",)),
)
"""Model, its field with the name, one with more ("" for none), the searched fields; in the order of equal results."""


@dataclass(frozen=True, slots=True)
class Result:
    title: str
    kind: str
    """The type of the result, such as "Tool"."""
    url: str
    rank: Rank
    detail: str = ""


def find(request: HttpRequest, text: str) -> list[Result]:
    """Return what this person may open, the best match first; nothing for an empty query."""
    # No database can search for NUL or lone surrogates, and none stores them.
    query = " ".join(text.encode("utf-8", "ignore").decode().replace("\x00", "").split())[:MAX_QUERY_CHARACTERS]
    if not query:
        return []
    found = [*_find_ids(request, query), *_find_pages(request, query)]
    for label, name, detail, fields in KINDS:
        found += _find_rows(request, label, name, detail, fields, query)
    found += _find_settings(request, query)
    found.sort(key=lambda result: result.rank)  # stable: the order of KINDS among equals
    found = found[:MAX_RESULTS]
    if _page_of(request, "audit.call") is not None:
        title = _("Search the audit log for “%(text)s”") % {"text": invisible.show(query)}
        found.append(Result(title, _("Audit log"), calls_url(q=query), Rank.ELSEWHERE))
    return found


def _page_of(request: HttpRequest, label: str) -> Any:
    """Return the admin page of a model if this person may view it, None otherwise."""
    page: Any = admin.site._registry.get(apps.get_model(label))
    return page if page is not None and page.has_view_or_change_permission(request) else None


def _find_rows(
    request: HttpRequest, label: str, name: str, detail: str, fields: tuple[str, ...], query: str
) -> Iterator[Result]:
    page = _page_of(request, label)
    if page is None:
        return
    rows = filter_rows(page.get_queryset(request).prefetch_related(None), fields, query)
    ranked = rows.annotate(search_rank=rank_rows(fields, query)).order_by("search_rank", name)
    found = list(ranked.values_list("pk", name, detail or name, "search_rank")[: MAX_ROWS + 1])
    kind = str(capfirst(page.opts.verbose_name))
    address = f"admin:{page.opts.app_label}_{page.opts.model_name}"
    for pk, title, more, rank in found[:MAX_ROWS]:
        url = reverse(f"{address}_change", args=(pk,))
        yield Result(_shorten(title), kind, url, Rank(rank), _shorten(more) if more != title else "")
    if len(found) > MAX_ROWS and page.search_fields:
        url = f"{reverse(f'{address}_changelist')}?{urlencode({'q': query})}"
        title = _("Show all matches in “%(list)s”") % {"list": capfirst(page.opts.verbose_name_plural)}
        yield Result(title, kind, url, Rank.ELSEWHERE)


def _find_pages(request: HttpRequest, query: str) -> Iterator[Result]:
    for group in navigation.sidebar(request):
        for item in group["items"]:
            if (rank := rank_text(str(item["title"]), query)) is not None:
                yield Result(str(item["title"]), _("Page"), str(item["link"]), rank, str(group.get("title") or ""))


def _find_settings(request: HttpRequest, query: str) -> Iterator[Result]:
    if not request.user.has_perm(VIEW_SETTINGS):
        return
    address = reverse("pages:settings")
    ranked = [(rank_text(setting.name, query), setting) for setting in read_settings()]
    found = sorted(((rank, setting.name) for rank, setting in ranked if rank is not None), key=lambda pair: pair[0])
    for rank, name in found[:MAX_ROWS]:
        yield Result(name, _("Setting"), f"{address}#{name}", rank)


def _find_ids(request: HttpRequest, query: str) -> Iterator[Result]:
    """Yield the call or change that the text names, and the rows of the catalogue with this number."""
    row = lookup.find_row(query)
    if row is not None and _page_of(request, row._meta.label_lower) is not None:
        kind = str(capfirst(row._meta.verbose_name))
        yield Result(str(row.pk), kind, lookup.row_address(row), Rank.EXACT, _shorten(str(row)))
    number = query.removeprefix("#")
    if not (number.isascii() and number.isdecimal()) or int(number) > MAX_ROW_ID:
        return
    page = _page_of(request, "catalog.grant")
    grant = page.get_queryset(request).filter(pk=int(number)).first() if page is not None else None
    if grant is not None:
        title = _("Grant %(number)s") % {"number": grant.pk}
        address = reverse("admin:catalog_grant_change", args=(grant.pk,))
        yield Result(
            title, str(capfirst(page.opts.verbose_name)), address, Rank.EXACT, _shorten(policy_messages.name_row(grant))
        )


def _shorten(text: str) -> str:
    shown = invisible.show(text)
    return shown if len(shown) <= MAX_TITLE_CHARACTERS else f"{shown[: MAX_TITLE_CHARACTERS - 1]}…"
