"""The admin's sidebar and its badge. Models are named as text, so that this layer imports no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib import admin
from django.contrib.auth import get_user_model
from django.db.models import Count, Subquery, Value
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

GROUPS: tuple[tuple[Any, tuple[tuple[str, str], ...], tuple[tuple[str, str, Any, tuple[str, ...]], ...]], ...] = (
    (
        gettext_lazy("Catalogue"),
        (
            ("catalog.tool", "build"),
            ("catalog.toolset", "inventory_2"),
            ("catalog.resource", "description"),
            ("catalog.prompt", "chat"),
            ("catalog.grant", "key"),
            ("catalog.limit", "speed"),
            ("catalog.approvalrule", "approval"),
            ("catalog.valuelist", "checklist"),
            ("catalog.flag", "toggle_on"),
            ("catalog.tooltest", "labs"),
            ("catalog.secret", "lock"),
            ("catalog.upstream", "dns"),
            ("catalog.importeddocument", "upload_file"),
        ),
        (
            (
                "pages:review",
                "rate_review",
                gettext_lazy("Needs review"),
                ("catalog.review_tool",),
            ),
            ("pages:requests", "how_to_reg", gettext_lazy("Access requests"), ("catalog.view_accessrequest",)),
            (
                "pages:trials",
                "science",
                gettext_lazy("Rules in trial"),
                ("catalog.view_grant|catalog.view_limit|catalog.view_approvalrule",),
            ),
            ("pages:imports", "input", gettext_lazy("Imports"), ("catalog.view_tool",)),
            (
                "pages:matrix",
                "grid_on",
                gettext_lazy("Toolsets and groups"),
                ("catalog.view_grant", "catalog.view_toolset", "auth.view_group"),
            ),
            (
                "pages:view-as",
                "visibility",
                gettext_lazy("View as"),
                ("auth.view_user", "catalog.view_tool", "catalog.view_grant", "catalog.view_limit"),
            ),
        ),
    ),
    (
        gettext_lazy("Audit log"),
        (
            ("audit.call", "receipt_long"),
            ("audit.action", "history"),
            ("catalog.approval", "how_to_vote"),
            ("audit.checkpoint", "verified"),
            ("audit.verification", "fact_check"),
        ),
        (
            ("pages:reports", "flag", gettext_lazy("Reported calls"), ("catalog.view_callreport",)),
            ("pages:health", "troubleshoot", gettext_lazy("Tool health"), ("audit.view_call", "catalog.view_tool")),
        ),
    ),
    (
        gettext_lazy("People"),
        (
            ("auth.user", "person"),
            ("auth.group", "group"),
            ("people.invitation", "mail"),
            ("access.accesstoken", "vpn_key"),
            ("oauth.connectedapp", "link"),
            ("oauth.client", "apps"),
            ("identity.provider", "login"),
            ("identity.identity", "badge"),
            ("scim.scimtoken", "sync_lock"),
            ("scim.scimgroup", "groups"),
        ),
        (),
    ),
    (
        gettext_lazy("Operations"),
        (),
        (
            ("pages:sessions", "lan", gettext_lazy("Sessions"), ("access.view_connections",)),
            ("pages:jobs", "schedule", gettext_lazy("Background jobs"), ("access.view_connections",)),
            ("pages:backups", "backup", gettext_lazy("Backups"), ("pages.manage_backups",)),
            ("pages:settings", "tune", gettext_lazy("Environment settings"), ("pages.view_settings",)),
        ),
    ),
)
"""The title of a group, its models (name, icon), and its other pages (address name, icon, title, permissions).

A page needs every one of its permissions, where `a|b` is one of the two.
"""


def _needing_review(rows: Any) -> Any:
    return rows.needing_review()


def _open(rows: Any) -> Any:
    return rows.filter(state="open")


BADGES: Mapping[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "pages:review": (("catalog.tool", "catalog.resource", "catalog.prompt"), _needing_review),
    "pages:requests": (("catalog.accessrequest",), _open),
    "pages:reports": (("catalog.callreport",), _open),
}
"""Address of a page -> the rows that its number in the sidebar counts: the models, and the choice of their rows."""


def _count_badges(user: Any, addresses: Iterable[str]) -> dict[str, int]:
    """Return the number of each of the pages that has one, with one query for all."""
    counts = {
        f"{address.partition(':')[2]}_{number}": _count(choose(apps.get_model(label)._default_manager))
        for address in addresses
        for labels, choose in [BADGES.get(address, ((), _open))]
        for number, label in enumerate(labels)
    }
    if not counts:
        return {}
    one_row = get_user_model()._default_manager.filter(pk=user.pk).order_by()
    row = one_row.annotate(**counts).values(*counts).first() or {}
    found: dict[str, int] = {}
    for name, number in row.items():
        address = f"pages:{name.partition('_')[0]}"
        found[address] = found.get(address, 0) + (number or 0)
    return found


def _count(rows: Any) -> Subquery:
    return Subquery(
        rows.order_by().annotate(every_row=Value(1)).values("every_row").annotate(number=Count("pk")).values("number")
    )


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the sidebar with the pages that the user may open.

    An auditor finds the audit log and no link that answers 403.
    """
    groups: list[dict[str, Any]] = []
    user = request.user
    allowed = {address for *_, others in GROUPS for address, _, _, needed in others if _holds(user, needed)}
    badges = _count_badges(user, sorted(allowed & BADGES.keys()))
    links = {address: reverse(address) for *_, others in GROUPS for address, *_ in others}
    for title, entries, others in GROUPS:
        items = []
        for label, icon in entries:
            model = apps.get_model(label)
            page = admin.site._registry.get(model)
            if page is not None and page.has_view_or_change_permission(request):
                name = f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"
                items.append({"title": capfirst(model._meta.verbose_name_plural), "icon": icon, "link": reverse(name)})
        for address, icon, name, _permissions in others:
            if address in allowed:
                link = links[address]
                active = _is_open(request.path, link, links.values())
                item = {"title": str(name), "icon": icon, "link": link, "active": active}
                items.append(item | {"badge": badges.get(address, 0), "badge_variant": "warning"})
        if items:
            groups.append({"title": title, "separator": bool(groups), "items": items})
    home = {"title": _("Overview"), "icon": "home", "link": reverse("admin:index")}
    pages = {
        "title": _("My tools and tokens"),
        "icon": "arrow_outward",
        "link": reverse("catalog:tools"),
        "active": False,
    }
    return [{"items": [home, pages]}, *groups]


def _holds(user: Any, needed: Iterable[str]) -> bool:
    return all(any(user.has_perm(name) for name in one.split("|")) for one in needed)


def _is_open(path: str, link: str, links: Iterable[str]) -> bool:
    """Return whether this page of the sidebar is open: of all links that lead to the path, the longest."""
    return path.startswith(link) and not any(path.startswith(other) and len(other) > len(link) for other in links)


def favicon(request: HttpRequest) -> str:
    return static("toolhub/icon.svg")


def styles(request: HttpRequest) -> str:
    """Return the style sheet that makes the theme's colours accessible."""
    return static("toolhub/admin.css")


def notice_styles(request: HttpRequest) -> str:
    """Return the style sheet of what `notices` tells."""
    return static("toolhub/notices.css")


def labels(request: HttpRequest) -> str:
    """Return the script that labels the theme's select boxes, which have no name for screen readers otherwise."""
    return static("toolhub/labels.js")


def search(request: HttpRequest) -> str:
    """Return the script that opens the search with Ctrl+K."""
    return static("toolhub/search.js")


def notices(request: HttpRequest) -> str:
    """Return the script of what other scripts tell: the session ended, something was copied."""
    return static("toolhub/notices.js")


def keyboard(request: HttpRequest) -> str:
    """Return the script with which the keyboard reaches every button of the theme."""
    return static("toolhub/keyboard.js")


def zone(request: HttpRequest) -> str:
    """Return the script that sends the browser's time zone to the server, for times in the admin."""
    return static("toolhub/zone.js")


def environment(request: HttpRequest) -> list[str]:
    """Return the badge with the name of the installation, in a warning colour where a mistake costs most."""
    name = settings.ENVIRONMENT
    return [name, "danger" if name.lower().startswith("prod") else "info"]
