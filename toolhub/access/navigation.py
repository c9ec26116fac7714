"""The admin's sidebar and its badge. Models are named as text, so that this layer imports no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib import admin
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
"""The title of a group, its models (name, icon), and its other pages (address name, icon, title, permissions)."""


def _count_reviews() -> int:
    """Return how many tools, resources and prompts need review, with one query."""
    first, *others = (
        apps.get_model(f"catalog.{name}")._default_manager.needing_review().order_by().values("pk")
        for name in ("tool", "resource", "prompt")
    )
    return int(first.union(*others, all=True).count())


def _count_open(label: str) -> int:
    return int(apps.get_model(label)._default_manager.filter(state="open").count())


BADGES: Mapping[str, Callable[[], int]] = {
    "pages:review": _count_reviews,
    "pages:requests": partial(_count_open, "catalog.accessrequest"),
    "pages:reports": partial(_count_open, "catalog.callreport"),
}
"""The number beside a page in the sidebar; none for 0."""


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the sidebar with the pages that the user may open.

    An auditor finds the audit log and no link that answers 403.
    """
    groups: list[dict[str, Any]] = []
    for title, entries, others in GROUPS:
        items = []
        for label, icon in entries:
            model = apps.get_model(label)
            page = admin.site._registry.get(model)
            if page is not None and page.has_view_or_change_permission(request):
                name = f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"
                items.append({"title": capfirst(model._meta.verbose_name_plural), "icon": icon, "link": reverse(name)})
        for address, icon, name, permissions in others:
            if request.user.has_perms(permissions):
                badge = BADGES[address]() if address in BADGES else 0
                look = {"badge": badge, "badge_variant": "warning"}
                items.append({"title": str(name), "icon": icon, "link": reverse(address), **look})
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


def favicon(request: HttpRequest) -> str:
    return static("toolhub/icon.svg")


def styles(request: HttpRequest) -> str:
    """Return the style sheet that makes the theme's colours accessible."""
    return static("toolhub/admin.css")


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
