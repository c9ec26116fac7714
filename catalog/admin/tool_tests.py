"""Test cases in the admin: what they send and expect. Their runs are on the page of the tool's tests."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from audit import local_time, outcomes
from audit.actions.cascade import BoundedDeletion
from audit.admin_base import ModelAdmin
from audit.models import Call
from catalog.admin.forms import CatalogueForm
from catalog.canonical import dumps
from catalog.models import Tool, ToolTest
from catalog.tool_tests import messages
from catalog.tool_tests.judge import join_texts

MAY_TRY_AS = "catalog.try_tool_as_other"
MAX_PREFILLED_CHARACTERS = 2_000
_REDACTED = '"$redacted"'


class ToolTestForm(CatalogueForm):
    class Meta:
        model = ToolTest
        fields = "__all__"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "expected" in self.fields:
            self.fields["expected"].widget.attrs |= {
                "rows": 8,
                "style": "font-family: monospace",
                "spellcheck": "false",
            }


@admin.register(ToolTest)
class ToolTestAdmin(BoundedDeletion, ModelAdmin):
    form = ToolTestForm
    change_form_template = "admin/catalog/tooltest/change_form.html"
    list_display = ("name", "tool", "runs_as", "status", "outcome", "ran_at")
    list_filter = ("result", "status")
    list_per_page = 20
    search_fields = ("name", "tool__name")
    search_help_text = _("Name or tool")
    autocomplete_fields = ("tool", "user")
    readonly_fields = ("last_outcome", "ran_at")
    fieldsets = (
        (None, {"fields": ("tool", "name", "arguments", "user")}),
        (_("Expected"), {"fields": ("status", "match", "expected")}),
        (_("Last run"), {"fields": ("last_outcome", "ran_at")}),
    )

    @admin.display(description=_("runs as"), ordering="user__username")
    def runs_as(self, row: ToolTest) -> str:
        return str(row.user) if row.user is not None else gettext("the person who saved it")

    @display(  # type: ignore[untyped-decorator]
        description=_("last result"), label={"passed": "success", "failed": "danger", "running": "info"}
    )
    def outcome(self, row: ToolTest) -> tuple[str, str]:
        return row.result, self.last_outcome(row)

    @admin.display(description=_("last result"))
    def last_outcome(self, row: ToolTest) -> str:
        problem = messages.translate(row.problem)
        return f"{row.get_result_display()}: {problem}" if problem else str(row.get_result_display())

    @admin.display(description=_("last run"), ordering="last_run")
    def ran_at(self, row: ToolTest) -> str:
        return local_time.format_time_with_zone(row.last_run, "minutes") if row.last_run is not None else "-"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Fix the user for staff who may not try tools as others: they run tests as themselves."""
        fixed = () if request.user.has_perm(MAY_TRY_AS) else ("user",)
        return (*super().get_readonly_fields(request, obj), *fixed)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Fix the tests that run as somebody else for staff who may not try tools as others."""
        allowed = bool(super().has_change_permission(request, obj))
        if obj is None or obj.user_id in (None, request.user.pk):
            return allowed
        return allowed and request.user.has_perm(MAY_TRY_AS)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        obj.editor = request.user
        super().save_model(request, obj, form, change)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("tool", "user", "editor")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Fill in the arguments and the end of the logged call that `?call=` names, if this person may read it."""
        initial: dict[str, Any] = super().get_changeform_initial_data(request)
        call = find_call(request, initial.pop("call", ""))
        return {**initial, **describe_call(call)} if call is not None else initial


def find_call(request: HttpRequest, text: str) -> Call | None:
    """Return the logged call of a tool, for those who may view the audit log and for who tried it; None otherwise."""
    try:
        call = (
            Call.objects.filter(pk=UUID(text), method="tools/call", target_id__isnull=False).first() if text else None
        )
    except ValueError:
        return None
    if call is None or request.user.has_perm("audit.view_call"):
        return call
    own = f"admin:{request.user.pk}"
    return call if call.credential_id == own or call.credential_id.startswith(f"{own}:") else None


def describe_call(call: Call) -> dict[str, Any]:
    """Return the values of a test case that repeats a logged call and expects how it ended."""
    tool = Tool.objects.filter(pk=call.target_id or 0).first()
    if tool is None:
        return {}
    arguments = _read_json(call.arguments)
    known = {outcomes.UNKNOWN_TOOL: ToolTest.Status.REFUSED}
    status = known.get(call.outcome, call.outcome)
    values: dict[str, Any] = {"tool": tool.pk, "name": _suggest_name(tool, arguments)}
    values["status"] = status if status in ToolTest.Status.values else ToolTest.Status.OK
    if isinstance(arguments, dict) and not call.body_state:
        values["arguments"] = arguments
    return {**values, **_describe_result(call)}


def _describe_result(call: Call) -> dict[str, Any]:
    result = _read_json(call.result)
    if call.outcome != outcomes.OK or not isinstance(result, dict) or call.body_state:
        return {}
    if "structuredContent" in result:
        text = json.dumps(result["structuredContent"], indent=2, ensure_ascii=False)
        if len(text) <= MAX_PREFILLED_CHARACTERS and _REDACTED not in text:
            return {"match": ToolTest.Match.JSON, "expected": text}
        return {}
    content = result.get("content")
    text = join_texts(content) if isinstance(content, list) else ""
    if text and len(text) <= MAX_PREFILLED_CHARACTERS and "redacted" not in text:
        return {"match": ToolTest.Match.TEXT, "expected": text}
    return {}


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _suggest_name(tool: Tool, arguments: Any) -> str:
    """Return a name that no other test case of the tool has: what it sends, in short."""
    taken = set(ToolTest.objects.filter(tool=tool).values_list("name", flat=True))
    base = dumps(arguments)[:80] if isinstance(arguments, dict) and arguments else gettext("without arguments")
    return next(
        name for number in range(len(taken) + 1) if (name := f"{base} {number + 1}" if number else base) not in taken
    )
