"""What is used of a quota, on the page of its limit: a table of this period, and a reset for one row or all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib import messages
from django.contrib.auth.models import Group, User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.translation import gettext, ngettext

from audit.actions import log
from audit.admin_filters import is_key
from catalog.admin.history import HistoryAdmin
from catalog.conditions import measures, periods
from catalog.models import Limit, LimitUsage
from catalog.models.limit_usage import name_counter
from toolhub.invisible import show

MAX_SHOWN: Final = 20
"""Maximum number of rows on the page of a limit: those that used the most."""
MAX_LOGGED: Final = 200
"""Maximum number of rows of a reset that are logged one by one; the others are added up."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    key: int
    name: str
    """The user or the group; empty for readers who may not see names."""
    link: str
    used: int
    percentage: int
    """Of the amount; over 100 where the amount was lowered, or a result cost more than was left."""


@dataclass(frozen=True, slots=True)
class UsageTable:
    rows: list[UsageRow]
    more: int
    """Number of rows that are not shown."""
    is_hidden: bool
    """Whether the numbers could tell the reader arguments or results of calls that they may not read."""
    amount: int
    resets: datetime
    reset: str
    """The address that resets rows; empty for readers who may not change the limit."""


class LimitUsageAdmin(HistoryAdmin):
    """The pages of limits, with what is used of a quota."""

    change_form_outer_after_template = "admin/catalog/limit_below_form.html"

    def get_urls(self) -> list[URLPattern]:
        own = path("<int:pk>/reset/", self.admin_site.admin_view(self.reset), name="catalog_limit_reset")
        return [own, *super().get_urls()]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, obj: Any = None, **kwargs: Any) -> Any:
        stored = Limit.everything.filter(pk=obj.pk).first() if obj is not None else None
        context["usage"] = self._find_table(request, stored) if stored is not None and not stored.trial else None
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def reset(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Forget what is used in this period: `row` names one row, and without it all of them are reset."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not self.has_change_permission(request):
            raise PermissionDenied
        limit, key = Limit.objects.filter(pk=pk).first(), request.POST.get("row", "")
        if limit is None or (key and not is_key(key)):
            raise Http404
        number = reset(limit, timezone.now(), int(key) if key else None)
        text = ngettext("%(number)s row was reset.", "%(number)s rows were reset.", number)
        self.message_user(
            request,
            text % {"number": f"{number:,}"} if number else gettext("There was nothing left to reset."),
            messages.SUCCESS if number else messages.INFO,
        )
        return redirect(reverse("admin:catalog_limit_change", args=[pk]))

    def _find_table(self, request: HttpRequest, limit: Limit) -> UsageTable | None:
        quota, at = periods.parse(limit.rate), timezone.now()
        if quota is None:
            return None
        found = find_usage(limit, at).order_by("-used", "pk")
        is_hidden = hides_numbers(request, limit.measure)
        rows, total = ([], 0) if is_hidden else (list(found[:MAX_SHOWN]), found.count())
        names = _find_names(rows) if request.user.has_perm("auth.view_user") else {}
        return UsageTable(
            rows=[
                UsageRow(
                    row.pk,
                    *names.get(row.subject, ("", "")),
                    row.used,
                    round(100 * row.used / quota.amount) if quota.amount else 100,
                )
                for row in rows
            ],
            more=total - len(rows),
            is_hidden=is_hidden,
            amount=quota.amount,
            resets=periods.find(quota.period, limit.zone, at).ends,
            reset=reverse("admin:catalog_limit_reset", args=[limit.pk])
            if self.has_change_permission(request, limit)
            else "",
        )


def hides_numbers(request: HttpRequest, measure: str) -> bool:
    """Return whether what is used or left could tell the reader arguments or results that they may not read."""
    return measure == measures.COST and not request.user.has_perm("audit.view_call")


def find_usage(limit: Limit, at: datetime) -> QuerySet[LimitUsage]:
    """Return what is used of a quota in the period that holds this time; none for other limits."""
    quota = periods.parse(limit.rate)
    if quota is None or limit.measure not in (measures.CALLS, measures.COST):
        return LimitUsage.objects.none()
    starts = periods.find(quota.period, limit.zone, at).starts
    counted = name_counter(limit.measure, quota.period)  # a limit that measured something else has other rows too
    return LimitUsage.objects.filter(limit=limit, starts=starts, counter__startswith=counted, used__gt=0)


def reset(limit: Limit, at: datetime, key: int | None = None) -> int:
    """Set one row, or all of this period, to nothing used, and log it. Return the number of rows."""
    with transaction.atomic():
        found = find_usage(limit, at).select_for_update()
        rows = list(found if key is None else found.filter(pk=key))
        if rows:
            LimitUsage.objects.filter(pk__in=[row.pk for row in rows]).update(used=0)
            names = _find_names(rows)
            before: dict[str, Any] = {names[row.subject][0] or row.subject: row.used for row in rows[:MAX_LOGGED]}
            if len(rows) > MAX_LOGGED:
                before["others"] = sum(row.used for row in rows[MAX_LOGGED:])
            if limit.measure == measures.COST:  # the numbers tell arguments or results of calls
                before = dict.fromkeys(before, "used")
            after = dict.fromkeys(before, 0)
            log.record("reset", "limit", str(limit), before, after)
    return len(rows)


def _find_names(rows: Iterable[LimitUsage]) -> dict[str, tuple[str, str]]:
    """Return the name and the address of the subject of each row; people and groups may have been deleted."""
    subjects = {row.subject for row in rows}
    found: dict[str, tuple[str, str]] = {}
    for kind, model, column in (("user", User, "username"), ("group", Group, "name")):
        keys = [int(subject.split()[1]) for subject in subjects if subject.startswith(f"{kind} ")]
        names = dict(model._default_manager.filter(pk__in=keys).values_list("pk", column))
        gone = gettext("deleted user %(number)s") if kind == "user" else gettext("deleted group %(number)s")
        for key in keys:
            address = reverse(f"admin:auth_{kind}_change", args=[key]) if key in names else ""
            found[f"{kind} {key}"] = (show(names[key]) if key in names else gone % {"number": key}, address)
    return {**found, "everyone": (gettext("everyone together"), "")}
