"""One click on the overview: the remaining example tools for the demo user, except those that could do harm.

A tool that an administrator changed is no example any more, and is left alone.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from catalog.examples import catalogue
from catalog.models import Grant, Tool
from catalog.policy import obstacles, rules, snapshot
from toolhub.pages.staff import staff_page

DEMO = "demo"
NOTE = "An example, granted from the overview."
HARMFUL_RUNNERS = frozenset({"command"})
HARMFUL = frozenset({"send_email"})
UNDECIDED = frozenset({rules.NO_GRANT.code, obstacles.NOT_MEMBER, obstacles.ONLY_OTHERS})
"""Obstacles of an item that no grant of the person's own is about."""
COMPARED = ("runner", "settings", "input_schema", "read_only", "destructive", "open_world")
"""What makes a row the example that it was; its texts and its position may change."""


def find_ungranted() -> list[Tool]:
    """Return the harmless examples that the demo user cannot use for want of a grant, by position."""
    user = User.objects.filter(username=DEMO, is_active=True).first()
    if user is None:
        return []
    known = _examples()
    tools = Tool.objects.filter(name__in=known, enabled=True, quarantined_since=None).order_by("position", "name")
    current, requester = snapshot.latest(), rules.Requester(user.pk)
    explainer = obstacles.Explainer(current, time.time(), settings.ENVIRONMENT)
    found = []
    for tool in tools:
        item = current.tools.get(tool.name)
        if item is None or not _is_safe(tool) or not _is_unchanged(tool, known[tool.name]):
            continue
        # A denial, and a grant that ended or does not apply now, is somebody's decision.
        codes = explainer.explain(requester, item).codes
        if codes and codes <= UNDECIDED:
            found.append(tool)
    return found


@staff_page("catalog.view_tool", "catalog.add_grant")
@require_POST
def grant_examples(request: HttpRequest) -> HttpResponse:
    with transaction.atomic():
        user = User.objects.filter(username=DEMO, is_active=True).first()
        tools = find_ungranted()
        for tool in tools:
            Grant.objects.create(tool=tool, user=user, note=NOTE)
    if tools:
        names = ", ".join(tool.name for tool in tools)
        messages.success(request, _("Granted to %(user)s: %(names)s.") % {"user": DEMO, "names": names})
    else:
        messages.info(request, _("There is no example left to grant."))
    return redirect("admin:index")


def names() -> list[str]:
    """Return the names of all examples."""
    return list(_examples())


def is_unchanged(tool: Tool) -> bool:
    """Return whether this tool is one of the examples, as it came."""
    example = _examples().get(tool.name)
    return example is not None and _is_unchanged(tool, example)


def _is_safe(tool: Tool) -> bool:
    return not tool.destructive and tool.runner not in HARMFUL_RUNNERS and tool.name not in HARMFUL


def _is_unchanged(tool: Tool, example: Mapping[str, object]) -> bool:
    return all(getattr(tool, column) == value for column, value in example.items())


@functools.cache
def _examples() -> Mapping[str, Mapping[str, object]]:
    """Return what is compared of each example: part of the code, and too slow to read for every visit."""
    tools = catalogue.read()["tools"]
    return {entry["name"]: {name: entry[name] for name in COMPARED if name in entry} for entry in tools}
