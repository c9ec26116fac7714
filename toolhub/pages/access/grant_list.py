"""Grants as a readable list: each a sentence, with its time, environment, reason, giver and state, and "Revoke"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from catalog.models import Grant
from catalog.policy import messages
from catalog.policy.definitions import GrantRule, Snapshot
from catalog.policy.redundancy import Redundancy
from toolhub.invisible import show
from toolhub.pages.access.giving import GIVE_PERMISSIONS, REVOKE_PERMISSIONS
from toolhub.pages.lists import adjacent_pages

GRANTS_PER_PAGE = 20
SELECTED = ("tool", "toolset", "resource", "prompt", "user", "group")
SENTENCES: dict[tuple[str, str], Promise] = {
    ("allow", "user"): gettext_lazy("User %(who)s may use %(what)s."),
    ("allow", "group"): gettext_lazy("Group %(who)s may use %(what)s."),
    ("allow", "everyone"): gettext_lazy("Everyone may use %(what)s."),
    ("deny", "user"): gettext_lazy("User %(who)s may not use %(what)s."),
    ("deny", "group"): gettext_lazy("Group %(who)s may not use %(what)s."),
    ("deny", "everyone"): gettext_lazy("No one may use %(what)s."),
}


@dataclass(frozen=True, slots=True)
class GrantLine:
    """One grant of a list."""

    grant: Grant
    sentence: SafeString
    state: str
    note: str
    given_by: str
    """Who created it; "" when that was a command, or is not known."""
    given_at: datetime | None
    link: str
    revoke: str
    """The page that revokes it; "" for a grant that is over, and for a viewer who may not."""
    cover: str
    """The grant that covers it wholly, as a sentence; "" when it is needed."""
    cover_link: str


def build_context(
    request: HttpRequest, catalogue: Snapshot, grants: QuerySet[Grant], address: Callable[..., str], place: str
) -> dict[str, Any]:
    """Return the context of `access_grants.html`: one page of these grants.

    `address(**changes)` returns the address of the same page with other parameters. `place` names the page, such as
    tool:7, for the way back.
    """
    ended = request.GET.get("ended") == "1"
    now = timezone.now()
    open_only = Q(ends__isnull=True) | Q(ends__gt=now)
    shown = grants if ended else grants.filter(open_only)
    # Denials first: they decide.
    ordered = shown.select_related(*SELECTED).order_by("-effect", "-pk")
    pages = Paginator(ordered, GRANTS_PER_PAGE).get_page(request.GET.get("gp"))
    older, newer = adjacent_pages(pages, lambda number: address(gp=number, ended="1" if ended else ""))
    return {
        "grant_lines": describe(request, catalogue, list(pages), now, place),
        "grants_count": pages.paginator.count,
        "grants_ended": ended,
        "grants_other": address(ended="" if ended else "1", gp=""),
        "grants_older": older,
        "grants_newer": newer,
        "may_give": request.user.has_perms(GIVE_PERMISSIONS),
        "place": place,
    }


def describe(
    request: HttpRequest, catalogue: Snapshot, grants: Sequence[Grant], now: datetime, place: str = ""
) -> list[GrantLine]:
    """Return the lines of these grants, which have their relations selected."""
    redundancy, rules = Redundancy(catalogue), {rule.id: rule for rule in catalogue.grants}
    made = {
        row.id: row
        for row in Grant.history.filter(id__in=[grant.pk for grant in grants], history_type="+").select_related(
            "history_user"
        )
    }
    may_revoke = request.user.has_perms(REVOKE_PERMISSIONS)
    lines = []
    for grant in grants:
        rule, first = rules.get(grant.pk), made.get(grant.pk)
        state = grant.state_at(now, settings.ENVIRONMENT)
        cover = redundancy.find_cover(rule) if rule is not None and state != "over" else None
        lines.append(
            GrantLine(
                grant,
                build_sentence(request, grant),
                state,
                show(grant.note),
                show(first.history_user.get_username()) if first is not None and first.history_user is not None else "",
                first.history_date if first is not None else None,
                reverse("admin:catalog_grant_change", args=[grant.pk]),
                revoke_address(grant.pk, place) if may_revoke and state != "over" else "",
                _describe_cover(cover),
                reverse("admin:catalog_grant_change", args=[cover.id]) if cover is not None else "",
            )
        )
    return lines


def build_sentence(request: HttpRequest, grant: Grant) -> SafeString:
    """Return who may use what, with links to those that the viewer may open."""
    params = messages.rule_of(grant).params
    kind, by = params["kind"], params["by"]
    what = _link(request, f"catalog.view_{kind}", f"admin:catalog_{kind}_change", getattr(grant, f"{kind}_id"))
    who = _link(request, f"auth.view_{by}", f"admin:auth_{by}_change", grant.user_id or grant.group_id)
    if kind == "toolset" and request.user.has_perms(("catalog.view_toolset", "catalog.view_grant")):
        what = reverse("pages:access-toolset", args=[grant.toolset_id])
    if by == "group" and request.user.has_perms(("auth.view_group", "catalog.view_grant")):
        who = reverse("pages:access-group", args=[grant.group_id])
    values = {
        "who": _name(show(params["whom"]), who),
        "what": _name(show(messages.target(kind, params["name"])), what),
    }
    return SafeString(escape(str(SENTENCES[grant.effect, by])) % values)


def revoke_address(key: int, place: str) -> str:
    """Return the page that revokes a grant, and leads back to this place."""
    return f"{reverse('pages:revoke', args=[key])}?place={place}"


def _link(request: HttpRequest, permission: str, page: str, key: int | None) -> str:
    return reverse(page, args=[key]) if key is not None and request.user.has_perm(permission) else ""


def _name(text: str, address: str) -> SafeString:
    if not address:
        return format_html("<bdi>{}</bdi>", text)
    return format_html('<a href="{}"><bdi>{}</bdi></a>', address, text)


def _describe_cover(cover: GrantRule | None) -> str:
    if cover is None:
        return ""
    return _("Already covered by %(grant)s.") % {"grant": show(messages.translate(cover.rule))}
