"""Conditions, time windows and flags in the admin of grants and approval rules: data of the scripts, words, a preview.

The page works without the scripts, as a form with JSON in text areas. The scripts in static/catalog/ put rows on top of
these, write the same JSON back, and ask `arguments` for the arguments of the chosen item.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.urls import URLPattern, path, reverse
from django.utils.dates import WEEKDAYS
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from audit import local_time
from audit.admin_filters import is_key
from catalog.admin.history import HistoryAdmin
from catalog.conditions import definitions, flags, windows, words
from catalog.conditions.arguments import MAX_ARGUMENTS, Argument, Listing, list_arguments
from catalog.conditions.definitions import Condition, Steps
from catalog.conditions.expectations import BELONGS_TO
from catalog.conditions.forms import Alternative, Denial, Permission
from catalog.conditions.mistakes import ConditionError, Mistake
from catalog.models import Flag, Grant, Prompt, Resource, Tool, Toolset, ValueList, ValueListPart
from catalog.models.grant_conditions import arguments_of
from catalog.schemas import errors
from toolhub.invisible import show
from toolhub.time_zones import zones

MAX_NAMES: Final = 1_000
"""Maximum number of value lists, and of flags, that the form offers; others are entered as JSON."""
MAX_LISTED_CHARACTERS: Final = 200
"""Maximum length of the conditions in the list of grants."""
MAX_PREVIEW_CHARACTERS: Final = 20_000
WITH_ARGUMENTS: Final = {"tool": Tool, "prompt": Prompt, "resource": Resource}
CHOICES: Final = {**WITH_ARGUMENTS, "toolset": Toolset, "grant": Grant}
MAX_MERGED_TOOLS: Final = 100
"""Maximum number of tools of a toolset whose arguments the form offers together."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What the conditions of one grant leave of its item."""

    conditions: list[str]
    windows: list[str]
    text: str = ""
    """The narrowed schema as JSON."""
    problem: str = ""
    notes: list[str] = field(default_factory=list)


def list_value_lists() -> list[str]:
    """Return the names of value lists that forms offer; others are entered as JSON."""
    return list(ValueList.objects.order_by("name").values_list("name", flat=True)[:MAX_NAMES])


class ConditionsAdmin(HistoryAdmin):
    """Pages with a form for conditions and time windows."""

    change_form_template = "admin/catalog/grant/change_form.html"
    targets: ClassVar[tuple[str, ...]]
    """The fields of the form that choose what the conditions are about."""

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, obj: Any = None, **kwargs: Any) -> Any:
        may_edit = self.has_add_permission(request) if obj is None else self.has_change_permission(request, obj)
        context["rule_form"] = json.dumps(self.form_data()) if may_edit else None
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def form_data(self) -> dict[str, Any]:
        """Return the data for the scripts: names, without the values of lists."""
        zone = local_time.zone()
        return {
            "kind": self.opts.model_name,
            "targets": self.targets,
            "arguments": reverse("admin:catalog_grant_arguments"),
            "lists": list_value_lists(),
            "days": [[key, str(WEEKDAYS[number])] for number, key in enumerate(windows.DAYS)],
            "zones": sorted(zones()),
            "zone": zone if zone in zones() else "UTC",
        }

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Return what the address of the form gives, such as "Give access" with what was chosen there.

        What a field cannot hold is left out.
        """
        given: dict[str, Any] = super().get_changeform_initial_data(request)
        for name in ("environments", "conditions", "windows", "flags"):
            with suppress(ValueError):
                if name in given:
                    given[name] = json.loads(given.pop(name))
        for name in ("starts", "ends"):
            time = local_time.parse_time(str(given.pop(name, ""))[:40])
            if time is not None:
                given[name] = time
        return given


class GrantConditionsAdmin(ConditionsAdmin):
    """The pages of grants: with flags, a preview, and the arguments of what a form chooses."""

    targets = tuple(WITH_ARGUMENTS)

    def get_urls(self) -> list[URLPattern]:
        urls: list[URLPattern] = super().get_urls()
        own = path("arguments/", self.admin_site.admin_view(self.arguments), name="catalog_grant_arguments")
        return [own, *urls]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, obj: Any = None, **kwargs: Any) -> Any:
        context["preview"] = _build_preview(request, obj) if obj is not None else None
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def form_data(self) -> dict[str, Any]:
        named = {*Flag.objects.order_by("name").values_list("name", flat=True)[:MAX_NAMES], *settings.FLAGS}
        return {**super().form_data(), "flags": sorted(named)}

    def arguments(self, request: HttpRequest) -> HttpResponse:
        """Return {"arguments": [{"path", "name", "kinds", "title", "choices"}], "is_complete"} of what a form chooses.

        The query names it: `tool`, `prompt` or `resource` with its id, or a `toolset` or `grant` for its tools.
        """
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        kind = next((kind for kind in CHOICES if kind in request.GET), "tool")
        key = request.GET.get(kind, "")
        needed = {"toolset": ("toolset", "tool"), "grant": ("grant", "tool", "toolset")}.get(kind, (kind,))
        if not all(_may_view(request, one) for one in needed):
            raise PermissionDenied
        item: Any = CHOICES[kind]._default_manager.filter(pk=int(key)).first() if is_key(key) else None
        if item is None:
            raise Http404
        found = _list_arguments(item)
        listed = [one.as_data() for one in found.arguments]
        shown = [{**one, "name": show(one["name"]), "title": show(one["title"])} for one in listed]
        return JsonResponse({"arguments": shown, "is_complete": found.is_complete})

    @admin.display(description=_("conditions"))
    def restrictions(self, row: Grant) -> str:
        text = describe(row)
        return format_html('<span title="{}">{}</span>', text, text) if text else "-"


def describe(grant: Grant) -> str:
    """Return the conditions, time windows, flags and what else differs of a grant, in words, for a list."""
    try:
        parts = [words.join([words.translate(one) for one in definitions.parse(grant.conditions)])]
        parts += [words.translate_window(one) for one in windows.parse(grant.windows)]
        names = sorted(flags.parse(grant.flags))
    except Mistake as mistake:
        return words.mistake(mistake)
    if names:
        parts.append(gettext("flags: %(names)s") % {"names": ", ".join(names)})
    if grant.skips_approval:
        parts.append(gettext("runs without approval"))
    text = ""
    for part in filter(None, parts):
        text = gettext("%(first)s; %(second)s") % {"first": text, "second": part} if text else part
    return errors.cut(show(text), MAX_LISTED_CHARACTERS)


def _may_view(request: HttpRequest, kind: str) -> bool:
    return request.user.has_perm(f"catalog.view_{kind}") or request.user.has_perm(f"catalog.change_{kind}")


def _list_arguments(chosen: Any) -> Listing:
    """Return the arguments of an item, or of all tools of a toolset or a grant together."""
    item = chosen.tool or chosen.toolset if isinstance(chosen, Grant) else chosen
    if item is None:
        return Listing((), False)  # a grant of a prompt or resource, for which no rule asks
    if not isinstance(item, Toolset):
        try:
            return list_arguments(arguments_of(item).schema)
        except ValidationError:
            return Listing((), False)
    found: dict[Steps, Argument] = {}
    for tool in item.tools.order_by("pk")[:MAX_MERGED_TOOLS]:
        for one in _list_arguments(tool).arguments:
            found[one.steps] = found[one.steps].widen(one) if one.steps in found else one
    return Listing(tuple(found.values())[:MAX_ARGUMENTS], False)


def _build_preview(request: HttpRequest, grant: Grant) -> Preview | None:
    """Return what the stored conditions leave, for people who may view the item; None without any."""
    stored = Grant.everything.filter(
        pk=grant.pk
    ).first()  # a form that comes back with errors has changed the other one
    if stored is None or not (stored.conditions or stored.windows):
        return None
    try:
        conditions, opened = definitions.parse(stored.conditions), windows.parse(stored.windows)
    except Mistake as mistake:
        return Preview([], [], problem=words.mistake(mistake))
    sentences = [show(words.translate(one)) for one in conditions]
    preview = Preview(sentences, [words.translate_window(one) for one in opened])
    kind = next((kind for kind in WITH_ARGUMENTS if getattr(stored, f"{kind}_id") is not None), "")
    if not conditions or not kind or not request.user.has_perm(f"catalog.view_{kind}"):
        return preview
    return _narrow(preview, stored, getattr(stored, kind), conditions, request)


def _narrow(
    preview: Preview, grant: Grant, item: Any, conditions: tuple[Condition, ...], request: HttpRequest
) -> Preview:
    """Return the preview with the narrowed schema of an item."""
    names = {one.value for one in conditions if one.operator == BELONGS_TO}
    lists: dict[str, list[str]] = {}
    if request.user.has_perm("catalog.view_valuelistpart"):
        parts = ValueListPart.objects.filter(value_list__name__in=names, everyone=True)
        lists = {name: sorted(entries) for name, entries in parts.values_list("value_list__name", "entries")}
    used = [one for one in conditions if one.operator != BELONGS_TO or lists.get(one.value)]
    notes = [gettext("Values of lists depend on the user. Here are those for everyone.")] if names else []
    if grant.effect == Grant.Effect.DENY:
        if len(used) < len(conditions):  # without one of its conditions, it would deny more
            return Preview(preview.conditions, preview.windows, notes=notes)
        denial = Denial.of(grant.pk, used, lists, names_item=True)
        permission = Permission.build([Alternative(grant.pk)], [denial])
    else:
        permission = Permission.build([Alternative.of(grant.pk, used, lists, names_item=True)], [])
    try:
        form = arguments_of(item).narrow(permission)
    except ValidationError as error:
        return Preview(preview.conditions, preview.windows, problem=" ".join(error.messages))
    if form.schema is None:
        mistake = form.misfits.get(grant.pk, ConditionError("impossible"))
        return Preview(preview.conditions, preview.windows, problem=words.mistake(mistake), notes=notes)
    if not form.is_exact:
        notes.append(gettext("Conditions that no schema can show are checked when a client calls."))
    text = errors.cut(json.dumps(form.schema, indent=2, ensure_ascii=False), MAX_PREVIEW_CHARACTERS)
    return Preview(preview.conditions, preview.windows, show(text), notes=notes)
