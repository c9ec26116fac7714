"""Lists of tools, resources and prompts: the selected ones are added to a toolset, or taken out of one.

A toolset is what people are granted, so that the page says first how many would get access, and how many would lose it
through this toolset.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from audit.admin_filters import is_key
from catalog.models import Tool, Toolset
from catalog.models.tools import MAY_DESTROY
from catalog.policy import large_changes, visibility
from catalog.policy import messages as policy_messages

MAX_ITEMS = 1_000
"""Maximum items of one change."""
MAX_LISTED_NAMES = 20


class ToolsetChoiceForm(forms.Form):
    """A choice of an existing toolset, or the name of a new one for those who may create it."""

    toolset = forms.ModelChoiceField(
        Toolset.objects.order_by("name"), required=False, label=_("Toolset"), widget=UnfoldAdminSelectWidget
    )
    name = forms.CharField(
        max_length=100,
        required=False,
        label=_("Or the name of a new toolset"),
        widget=UnfoldAdminTextInputWidget,
        help_text=_("No one has access to a new toolset until you grant it."),
    )

    def __init__(self, *args: Any, may_create: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        if not may_create:
            del self.fields["name"]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        name = str(values.get("name") or "").strip()
        if bool(values.get("toolset")) == bool(name):
            raise forms.ValidationError(gettext("Choose one toolset."), code="one_toolset")
        if name:
            new = Toolset(name=name)
            new.full_clean()
            values["toolset"] = new
        return values


class ToolsetActions(admin.ModelAdmin):  # type: ignore[type-arg]
    """Two bulk actions of a list whose items are in toolsets."""

    @admin.action(description=_("Add selected to a toolset"), permissions=["change"])
    def add_to_toolset(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._choose_toolset(request, queryset, adding=True)

    @admin.action(description=_("Take selected out of a toolset"), permissions=["change"])
    def remove_from_toolset(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return self._choose_toolset(request, queryset, adding=False)

    def _choose_toolset(self, request: HttpRequest, queryset: QuerySet[Any], *, adding: bool) -> HttpResponse | None:
        """Ask for the toolset, and change its members once it is chosen and confirmed."""
        may_create = adding and request.user.has_perm("catalog.add_toolset")
        chosen = "toolset" in request.POST
        form = ToolsetChoiceForm(request.POST if chosen else None, may_create=may_create)
        number = queryset.count()
        if number > MAX_ITEMS:
            text = gettext("Select at most %(most)s items.") % {"most": f"{MAX_ITEMS:,}"}
            messages.error(request, text)
            return None
        toolset: Toolset | None = form.cleaned_data["toolset"] if form.is_valid() else None
        # The button is bound to the toolset that the page told about: another choice is shown first.
        if toolset is not None and request.POST.get("confirmed") == _identify(toolset):
            self._change_members(request, queryset, toolset, adding=adding)
            return _find_way_back(request, toolset)
        title = gettext("Add to a toolset") if adding else gettext("Take out of a toolset")
        names = [str(item) for item in queryset.order_by("pk")[: MAX_LISTED_NAMES + 1]]
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "content_title": title,
            "form": form,
            "adding": adding,
            "number": number,
            "names": names[:MAX_LISTED_NAMES],
            "more": number - MAX_LISTED_NAMES,
            "toolset": toolset,
            "identity": _identify(toolset) if toolset is not None else "",
            "people": _count_people(toolset) if toolset is not None else 0,
            "action": request.POST.get("action", ""),
            "selected": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "back": request.POST.get("back", "")[:20],
            "select_across": request.POST.get("select_across", "0"),
            "checkbox": ACTION_CHECKBOX_NAME,
            "destructive": _count_destructive(queryset) if adding else 0,
            "environment": settings.ENVIRONMENT,
        }
        return TemplateResponse(request, "admin/catalog/toolset_members.html", context)

    def _change_members(self, request: HttpRequest, queryset: QuerySet[Any], toolset: Toolset, *, adding: bool) -> None:
        keys = list(queryset.order_by().values_list("pk", flat=True))
        key, name, is_new = toolset.pk, toolset.name, toolset._state.adding

        def change() -> int:
            chosen = Toolset.objects.create(name=name) if is_new else Toolset.objects.get(pk=key)
            items = self.model._default_manager.filter(pk__in=keys)
            items = items.exclude(toolsets=chosen) if adding else items.filter(toolsets=chosen)
            changed = list(items.order_by("pk"))
            for item in changed:  # one by one: each is a version in the item's history
                (item.toolsets.add if adding else item.toolsets.remove)(chosen)
            return len(changed)

        try:
            number = large_changes.run(change)
        except (large_changes.Stale, Toolset.DoesNotExist):
            messages.error(request, policy_messages.CHANGED_MEANWHILE)
            return
        if adding:
            text = ngettext("%(number)s item added to %(toolset)s.", "%(number)s items added to %(toolset)s.", number)
        else:
            text = ngettext(
                "%(number)s item taken out of %(toolset)s.", "%(number)s items taken out of %(toolset)s.", number
            )
        messages.success(request, text % {"number": f"{number:,}", "toolset": toolset.name})


def _find_way_back(request: HttpRequest, toolset: Toolset) -> HttpResponse | None:
    """Return the way to the page of the toolset or import that this began on; None is the way to the list."""
    place, _colon, number = request.POST.get("back", "").partition(":")
    if place == "toolset" and not toolset._state.adding:
        return redirect("pages:access-toolset", toolset.pk)
    if place == "import" and is_key(number):
        return redirect("pages:import", int(number))
    return None


def _identify(toolset: Toolset) -> str:
    """Return a value that tells the toolset of a confirmation: its key, or the name of a new one."""
    return f"new:{toolset.name}" if toolset._state.adding else str(toolset.pk)


def _count_people(toolset: Toolset) -> int:
    """Return how many people have access through this toolset here and now."""
    return 0 if toolset._state.adding else visibility.count_toolset_audience(toolset.pk)


def _count_destructive(queryset: QuerySet[Any]) -> int:
    return queryset.filter(MAY_DESTROY).count() if queryset.model is Tool else 0
