"""The tool editor in the admin: its URLs and the data of its page.

The page works without the editor's scripts, as a form with JSON in text areas. The scripts in static/catalog/ put
tables and forms on top of these, and request `look` during typing.
"""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin.options import IS_POPUP_VAR
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.shortcuts import redirect
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from catalog import quarantine
from catalog.admin.editor import preview, runner_forms
from catalog.admin.editor import versions as editor_versions
from catalog.admin.history import HistoryAdmin
from catalog.advice import changes
from catalog.models import Tool, secret_flows
from catalog.models.base import check_name
from catalog.models.fields import JSONTextField
from toolhub.invisible import show

UNCOPIED_FIELDS = frozenset({"id", "name", "version", "enabled"})
MAX_VERSIONS = 200
JSON_LABELS = frozenset(
    str(capfirst(field.verbose_name)) for field in Tool._meta.concrete_fields if isinstance(field, JSONTextField)
)


class DuplicateForm(forms.Form):
    name = forms.CharField(
        label=_("Name of the copy"),
        max_length=128,
        validators=[check_name],
        widget=UnfoldAdminTextInputWidget,
        help_text=_("The name that clients call. Use letters, digits, underscore, hyphen and dot."),
    )
    toolsets = forms.BooleanField(
        label=_("Add to the same toolsets"),
        required=False,
        widget=UnfoldBooleanWidget,
        help_text=_("Users with access to one of these toolsets can use the copy when you switch it on."),
    )

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if Tool.objects.filter(name=name).exists():
            raise forms.ValidationError(
                gettext("A tool with this name already exists. Choose another name."), code="unique"
            )
        return name


def duplicate(original: Tool, name: str, *, toolsets: bool = False) -> Tool:
    """Create a copy under another name, disabled, without the grants and limits of the original.

    Raises PermissionDenied when the acting user may not save a tool with this runner, or with its secrets.
    """
    values = {
        field.attname: getattr(original, field.attname)
        for field in Tool._meta.concrete_fields
        if field.editable and field.name not in UNCOPIED_FIELDS
    }
    with transaction.atomic():
        copy = Tool(name=name, enabled=False, **values)
        copy.save()
        if toolsets:
            copy.toolsets.set(original.toolsets.all())
    return copy


def _describe_advice(applied: changes.Applied | None) -> str:
    """Return the message above a form that a link brought a change into."""
    if applied is None:
        return gettext("The suggested change does not fit this tool any more. Nothing was changed.")
    if applied.parameter:
        text = gettext("In the form, the description of the parameter “%(name)s” now ends with: “%(text)s”.")
    elif applied.field == "timeout":
        text = gettext("In the form, the timeout is now %(text)s seconds.")
    else:
        text = gettext("In the form, the description now ends with: “%(text)s”.")
    shown = text % {"name": show(applied.parameter), "text": show(applied.text)}
    return f"{shown} {gettext('Save the tool to apply the change.')}"


class EditorAdmin(HistoryAdmin):
    """The pages of the tool editor."""

    change_form_template = "admin/catalog/tool/change_form.html"
    object_history_form_template = "admin/catalog/tool/revert.html"
    object_history_list_template = "admin/catalog/tool/history_list.html"

    def get_urls(self) -> list[URLPattern]:
        urls: list[URLPattern] = super().get_urls()
        own = (
            ("look/", self.preview_form, "look_new"),
            ("function/", self.function, "function"),
            ("<int:pk>/look/", self.preview_form, "look"),
            ("<int:pk>/duplicate/", self.duplicate, "duplicate"),
            ("<int:pk>/compare/", self.compare, "compare"),
        )
        wrap = self.admin_site.admin_view
        return [*(path(route, wrap(view), name=f"catalog_tool_{name}") for route, view, name in own), *urls]

    # --- the page --------------------------------------------------------------------------------------------------

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the tool; where a link of a finding asks for it, with its change in the form. Nothing is saved."""
        row = super().get_object(request, object_id, from_field)
        signed = request.GET.get("advice", "") if request.method == "GET" else ""
        if signed and isinstance(row, Tool) and self._may_edit(request, row):
            change = changes.Change.read(signed)
            applied = changes.apply(change, row) if change is not None else None
            row.__dict__["_advised"] = applied is not None
            self.message_user(request, _describe_advice(applied), messages.INFO)
        return row

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, obj: Any = None, **kwargs: Any) -> Any:
        context["tool_editor"] = self._editor_data(request, obj)
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def render_history_view(self, request: HttpRequest, template: str, context: Any, **kwargs: Any) -> Any:
        if "adminform" in context:
            context["tool_editor"] = self._editor_data(request, context["original"])
        return super().render_history_view(request, template, context, **kwargs)

    def set_history_delta_changes(self, request: HttpRequest, historical_records: Any, **kwargs: Any) -> None:
        """Hide the values of changed schemas in the list of versions; the comparison page shows them."""
        super().set_history_delta_changes(request, historical_records, **kwargs)
        for record in historical_records:
            for change in getattr(record, "history_delta_changes", ()):
                if change["field"] in JSON_LABELS:
                    change["old"] = change["new"] = ""

    def _editor_data(self, request: HttpRequest, obj: Tool | None) -> dict[str, Any] | None:
        """Return the data for the scripts; None where nothing may be changed."""
        if not self._may_edit(request, obj):
            return None
        preview_url = (
            reverse("admin:catalog_tool_look", args=[obj.pk]) if obj else reverse("admin:catalog_tool_look_new")
        )
        data = {
            "look": preview_url,
            "function": reverse("admin:catalog_tool_function"),
            "isNew": obj is None,
            "unsaved": obj is not None and bool(obj.__dict__.get("_advised")),
            "kinds": runner_forms.describe_forms(),
            "secrets": runner_forms.list_secret_names(),
            "newSecret": self._new_secret_url(request),
        }
        return {"data": json.dumps(data)}

    @staticmethod
    def _new_secret_url(request: HttpRequest) -> str:
        """Return the address of the pop-up that adds a secret; empty for users who may not."""
        if not request.user.has_perm("catalog.add_secret"):
            return ""
        return f"{reverse('admin:catalog_secret_add')}?{IS_POPUP_VAR}=1"

    def _may_edit(self, request: HttpRequest, obj: Tool | None) -> bool:
        if obj is None:
            return bool(self.has_add_permission(request))
        return bool(self.has_change_permission(request, obj))

    def _tool(self, request: HttpRequest, pk: int) -> Tool:
        """Return a tool for a user who may view tools. Raises PermissionDenied or Http404."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        tool: Tool | None = Tool.objects.filter(pk=pk).first()
        if tool is None:
            raise Http404
        return tool

    # --- requests of the scripts -----------------------------------------------------------------------------------

    def preview_form(self, request: HttpRequest, pk: int | None = None) -> HttpResponse:
        """Return {"problems": [{"field", "place", "text"}], "html": the preview} of the form sent. Nothing is saved."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        allowed = request.user.has_perm("catalog.change_tool" if pk is not None else "catalog.add_tool")
        if not allowed:
            raise PermissionDenied
        tool = self._tool(request, pk) if pk is not None else None
        form = self.get_form(request, tool, change=tool is not None)(request.POST, instance=tool)
        found = preview.build_preview(form)
        context = {"look": found, "summary": preview.format_summary(found)}
        html = render_to_string("admin/catalog/tool/look.html", context, request)
        return JsonResponse({"problems": [problem.as_data() for problem in found.problems], "html": html})

    def function(self, request: HttpRequest) -> HttpResponse:
        """Return the columns of a tool that the setting `name` of `runner` fills in, such as a registered function."""
        if not request.user.has_perm("catalog.change_tool") and not request.user.has_perm("catalog.add_tool"):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        try:
            return JsonResponse(runner_forms.fill_columns(request.GET.get("runner", ""), request.GET.get("name", "")))
        except LookupError:
            raise Http404 from None

    # --- other pages -----------------------------------------------------------------------------------------------

    def duplicate(self, request: HttpRequest, pk: int) -> HttpResponse:
        tool = self._tool(request, pk)
        if not self.has_add_permission(request):
            raise PermissionDenied
        # A copy is not compared with the source any more: a change there could go unnoticed.
        form = DuplicateForm(request.POST if request.method == "POST" and not tool.origin else None)
        if form.is_valid() and (refusal := secret_flows.find_refusal(tool.secret_flows())):
            form.add_error(None, refusal)
        elif form.is_valid():
            copy = duplicate(tool, form.cleaned_data["name"], toolsets=form.cleaned_data["toolsets"])
            words = gettext("%(copy)s is a copy of %(tool)s. It is off and has no grants of its own.")
            self.message_user(request, words % {"copy": copy, "tool": tool})
            return redirect("admin:catalog_tool_change", copy.pk)
        title = gettext("Duplicate %(tool)s") % {"tool": tool}
        return self._render_page(request, "duplicate", title, tool=tool, form=form, origin=quarantine.name_source(tool))

    def compare(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show two versions, `older` and `newer` (numbers of the history); without them, the last two."""
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        tool = self._tool(request, pk)
        versions: QuerySet[Any] = tool.history.select_related("history_user").order_by("-history_date", "-history_id")
        newest = list(versions[:MAX_VERSIONS])
        newer = self._version(versions, request.GET.get("newer"), newest[:1])
        older = self._version(versions, request.GET.get("older"), newest[1:2] or newest[:1])
        if older is not None and newer is not None and older.history_id > newer.history_id:
            older, newer = newer, older
        context = {
            "tool": tool,
            "versions": newest,
            "older": older,
            "newer": newer,
            "changes": editor_versions.compare_versions(older, newer) if older and newer else [],
            "may_revert": self.has_change_permission(request, tool),
        }
        title = gettext("Versions of %(tool)s") % {"tool": tool}
        return self._render_page(request, "compare", title, **context)

    @staticmethod
    def _version(versions: QuerySet[Any], number: str | None, otherwise: list[Any]) -> Any:
        if number is None:
            return otherwise[0] if otherwise else None
        found = versions.filter(history_id=int(number)).first() if number.isdecimal() and len(number) < 16 else None
        if found is None:
            raise Http404
        return found

    def _render_page(self, request: HttpRequest, name: str, title: str, **context: Any) -> HttpResponse:
        shared = {**self.admin_site.each_context(request), "title": title, "content_title": title}
        return TemplateResponse(request, f"admin/catalog/tool/{name}.html", {**shared, **context})
