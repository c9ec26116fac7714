"""The checklist of a new installation on Overview. Each step is done when the database or the settings say so.

What quickstart brings does not count: its example tools, the demo user, and the token that it prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast
from urllib.parse import urlencode

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from catalog import canonical
from catalog.examples.catalogue import TOOLSET
from catalog.models import Grant, Tool, Toolset
from toolhub.access.models import AccessToken, Preference
from toolhub.pages import examples
from toolhub.pages.access.giving import GIVE_PERMISSIONS
from toolhub.pages.access.places import OVERVIEW
from toolhub.pages.examples import DEMO
from toolhub.pages.models import BackupConfirmation
from toolhub.pages.staff import staff_page

QUICKSTART_TOKEN = "quickstart"  # noqa: S105
"""The name of the token that quickstart creates for the demo user."""
MAY_ADD_TOOL, MAY_GRANT, MAY_INVITE = "catalog.add_tool", "catalog.add_grant", "auth.add_user"
MAY_BACK_UP = "pages.manage_backups"


@dataclass(frozen=True, slots=True)
class Step:
    done: bool
    title: str
    text: str
    href: str


@dataclass(frozen=True, slots=True)
class Checklist:
    steps: tuple[Step, ...]
    hidden: bool
    """Whether this person hid it."""

    @property
    def done(self) -> int:
        return sum(step.done for step in self.steps)


@dataclass(frozen=True, slots=True)
class Facts:
    """State of the installation, as far as the steps depend on it."""

    hidden: bool
    tool: bool
    access: bool
    people: bool
    client: bool
    backup: bool
    unchanged_examples: bool
    toolset: int | None
    """Primary key of the toolset of the examples."""
    ungranted: int | None
    """Primary key of the newest tool of one's own without any grant."""


def find(request: HttpRequest) -> Checklist | None:
    """Return the steps that this person may take; None when there are none, or when all of them are done."""
    user = cast(User, request.user)
    if not any(map(user.has_perm, (MAY_ADD_TOOL, MAY_GRANT, MAY_INVITE, MAY_BACK_UP))):
        return None
    facts = _collect(user)
    steps = tuple(_list_steps(user, facts))
    return None if all(step.done for step in steps) else Checklist(steps, facts.hidden)


@staff_page()
@require_POST
def hide(request: HttpRequest) -> HttpResponse:
    return _set_hidden(request, True)


@staff_page()
@require_POST
def show(request: HttpRequest) -> HttpResponse:
    return _set_hidden(request, False)


def _set_hidden(request: HttpRequest, hidden: bool) -> HttpResponse:
    Preference.objects.update_or_create(user=cast(User, request.user), defaults={"checklist_hidden": hidden})
    return redirect("admin:index")


def _list_steps(user: User, facts: Facts) -> Iterator[Step]:
    """Yield the steps in order. With the examples there is something to try at once; without, a tool comes first."""
    own_tool = _add_tool(user, facts)
    if not facts.unchanged_examples or facts.tool:
        yield from own_tool
    yield from _give_access(user, facts)
    if facts.unchanged_examples and not facts.tool:
        yield from _connect(user, facts)
        yield from own_tool
        yield from _invite(user, facts)
    else:
        yield from _invite(user, facts)
        yield from _connect(user, facts)
    if user.has_perm(MAY_BACK_UP):
        page = reverse("pages:backups")
        yield Step(
            bool(settings.CHECKPOINT_FILE),
            _("Set an external checkpoint"),
            _("Without one, somebody with access to the database could delete the newest entries of the audit log."),
            f"{page}#external-checkpoint",
        )
        yield Step(
            facts.backup,
            _("Back up"),
            _("See what a backup of this installation needs. Confirm when backups are set up."),
            f"{page}#backups",
        )


def _add_tool(user: User, facts: Facts) -> list[Step]:
    if not user.has_perm(MAY_ADD_TOOL):
        return []
    text = _("A Python function, an HTTP API, a program, a database query, or a tool of another MCP server.")
    title = _("Add a tool of your own") if facts.unchanged_examples else _("Add a tool")
    return [Step(facts.tool, title, text, reverse("admin:catalog_tool_add"))]


def _give_access(user: User, facts: Facts) -> list[Step]:
    if not user.has_perm(MAY_GRANT):
        return []
    address = reverse("admin:catalog_grant_add")
    if facts.toolset is None or facts.access or facts.tool:
        text = _("A tool is hidden until you grant it to a user, a group, or everyone.")
        if user.has_perms(GIVE_PERMISSIONS):
            chosen = {"what": f"tool:{facts.ungranted}"} if facts.ungranted else {}
            address = f"{reverse('pages:give')}?{urlencode({**chosen, 'place': OVERVIEW})}"
    else:
        address += "?" + urlencode({"toolset": facts.toolset, "user": user.pk})
        text = _(
            "A tool is hidden until you grant it. Open the form and choose Save to give yourself the example tools."
        )
    return [Step(facts.access, _("Give access"), text, address)]


def _invite(user: User, facts: Facts) -> list[Step]:
    if user.has_perm(MAY_INVITE) and settings.LOCAL_PASSWORDS:
        address = reverse("admin:people_invitation_add")
        text = _("Send invitations, import a list, or let people sign in with your identity provider.")
    elif user.is_superuser:
        address = reverse("admin:identity_provider_changelist")
        text = _("Let people sign in with your identity provider.")
    else:
        return []
    return [Step(facts.people, _("Invite people"), text, address)]


def _connect(user: User, facts: Facts) -> list[Step]:
    if not (user.has_perm(MAY_ADD_TOOL) or user.has_perm(MAY_GRANT)):
        return []
    text = _("Choose your AI client. The page shows the exact steps.")
    return [Step(facts.client, _("Connect a client"), text, reverse("access:connect"))]


def _collect(user: User) -> Facts:
    """Ask the database once, and once more while the examples are the only tools."""
    now = timezone.now()
    others = User.objects.filter(is_active=True).exclude(username=DEMO)
    invitations: QuerySet[Any] = apps.get_model("people.Invitation")._default_manager.pending(now)
    row = User.objects.values(
        hidden=F("preference__checklist_hidden"),
        tool=Exists(Tool.objects.exclude(name__in=examples.names())),
        access=Exists(_list_grants(others, now)),
        person=Exists(others.exclude(pk=user.pk)),
        invitation=Exists(invitations),
        provider=Exists(apps.get_model("identity.Provider")._default_manager.filter(enabled=True)),
        token=Exists(AccessToken.objects.exclude(last_used=None).exclude(user__username=DEMO, name=QUICKSTART_TOKEN)),
        app=Exists(apps.get_model("oauth.ConnectedApp")._default_manager.exclude(activated=None)),
        backup=Exists(BackupConfirmation.objects.all()),
        toolset=Subquery(Toolset.objects.filter(name=TOOLSET).values("pk")[:1]),
        ungranted=Subquery(_list_ungranted().values("pk")[:1]),
    ).get(pk=user.pk)
    known = [] if row["tool"] else list(Tool.objects.filter(name__in=examples.names()).only("name", *examples.COMPARED))
    unchanged = [examples.is_unchanged(tool) for tool in known]
    return Facts(
        hidden=bool(row["hidden"]),
        tool=row["tool"] or not all(unchanged),
        access=row["access"],
        people=row["person"] or row["invitation"] or row["provider"],
        client=row["token"] or row["app"],
        backup=row["backup"],
        unchanged_examples=any(unchanged),
        toolset=row["toolset"] if any(unchanged) else None,
        ungranted=row["ungranted"],
    )


def _list_ungranted() -> QuerySet[Tool]:
    """Return the tools of one's own that no grant names, by itself or through a toolset; the newest first."""
    own = Tool.objects.exclude(name__in=examples.names())
    named = Grant.objects.filter(tool=OuterRef("pk"))
    through = Grant.objects.filter(toolset__tools=OuterRef("pk"))
    # Two conditions: of one with "or", PostgreSQL would compare every tool with every grant.
    return own.filter(~Exists(named), ~Exists(through)).order_by("-pk")


def _list_grants(people: QuerySet[User], now: datetime) -> QuerySet[Grant]:
    """Return the grants that reach one of these people in this environment, now or later."""
    here = Q(environments=[]) | Q(environments__contains=canonical.dumps(settings.ENVIRONMENT))
    whom = Q(everyone=True) | Q(user__in=people) | Q(group__user__in=people)
    return Grant.objects.filter(here, whom, Q(ends=None) | Q(ends__gt=now), effect=Grant.Effect.ALLOW)
