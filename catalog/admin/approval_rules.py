"""The admin of approval rules: what each one is for, whom it asks, and a warning where nobody can approve."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from audit.admin_filters import related_filter
from catalog.admin.forms import ApprovalRuleForm
from catalog.admin.grant_form import ConditionsAdmin
from catalog.admin.replays import ReplayAdmin
from catalog.admin.rule_links import RELATED
from catalog.admin.rule_trials import TrialAdmin, TrialFilter
from catalog.approvals import approvers
from catalog.models import ApprovalRule
from catalog.policy import approval_texts

FREE_FIELDS = frozenset({"name", "minutes", "note"})
"""Fields of the form that do not change what a rule means: the sentence stands while one of them is wrong."""


class ApproversFilter(admin.SimpleListFilter):
    """A filter for the rules whose calls cannot run, because nobody can approve them."""

    title = _("approvers")
    parameter_name = "approvers"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("none", _("nobody can approve"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() != "none":
            return queryset
        return queryset.filter(pk__in=approvers.find_without_approvers().values("pk"))


@admin.register(ApprovalRule)
class ApprovalRuleAdmin(ReplayAdmin, TrialAdmin, ConditionsAdmin):
    form = ApprovalRuleForm
    change_form_template = "admin/catalog/approvalrule/change_form.html"
    targets = ("tool", "toolset", "grant")
    list_display = ("name", "target_name", "asked", "when", "state", "note")
    list_filter = (
        "enabled",
        TrialFilter,
        ApproversFilter,
        "asks",
        "destructive_only",
        "all_tools",
        related_filter("toolset"),
        related_filter("group"),
    )
    list_before_template = "admin/catalog/grant_links.html"
    search_fields = (
        *("name", "tool__name", "toolset__name", "grant__tool__name", "grant__toolset__name"),
        *("group__name", "note"),
    )
    search_help_text = _("Name, tool, toolset, approvers or note")
    ordering = ("name",)
    autocomplete_fields = ("tool", "toolset", "grant", "group")
    warn_unsaved_form = True
    fieldsets: ClassVar[Any] = (
        (None, {"fields": ("name", "enabled")}),
        (_("Applies to (choose one)"), {"fields": ("tool", "toolset", "grant", "all_tools")}),
        (
            _("Only for some calls"),
            {"fields": ("destructive_only", "conditions", "first_time", "windows", "outside_windows")},
        ),
        (_("Who approves"), {"fields": ("asks", "group", "four_eyes", "accepts_client", "minutes")}),
        (_("Reason"), {"fields": ("note",)}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return approvers.with_approvers(super().get_queryset(request).select_related(*RELATED))

    def get_urls(self) -> list[URLPattern]:
        own = path("meaning/", self.admin_site.admin_view(self.meaning), name="catalog_approvalrule_meaning")
        return [own, *super().get_urls()]

    def form_data(self) -> dict[str, Any]:
        return {**super().form_data(), "meaning": reverse("admin:catalog_approvalrule_meaning")}

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, obj: Any = None, **kwargs: Any) -> Any:
        stored = self.get_queryset(request).filter(pk=obj.pk).first() if obj is not None else None
        context["meaning"] = _describe(stored) if stored is not None else None
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def meaning(self, request: HttpRequest) -> HttpResponse:
        """Return {"sentence", "warning"} of the form as it was sent; without a sentence while it cannot be saved."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        if not (self.has_add_permission(request) or self.has_change_permission(request)):
            raise PermissionDenied
        form = self.get_form(request)(request.POST)
        if form.errors.keys() - FREE_FIELDS:
            return JsonResponse({"sentence": "", "warning": ""})
        return JsonResponse(_describe(form.instance))

    def save_model(self, request: HttpRequest, obj: ApprovalRule, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if warning := _describe(obj)["warning"]:
            self.message_user(request, warning, messages.WARNING)

    @admin.display(description=_("applies to"))
    def target_name(self, row: ApprovalRule) -> str:
        return approval_texts.describe_target(row)

    @admin.display(description=_("asks"))
    def asked(self, row: Any) -> str:
        return approval_texts.describe_asked(row, row.approver_count)

    @admin.display(description=_("for which calls"))
    def when(self, row: ApprovalRule) -> str:
        text = approval_texts.describe_when(row)
        return format_html('<span title="{}">{}</span>', text, text) if text else gettext("all calls")

    @display(  # type: ignore[untyped-decorator]
        description=_("status"),
        label={"in force": "success", "trial": "warning", "closed": "info", "off": "warning", "nobody": "danger"},
    )
    def state(self, row: Any) -> tuple[str, Any]:
        words = {
            "in force": _("in force"),
            "trial": _("in trial"),
            "closed": _("outside its times"),
            "off": _("switched off"),
            "nobody": _("nobody can approve"),
        }
        state = row.state_at(timezone.now())
        if state not in ("trial", "off") and row.asks == ApprovalRule.Asks.APPROVERS and not row.approver_count:
            state = "nobody"
        return state, words[state]


def _describe(row: ApprovalRule) -> dict[str, str]:
    number = approvers.count_approvers(row)
    warning = ""
    if row.asks == ApprovalRule.Asks.APPROVERS and not number and row.enabled:
        warning = (
            gettext("Nobody can approve: the group was deleted. Choose another one.")
            if row.group_id is None
            else gettext("Nobody can approve: the group has no active member. Add people to it.")
        )
    return {"sentence": approval_texts.describe_rule(row, number), "warning": warning}
