"""The form "Give access": who, what, until when, where and why, and a preview of what needs a second look.

Each access page links here with its own tool, toolset or group chosen. A choice that denies, that opens a destructive
tool or that a denial overrides is shown before it is saved. So is a tool that does not say whether it is destructive.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from audit import local_time
from catalog.models import Grant, Tool, Toolset, validators
from catalog.models.tools import MAY_DESTROY
from catalog.policy import effects, grant_changes, snapshot
from catalog.policy import messages as policy_messages
from catalog.policy.definitions import GrantRule
from toolhub.invisible import show
from toolhub.pages.access.giving import GIVE_PERMISSIONS, give
from toolhub.pages.access.places import find_address, parse_pairs
from toolhub.pages.lists import filter_rows
from toolhub.pages.staff import page, staff_page
from toolhub.ranking import rank_by_name

MAX_RESULTS = 20
"""Maximum results of one search in each of the two tables of a picker."""
MAX_CHOSEN = 100
"""Maximum choices in a picker."""
MAX_LISTED = 20
"""Maximum names that a preview lists."""
WHO, WHAT = ("user", "group", "everyone"), ("tool", "toolset")
EVERYONE = "everyone:0"
NEW_GROUP = "new_group"
CONDITIONS = "conditions"
MAY_ADD_GROUP = "auth.add_group"
EFFECTS = ((grant_changes.ALLOW, gettext_lazy("allow")), (grant_changes.DENY, gettext_lazy("deny")))
NONE, TODAY, WEEK, DATE = "", "today", "week", "date"
UNTIL: tuple[tuple[str, str | Promise], ...] = (
    (NONE, gettext_lazy("no end")),
    (TODAY, gettext_lazy("the end of today")),
    (WEEK, gettext_lazy("the end of this day in a week")),
    (DATE, gettext_lazy("the end of the date below")),
)
Choice = tuple[str, str]
"""The value and the words of one choice."""


@dataclass(frozen=True, slots=True)
class Picker:
    """One search box with its choices and results."""

    key: str
    title: str
    chosen: list[Choice]
    query: str
    found: list[Choice]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a form asks for."""

    who: tuple[grant_changes.Subject, ...]
    what: tuple[grant_changes.Target, ...]
    effect: str
    until: datetime | None
    where: tuple[str, ...]
    why: str

    @property
    def change(self) -> grant_changes.GrantChange:
        return grant_changes.GrantChange(self.effect, self.what, self.who, None, self.until, self.where, self.why)

    def give(self, reviewed: str | None = None) -> tuple[grant_changes.Plan, bool]:
        return give(
            self.who,
            self.what,
            until=self.until,
            where=self.where,
            why=self.why,
            effect=self.effect,
            reviewed=reviewed,
        )


@staff_page(*GIVE_PERMISSIONS)
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def give_access(request: HttpRequest) -> HttpResponse:
    data: QueryDict = request.POST if request.method == "POST" else request.GET
    problems: list[str] = []
    may_add_group = request.user.has_perm(MAY_ADD_GROUP)
    if request.method == "POST" and data.get("do") == NEW_GROUP:
        if not may_add_group:
            raise PermissionDenied
        data, problems = _add_group(request, data)
    if request.method == "POST" and data.get("do") == CONDITIONS:
        wish, problems = _parse(data)
        if wish is not None and (len(wish.who), len(wish.what)) == (1, 1):
            return redirect(_find_single_form(wish))
        if wish is not None:
            text = _("Conditions belong to one grant. Choose only one user or group, and one tool or toolset.")
            problems.append(text)
    elif request.method == "POST" and data.get("do") in {"review", "give"}:
        wish, problems = _parse(data)
        if wish is not None:
            try:
                response = _answer(request, data, wish)
            except grant_changes.TooManyPairs:
                text = _("One change can cover at most %d grants. Choose fewer items.")
                problems.append(text % grant_changes.MAX_PAIRS)
            except ValidationError as error:
                problems += error.messages
            else:
                return response
    context = {
        "pickers": [_picker(data, "who"), _picker(data, "what")],
        "data": data,
        "effect": data.get("effect") or grant_changes.ALLOW,
        "effects": EFFECTS,
        "until": data.get("until", NONE),
        "untils": UNTIL,
        "here": settings.ENVIRONMENT,
        "problems": problems,
        "may_add_group": may_add_group,
        "place": data.get("place", "")[:40],
        "back": find_address(data.get("place", "")),
    }
    return page(request, "admin/pages/give_access.html", _("Give access"), **context)


@staff_page(*GIVE_PERMISSIONS)
@require_safe
def pick(request: HttpRequest) -> JsonResponse:
    """Return {"results": [{"id": "group:5", "name"}]} of people or of tools, for the search boxes."""
    search = _find_what if request.GET.get("kind") == "what" else _find_who
    return JsonResponse(
        {"results": [{"id": value, "name": words} for value, words in search(request.GET.get("q", ""))]}
    )


def _answer(request: HttpRequest, data: QueryDict, wish: Wish) -> HttpResponse:
    """Save what needs no second look, or was confirmed; show a preview of anything else."""
    plan = grant_changes.Plan.build(wish.change)
    reviewed, stale = data.get("sure"), False
    destructive, against, denials = _find_risks(wish, plan)
    if reviewed is not None or not (wish.effect == grant_changes.DENY or destructive or against):
        plan, done = wish.give(reviewed)
        if done:
            return _report(request, data, plan)
        stale = True
        destructive, against, denials = _find_risks(wish, plan)
    kept = [(name, value) for name, values in data.lists() for value in values if name not in _OWN_FIELDS]
    context = {
        "plan": plan,
        "wish": plan.change,
        "note": show(plan.change.note),
        "stale": stale,
        "kept": kept,
        "make": [_describe_pair(wish.effect, *pair) for pair in plan.to_create[:MAX_LISTED]],
        "more": max(0, len(plan.to_create) - MAX_LISTED),
        "there": [show(policy_messages.name_row(grant)) for grant in plan.existing[:MAX_LISTED]],
        "against": [show(policy_messages.name_row(grant)) for grant in against],
        "more_against": denials - len(against),
        "destructive": [(show(name), is_declared) for name, is_declared in destructive[:MAX_LISTED]],
        "destructive_count": len(destructive),
        "effect": _find_effect(wish),
        "here": settings.ENVIRONMENT,
    }
    return page(request, "admin/pages/give_preview.html", _("Review changes"), **context)


def _find_single_form(wish: Wish) -> str:
    """Return the address of the form of one grant, filled in: it also has conditions, time windows and flags."""
    query: dict[str, object] = {"effect": wish.effect, "note": wish.why}
    if wish.where:
        query["environments"] = json.dumps(wish.where)
    (subject,), (target,) = wish.who, wish.what
    query |= {subject.kind: subject.id or "1", target.kind: target.id}
    if wish.until is not None:
        query["ends"] = wish.until.isoformat()
    filled = {name: value for name, value in query.items() if value}
    return f"{reverse('admin:catalog_grant_add')}?{urlencode(filled)}"


_OWN_FIELDS = frozenset({"csrfmiddlewaretoken", "sure", "do"})


def _report(request: HttpRequest, data: QueryDict, plan: grant_changes.Plan) -> HttpResponse:
    made, kept = len(plan.to_create), len(plan.existing)
    if made:
        text = ngettext("%(number)s grant was created.", "%(number)s grants were created.", made)
        messages.success(request, text % {"number": made})
    if kept:
        text = ngettext("%(number)s grant already exists.", "%(number)s grants already exist.", kept)
        messages.info(request, text % {"number": kept})
    return redirect(find_address(data.get("place", "")))


def _add_group(request: HttpRequest, data: QueryDict) -> tuple[QueryDict, list[str]]:
    """Create a group with the name in the search box; return the form with this group chosen, and the errors."""
    group = Group(name=data.get("who_q", "").replace("\0", "").strip())
    if not group.name:
        return data, [_("Enter the name of the new group in the search box.")]
    if len(data.getlist("who")) >= MAX_CHOSEN:
        text = _("You can choose at most %(most)d users and groups at once. Remove one before you create a group.")
        return data, [text % {"most": MAX_CHOSEN}]
    try:
        group.full_clean()
        with transaction.atomic():
            group.save()
    except ValidationError as error:
        return data, error.messages
    except IntegrityError:
        return data, [_("There is a group with this name by now. Search for it.")]
    data = data.copy()
    data.appendlist("who", f"group:{group.pk}")
    data["who_q"] = ""
    text = _("The group %(group)s was created. It has no members yet: invite people into it, or add members.")
    messages.success(request, text % {"group": show(group.name)})
    return data, []


def _parse(data: QueryDict) -> tuple[Wish | None, list[str]]:
    """Return what the form asks for and no errors, or None and the errors."""
    problems: list[str] = []
    who, what = _parse_who(data), _parse_what(data)
    if not who:
        problems.append(_("Choose at least one group or user."))
    if not what:
        problems.append(_("Choose at least one toolset or tool."))
    effect = data.get("effect") or grant_changes.ALLOW
    if effect not in dict(EFFECTS):
        problems.append(_("Choose what to do."))
    until = _parse_until(data, problems)
    where = tuple(data.get("environments", "").replace(",", " ").split())
    try:
        validators.environments(list(where))
    except ValidationError:
        problems.append(_("Enter environment names such as production, separated by spaces."))
    if problems:
        return None, problems
    return Wish(who, what, effect, until, where, data.get("note", "").replace("\0", "").strip()[:500]), problems


def _parse_who(data: QueryDict) -> tuple[grant_changes.Subject, ...]:
    pairs = parse_pairs(data, "who", WHO, MAX_CHOSEN)
    users, groups = ([key for one, key in pairs if one == kind] for kind in ("user", "group"))
    everyone = any(kind == "everyone" for kind, _key in pairs)
    return tuple(grant_changes.subjects(users, groups, everyone=everyone, word=_("everyone")))


def _parse_what(data: QueryDict) -> tuple[grant_changes.Target, ...]:
    pairs = parse_pairs(data, "what", WHAT, MAX_CHOSEN)
    tools, toolsets = ([key for one, key in pairs if one == kind] for kind in ("tool", "toolset"))
    return tuple(grant_changes.targets(tools, toolsets))


def _parse_until(data: QueryDict, problems: list[str]) -> datetime | None:
    """Return the end of a day in the reader's zone: the same whenever the form is sent on that day."""
    choice, day = data.get("until", NONE), timezone.localdate()
    match choice:
        case "":
            return None
        case "today" | "week":
            day += timedelta(days=7 if choice == WEEK else 0)
            return local_time.parse_time(day.isoformat(), end=True)
    text = data.get("date", "").strip()[:40]
    found = local_time.parse_time(text, end=True)
    if choice != DATE or found is None:
        problems.append(_("Choose until when, or enter a date."))
    elif found <= timezone.now():
        problems.append(_("The end must be in the future."))
    return found


def _picker(data: QueryDict, key: str) -> Picker:
    query = data.get(f"{key}_q", "").strip()[:100]
    if key == "who":
        title, chosen, found = _("Users and groups"), [_name_subject(one) for one in _parse_who(data)], _find_who(query)
    else:
        targets = _parse_what(data)
        title, chosen = _("Tools and toolsets"), _name_targets(targets)
        found = _find_what(query) if query else _find_containing(targets) or _find_what(query)
    taken = {value for value, _words in chosen}
    return Picker(key, title, chosen, query, [one for one in found if one[0] not in taken])


def _name_subject(one: grant_changes.Subject) -> Choice:
    return f"{one.kind}:{one.id}", show(policy_messages.subject(one.kind, one.name))


def _name_targets(targets: Sequence[grant_changes.Target]) -> list[Choice]:
    tools = {tool.pk: tool for tool in Tool.objects.filter(pk__in=[one.id for one in targets if one.kind == "tool"])}
    return [
        _name_tool(tools[one.id]) if one.kind == "tool" and one.id in tools else _name_toolset(one.id, one.name)
        for one in targets
        if one.kind == "toolset" or one.id in tools
    ]


def _name_tool(tool: Tool) -> Choice:
    return f"tool:{tool.pk}", policy_messages.target("tool", policy_messages.name_with_marks(tool))


def _name_toolset(key: int, name: str) -> Choice:
    return f"toolset:{key}", show(policy_messages.target("toolset", name))


def _find_containing(targets: Sequence[grant_changes.Target]) -> list[Choice]:
    """Return the toolsets that hold one of the chosen tools: granting one of them is often what is meant."""
    tools = [one.id for one in targets if one.kind == "tool"]
    rows = Toolset.objects.filter(tools__in=tools).distinct().order_by("name")[:MAX_RESULTS]
    return [_name_toolset(row.pk, row.name) for row in rows]


def _find_who(query: str) -> list[Choice]:
    query = query.strip()[:100]
    groups = _search(Group.objects.all(), ("name",), query).values_list("pk", "name")
    users = _search(get_user_model().objects.filter(is_active=True), ("username", "first_name", "last_name"), query)
    found = [(f"group:{key}", show(policy_messages.subject("group", name))) for key, name in groups]
    for user in users:
        words = policy_messages.subject("user", user.get_username())
        name = user.get_full_name()
        found.append((f"user:{user.pk}", show(f"{words} ({name})" if name else words)))
    everyone = policy_messages.subject("everyone")
    return [(EVERYONE, everyone), *found] if query.lower() in everyone.lower() else found


def _find_what(query: str) -> list[Choice]:
    query = query.strip()[:100]
    toolsets = _search(Toolset.objects.all(), ("name",), query).values_list("pk", "name")
    tools = _search(Tool.objects.all(), ("name", "title"), query).only(*_TOOL_COLUMNS)
    return [*(_name_toolset(key, name) for key, name in toolsets), *(_name_tool(tool) for tool in tools)]


_TOOL_COLUMNS = ("name", "destructive", "read_only", "enabled", "quarantined_since")


def _search(rows: QuerySet[Any], fields: tuple[str, ...], query: str) -> QuerySet[Any]:
    return rank_by_name(filter_rows(rows, fields, query), fields[0], query)[:MAX_RESULTS]


def _find_risks(wish: Wish, plan: grant_changes.Plan) -> tuple[list[tuple[str, bool]], list[Grant], int]:
    """Return what a person looks at before giving access: destructive tools, and denials that override it.

    The number is that of all denials; as many as a preview lists are returned.
    """
    if wish.effect != grant_changes.ALLOW:
        return [], [], 0
    return _find_destructive(plan), *_find_denials(wish, plan)


def _find_destructive(plan: grant_changes.Plan) -> list[tuple[str, bool]]:
    """Return the names of the destructive tools that the new grants open, and whether they say so.

    A tool that writes and says nothing counts, as in MCP.
    """
    targets = {(target.kind, target.id) for target, _subject in plan.to_create}
    tools = [key for kind, key in targets if kind == "tool"]
    toolsets = [key for kind, key in targets if kind == "toolset"]
    risky = Tool.objects.filter(MAY_DESTROY).order_by()
    found = {*risky.filter(pk__in=tools).values_list("name", "destructive")}
    found |= {*risky.filter(toolsets__in=toolsets).values_list("name", "destructive")}
    return sorted((name, destructive is not None) for name, destructive in found)


def _find_denials(wish: Wish, plan: grant_changes.Plan) -> tuple[list[Grant], int]:
    """Return the first denials that keep some of what is given from some of the people, and the number of all.

    They may be for a group or a toolset.
    """
    catalogue, subjects, targets = snapshot.latest(), _list_subjects(wish), [(one.kind, one.id) for one in wish.what]
    people, items = effects.find_people(catalogue, subjects), effects.find_items(catalogue, targets)
    rules = effects.find_denials(catalogue, people, items, wish.where, time.time())
    others = sorted({rule.id for rule in rules} - {grant.pk for grant in plan.overriding})
    rows = Grant.objects.select_related("user", "group", "tool", "toolset", "resource", "prompt").order_by("pk")
    found = [*plan.overriding[:MAX_LISTED]]
    found += rows.filter(pk__in=others[: MAX_LISTED - len(found)])
    return found, len(plan.overriding) + len(others)


def _list_subjects(wish: Wish) -> list[tuple[str, int | None]]:
    return [(one.kind, one.id if one.kind != "everyone" else None) for one in wish.who]


def _find_effect(wish: Wish) -> effects.Effect:
    """Return whom the new grants change here and now."""
    catalogue = snapshot.latest()
    subjects = _list_subjects(wish)
    targets = [(one.kind, one.id) for one in wish.what]
    ends, where = wish.until.timestamp() if wish.until is not None else None, frozenset(wish.where)
    rules = [
        GrantRule(0, wish.effect, kind, key, subject_kind, subject_id, None, ends, where)
        for kind, key in targets
        for subject_kind, subject_id in subjects
    ]
    after = effects.with_grants(catalogue, add=rules)
    people, items = effects.find_people(catalogue, subjects), effects.find_items(catalogue, targets)
    return effects.compare(catalogue, after, people, items, time.time(), settings.ENVIRONMENT)


def _describe_pair(effect: str, target: grant_changes.Target, subject: grant_changes.Subject) -> str:
    values = {
        "what": show(policy_messages.target(target.kind, target.name)),
        "whom": show(policy_messages.subject(subject.kind, subject.name)),
    }
    text = _("Deny %(what)s to %(whom)s") if effect == grant_changes.DENY else _("Allow %(what)s to %(whom)s")
    return text % values
