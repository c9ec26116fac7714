"""Admin pages of the catalogue: definitions, grants, limits, effective access and history."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from audit import local_time
from audit.admin_base import ModelAdmin
from audit.admin_filters import is_key, related_filter
from catalog import signals
from catalog.admin import rule_links
from catalog.admin.approval_rules import ApprovalRuleAdmin as ApprovalRuleAdmin
from catalog.admin.approvals import ApprovalAdmin as ApprovalAdmin
from catalog.admin.editor import preview
from catalog.admin.editor.runner_forms import kind_name
from catalog.admin.editor.views import EditorAdmin
from catalog.admin.forms import GrantForm, LimitForm, PromptForm, ResourceForm, ToolForm, may_skip_approval
from catalog.admin.grant_form import GrantConditionsAdmin
from catalog.admin.history import HistoryAdmin
from catalog.admin.inlines import (
    GrantInline,
    LimitInline,
    ToolGrantInline,
    ToolLimitInline,
)
from catalog.admin.limit_usage import LimitUsageAdmin
from catalog.admin.quarantine import QuarantineAdmin, QuarantineFilter
from catalog.admin.replays import ReplayAdmin
from catalog.admin.rule_trials import TrialAdmin, TrialFilter
from catalog.admin.secrets import SecretAdmin as SecretAdmin
from catalog.admin.tool_tests import ToolTestAdmin as ToolTestAdmin
from catalog.admin.toolset_members import ToolsetActions
from catalog.admin.upstreams import UpstreamAdmin as UpstreamAdmin
from catalog.admin.value_lists import FlagAdmin as FlagAdmin
from catalog.admin.value_lists import ValueListAdmin as ValueListAdmin
from catalog.advice.prompts import check_prompt
from catalog.advice.suggestions import Suggestion
from catalog.models import Grant, ImportBatch, ImportedItem, Limit, Prompt, Resource, StoredResult, Task, Tool, Toolset
from catalog.models.rules import windows_are_closed
from catalog.openapi.admin import ImportedDocumentAdmin as ImportedDocumentAdmin
from catalog.policy import large_changes, snapshot, visibility
from catalog.policy import messages as policy_messages
from catalog.policy.definitions import GrantRule
from catalog.policy.redundancy import Redundancy
from toolhub.invisible import show

MAX_BATCHES = 20
"""Maximum number of imports that a filter lists."""
MAX_FIRST_TOOLS = 20
"""Maximum number of tools that the form of a toolset lists; its page has all of them."""
MAX_REDUNDANT = 1_000
"""Maximum number of grants that the filter finds; revoking them brings the others."""
MAX_SUGGESTED = 4
"""Maximum number of suggestions in messages after a save; the editor shows all of them."""


class BatchFilter(admin.SimpleListFilter):
    """A filter for the items that one import made: the latest imports, and the chosen one."""

    title = _("import")
    parameter_name = "batch"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        kind = str(model_admin.model._meta.model_name)
        with_items = ImportedItem.objects.filter(**{f"{kind}__isnull": False}).values("batch")
        batches = ImportBatch.objects.filter(pk__in=with_items).order_by("-pk")
        found = list(batches[:MAX_BATCHES])
        chosen = request.GET.get(self.parameter_name, "")
        if is_key(chosen) and all(batch.pk != int(chosen) for batch in found):
            found += batches.filter(pk=int(chosen))
        return [
            (str(batch.pk), f"{local_time.format_time(batch.made_at, 'minutes')}, {show(batch.source)}")
            for batch in found
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        chosen = self.value()
        if not chosen:
            return queryset
        return queryset.filter(imported__batch=int(chosen)) if is_key(chosen) else queryset.none()


class CatalogueItemAdmin(ToolsetActions, HistoryAdmin):
    """The common admin page of tools, resources and prompts."""

    inlines: ClassVar[tuple[Any, ...]] = (GrantInline,)
    autocomplete_fields = ("toolsets",)
    readonly_fields: ClassVar[tuple[str, ...]] = ("audience", "suggestions")
    list_filter: ClassVar[tuple[Any, ...]] = ("enabled", related_filter("toolsets"), BatchFilter)
    actions = ("switch_on", "switch_off", "add_to_toolset", "remove_from_toolset")
    warn_unsaved_form = True
    compressed_fields = True

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request).prefetch_related("toolsets")
        return found

    @admin.display(description=_("toolsets"))
    def toolset_names(self, row: Any) -> str:
        return ", ".join(toolset.name for toolset in row.toolsets.all()) or "-"

    @admin.display(description=_("current access"))
    def audience(self, row: Any) -> str:
        if row.pk is None:
            return gettext("No one has access yet. Add a grant under Grants, then save.")
        # The theme asks for each text of a page several times; deciding for a thousand users is done once.
        shown: str | None = row.__dict__.get("_audience")
        if shown is None:
            context = {
                "audience": visibility.find_audience(row._meta.model_name, row.pk),
                "environment": settings.ENVIRONMENT,
            }
            shown = row._audience = render_to_string("admin/catalog/audience.html", context)
        return shown

    @admin.display(description=_("suggestions"))
    def suggestions(self, row: Any) -> str:
        found = self.find_suggestions(row) if row.pk is not None else []
        return format_html_join(SafeString("<br>"), "{}", ((sentence,) for sentence in found)) or "-"

    def find_suggestions(self, row: Any) -> list[Suggestion]:
        return []

    def response_add(self, request: HttpRequest, obj: Any, *args: Any, **options: Any) -> HttpResponse:
        response: HttpResponse = super().response_add(request, obj, *args, **options)
        self._suggest(request, obj)
        return response

    def response_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        response: HttpResponse = super().response_change(request, obj)
        self._suggest(request, obj)
        return response

    def _suggest(self, request: HttpRequest, row: Any) -> None:
        """Show suggestions below the message that the item is saved: they are advice, and no reason for concern."""
        found = self.find_suggestions(row)
        for suggestion in found[:MAX_SUGGESTED]:
            self.message_user(request, gettext("Suggestion: %s") % suggestion, messages.INFO)
        if (more := len(found) - MAX_SUGGESTED) > 0:
            text = ngettext(
                "%(number)s more suggestion in the editor.", "%(number)s more suggestions in the editor.", more
            )
            self.message_user(request, text % {"number": more}, messages.INFO)

    @admin.action(description=_("Switch on selected"), permissions=["change"])
    def switch_on(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._set_enabled(request, queryset, enabled=True)

    @admin.action(description=_("Switch off selected"), permissions=["change"])
    def switch_off(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        self._set_enabled(request, queryset, enabled=False)

    def _set_enabled(self, request: HttpRequest, queryset: QuerySet[Any], *, enabled: bool) -> None:
        keys = list(queryset.exclude(enabled=enabled).order_by().values_list("pk", flat=True))

        def change() -> int:
            rows = list(self.model._default_manager.filter(pk__in=keys).exclude(enabled=enabled).order_by("pk"))
            for row in rows:  # one by one: each save adds to the history
                row.enabled = enabled
                row.save()
            return len(rows)

        try:
            number = large_changes.run(change)
        except large_changes.Stale:
            messages.error(request, policy_messages.CHANGED_MEANWHILE)
            return
        self.message_user(request, (gettext("%d switched on.") if enabled else gettext("%d switched off.")) % number)


class RunnerFilter(admin.SimpleListFilter):
    """A filter with the tool types in use, named as in the editor."""

    title = _("tool type")
    parameter_name = "runner"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        kinds = Tool.objects.order_by("runner").values_list("runner", flat=True).distinct()
        return [(kind, kind_name(kind)) for kind in kinds]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(runner=self.value()) if self.value() else queryset


@admin.register(Tool)
class ToolAdmin(EditorAdmin, QuarantineAdmin, CatalogueItemAdmin):
    form = ToolForm
    inlines = (ToolGrantInline, ToolLimitInline)
    warn_unsaved_form = False  # the editor's own script warns, and detects real changes
    list_display = ("name", "title", "runner_title", "toolset_names", "effect", "status", "position")
    list_filter = (
        "enabled",
        QuarantineFilter,
        related_filter("toolsets"),
        BatchFilter,
        RunnerFilter,
        "read_only",
        "destructive",
        "task_support",
    )
    readonly_fields = ("audience", "approval_rules", "quarantine")
    search_fields = ("name", "title", "description")
    search_help_text = _("Name, title or description")
    fieldsets = (
        (
            _("General"),
            {
                "fields": (
                    "runner",
                    "settings",
                    "name",
                    "title",
                    "description",
                    ("enabled", "position"),
                    "toolsets",
                    "timeout",
                )
            },
        ),
        (_("Parameters"), {"fields": ("input_schema", "fill_defaults")}),
        (_("Result"), {"fields": ("output_schema", "max_result_bytes")}),
        (_("Access"), {"classes": ("who",), "fields": ("audience", "approval_rules", "quarantine")}),
        (
            _("Annotations"),
            {"fields": ("read_only", "destructive", "idempotent", "open_world", "annotation_title", "icons", "app")},
        ),
        (
            _("Limits and logging"),
            {"fields": ("record_bodies", "max_argument_bytes", "task_support", "requires_capabilities", "polling")},
        ),
        (
            _("Cost"),
            {"fields": ("cost", "cost_argument", "cost_per_kilobyte")},
        ),
    )

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        row: Tool = form.instance
        if row.read_only and row.enabled and request.user.has_perm("catalog.try_tool") and row.tests.exists():
            # Who runs tests is above this application; the new definition is in force once it is committed.
            transaction.on_commit(lambda: signals.tool_saved.send(sender=Tool, tool=row, request=request))

    def find_suggestions(self, row: Tool) -> list[Suggestion]:
        return preview.find_suggestions(row)

    def autocomplete_label(self, row: Tool) -> str:
        """Return the tool as pickers show it: its name, and what to know before somebody gets it."""
        return policy_messages.name_with_marks(row)

    @admin.display(description=_("approval rules"))
    def approval_rules(self, row: Tool) -> str:
        return "-" if row._state.adding else rule_links.list_rules(row)

    @admin.display(description=_("tool type"), ordering="runner")
    def runner_title(self, row: Tool) -> str:
        return kind_name(row.runner)

    @display(  # type: ignore[untyped-decorator]
        description=_("effect"),
        label={"read_only": "success", "changes": "warning", "destructive": "danger", "undeclared": "info"},
    )
    def effect(self, row: Tool) -> tuple[str, Any]:
        if row.read_only:
            return "read_only", _("read-only")
        if row.destructive:
            return "destructive", _("destructive")
        return ("changes", _("makes changes")) if row.read_only is False else ("undeclared", _("not declared"))


@admin.register(Resource)
class ResourceAdmin(QuarantineAdmin, CatalogueItemAdmin):
    form = ResourceForm
    list_filter = ("enabled", QuarantineFilter, related_filter("toolsets"), BatchFilter)
    list_display = ("__str__", "name", "mime_type", "toolset_names", "status", "position")
    rank_field = "uri"
    search_fields = ("name", "uri", "uri_template", "title", "description")
    search_help_text = _("Name, address, title or description")
    fieldsets = (
        (None, {"fields": ("name", "title", "description", ("enabled", "position"), "toolsets")}),
        (_("Address"), {"fields": ("uri", "uri_template", "completions")}),
        (_("Content"), {"fields": ("mime_type", "text", "blob", "function")}),
        (_("Upstream"), {"fields": ("upstream", "source")}),
        (_("For clients"), {"fields": ("annotations", "icons", "app")}),
        (_("Access"), {"classes": ("tab",), "fields": ("audience", "quarantine")}),
    )
    readonly_fields = ("audience", "quarantine")


@admin.register(Prompt)
class PromptAdmin(QuarantineAdmin, CatalogueItemAdmin):
    form = PromptForm
    list_filter = ("enabled", QuarantineFilter, related_filter("toolsets"), BatchFilter)
    readonly_fields = ("audience", "suggestions", "quarantine")
    list_display = ("name", "title", "toolset_names", "status", "position")
    search_fields = ("name", "title", "description")
    search_help_text = _("Name, title or description")
    fieldsets = (
        (None, {"fields": ("name", "title", "description", ("enabled", "position"), "toolsets")}),
        (_("Messages"), {"fields": ("arguments", "messages", "function")}),
        (_("Upstream"), {"fields": ("upstream", "source")}),
        (_("For clients"), {"fields": ("icons",)}),
        (_("Access"), {"classes": ("tab",), "fields": ("audience", "suggestions", "quarantine")}),
    )

    def find_suggestions(self, row: Prompt) -> list[Suggestion]:
        return check_prompt(row)


@admin.register(Toolset)
class ToolsetAdmin(HistoryAdmin):
    list_display = ("name", "description", "tool_count", "requestable")
    list_filter = ("requestable",)
    fieldsets = (
        (None, {"fields": ("name", "description")}),
        (
            _("Requests for access"),
            {
                "fields": ("requestable", "request_text"),
                "description": _(
                    "Who requests one tool can name the values that are enough. So people also see the names, titles "
                    "and choices of its arguments, except secret ones."
                ),
            },
        ),
    )
    ordering = ("name",)
    search_fields = ("name", "description")
    inlines = (GrantInline, LimitInline)
    change_form_outer_before_template = "admin/catalog/toolset_links.html"

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> Any:
        """Add the first tools above the form, with a link to all of them."""
        row = options.get("obj")
        if row is not None and request.user.has_perm("catalog.view_tool"):
            tools = list(row.tools.order_by("name")[:MAX_FIRST_TOOLS])
            context["first_tools"] = [
                (
                    show(tool.name),
                    reverse("admin:catalog_tool_change", args=[tool.pk]),
                    policy_messages.list_marks(tool),
                )
                for tool in tools
            ]
            context["more_tools"] = row.tools.count() - len(tools)
        context["approval_rules"] = rule_links.list_rules(row) if row is not None else ""
        return super().render_change_form(request, context, *args, **options)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request).annotate(tool_count=Count("tools"))
        return found

    @admin.display(description=_("tools"), ordering="tool_count")
    def tool_count(self, row: Any) -> int:
        return int(row.tool_count)


class GrantStateFilter(admin.SimpleListFilter):
    """A filter by time alone: grants for other environments only are in force there."""

    title = _("status")
    parameter_name = "when"
    MAX_SCHEDULES = 500

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        closed = ("closed", _("outside its time windows"))
        return [("now", _("in force")), ("later", _("scheduled")), closed, ("over", _("expired"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        now = timezone.now()
        if self.value():
            queryset = queryset.filter(trial=False)
        match self.value():
            case "now":
                return self._exclude_closed(queryset.exclude(ends__lte=now).exclude(starts__gt=now), now)
            case "closed":
                open_rows = self._exclude_closed(queryset, now)
                return queryset.exclude(ends__lte=now).exclude(starts__gt=now).exclude(pk__in=open_rows.values("pk"))
            case "later":
                return queryset.filter(starts__gt=now)
            case "over":
                return queryset.filter(ends__lte=now)
        return queryset

    def _exclude_closed(self, queryset: QuerySet[Any], now: datetime) -> QuerySet[Any]:
        # There are few different schedules, however many grants have them.
        stored = Grant.everything.exclude(windows=[]).order_by("windows").values_list("windows", flat=True).distinct()
        closed = [found for found in stored[: self.MAX_SCHEDULES] if windows_are_closed(found, now)]
        return queryset.exclude(windows__in=closed)


class RedundancyFilter(admin.SimpleListFilter):
    """A filter for the grants that another one covers: without them, no one's access changes."""

    title = _("need")
    parameter_name = "redundant"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("yes", _("covered by another grant"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() != "yes":
            return queryset
        covered = sorted(Redundancy(snapshot.latest()).find_all())[:MAX_REDUNDANT]
        return queryset.filter(pk__in=covered).exclude(ends__lte=timezone.now())


@admin.register(Grant)
class GrantAdmin(ReplayAdmin, TrialAdmin, GrantConditionsAdmin):
    form = GrantForm
    list_display = (
        *("number", "kind", "target_name", "subject_name", "restrictions"),
        *("starts", "ends", "state", "note"),
    )
    list_display_links = ("number", "target_name")
    list_filter = (
        GrantStateFilter,
        TrialFilter,
        RedundancyFilter,
        "effect",
        "everyone",
        "skips_approval",
        related_filter("toolset"),
        related_filter("group"),
        "starts",
        "ends",
    )
    list_before_template = "admin/catalog/grant_links.html"
    list_select_related = ("tool", "toolset", "resource", "prompt", "user", "group")
    list_per_page = 18
    search_fields = (
        *("tool__name", "toolset__name", "resource__uri", "prompt__name"),
        *("user__username", "group__name", "note"),
    )
    search_help_text = _("Tool, toolset, resource, prompt, user or note")
    autocomplete_fields = ("tool", "toolset", "resource", "prompt", "user", "group")
    fieldsets = (
        (None, {"fields": ("effect",)}),
        (_("Applies to (choose one)"), {"fields": ("toolset", "tool", "resource", "prompt")}),
        (_("User or group (choose one)"), {"fields": ("user", "group", "everyone")}),
        (_("Time and environment"), {"fields": ("starts", "ends", "environments")}),
        (_("Conditions"), {"fields": ("conditions", "windows", "flags")}),
        (_("Approval"), {"fields": ("skips_approval",)}),
        (_("Reason"), {"fields": ("note",)}),
    )
    readonly_fields = ("approval_rules",)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the sections; a grant that allows tools has one with the rules that ask about its calls."""
        found = super().get_fieldsets(request, obj)
        asks = obj is not None and obj.effect == Grant.Effect.ALLOW and (obj.tool_id or obj.toolset_id)
        if not asks:
            return found
        approval = (_("Approval"), {"fields": ("skips_approval", "approval_rules")})
        return tuple(approval if "skips_approval" in section["fields"] else (name, section) for name, section in found)

    def _may_put_in_force(self, request: HttpRequest, row: Any) -> bool:
        skips = row.skips_approval or (row.replaces is not None and row.replaces.skips_approval)
        return super()._may_put_in_force(request, row) and (not skips or may_skip_approval())

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        """Return the grants that a search finds: for an approval rule, only those that allow tools."""
        found, may_have_duplicates = super().get_search_results(request, queryset, search_term)
        if request.GET.get("model_name") == "approvalrule":
            found = found.filter(effect=Grant.Effect.ALLOW, resource=None, prompt=None, trial=False)
            found = found.select_related(*self.list_select_related)
        return found, may_have_duplicates

    def autocomplete_label(self, row: Grant) -> str:
        return show(policy_messages.name_row(row))

    @admin.display(description=_("approval rules"))
    def approval_rules(self, row: Grant) -> str:
        return rule_links.list_rules(row)

    @admin.display(description=_("grant"), ordering="id")
    def number(self, row: Grant) -> int:
        return int(row.pk)

    @display(  # type: ignore[untyped-decorator]
        description=_("effect"), label={"allow": "success", "deny": "danger"}, ordering="effect"
    )
    def kind(self, row: Grant) -> tuple[str, str]:
        return row.effect, row.get_effect_display()

    def get_list_display(self, request: HttpRequest) -> tuple[Any, ...]:
        rules: dict[int, GrantRule] = {}
        asked: list[Redundancy] = []
        may_revoke = request.user.has_perms(("catalog.change_grant", "catalog.delete_grant"))

        @admin.display(description=_("need"))
        def need(row: Grant) -> str:
            if not asked:  # once for all rows
                catalogue = snapshot.latest()
                asked.append(Redundancy(catalogue))
                rules.update({rule.id: rule for rule in catalogue.grants})
            rule = rules.get(row.pk)
            over = row.ends is not None and row.ends <= timezone.now()
            cover = asked[0].find_cover(rule) if rule is not None and not over else None
            if cover is None:
                return "-"
            text = gettext("covered by grant %(number)s") % {"number": cover.id}
            if not may_revoke:
                return text
            address = reverse("pages:revoke", args=[row.pk])
            return format_html('{} <a class="underline" href="{}">{}</a>', text, address, gettext("Revoke"))

        return (*self.list_display[:-1], need, self.list_display[-1])

    @admin.display(description=_("applies to"))
    def target_name(self, row: Grant) -> str:
        return policy_messages.name_target(row)

    @admin.display(description=_("user or group"))
    def subject_name(self, row: Grant) -> str:
        return policy_messages.name_subject(row)

    @display(  # type: ignore[untyped-decorator]
        description=_("status"),
        label={
            "in force": "success",
            "trial": "warning",
            "later": "info",
            "over": "warning",
            "elsewhere": "info",
            "closed": "info",
        },
    )
    def state(self, row: Grant) -> tuple[str, Any]:
        words = {
            "trial": _("in trial"),
            "in force": _("in force"),
            "later": _("scheduled"),
            "over": _("expired"),
            "elsewhere": _("in other environments"),
            "closed": _("outside its time windows"),
        }
        state = row.state_at(timezone.now(), settings.ENVIRONMENT)
        return state, words[state]


@admin.register(Limit)
class LimitAdmin(LimitUsageAdmin, ReplayAdmin, TrialAdmin):
    form = LimitForm
    list_display = ("number", "amount", "target_name", "subject_name", "state", "note")
    list_display_links = ("number", "amount")
    list_filter = (
        TrialFilter,
        "measure",
        "scope",
        "all_tools",
        "method",
        related_filter("toolset"),
        related_filter("group"),
    )
    list_before_template = "admin/catalog/grant_links.html"
    list_select_related = ("tool", "toolset", "user", "group")
    search_fields = ("tool__name", "toolset__name", "method", "user__username", "group__name", "note")
    search_help_text = _("Tool, toolset, method, user, group or note")
    autocomplete_fields = ("tool", "toolset", "user", "group")
    fieldsets = (
        (None, {"fields": ("measure", "rate", "zone")}),
        (_("Applies to (choose one)"), {"fields": ("tool", "toolset", "all_tools", "method")}),
        (_("Counted for"), {"fields": ("scope", "user", "group")}),
        (_("When it is reached"), {"fields": ("advice",)}),
        (_("Reason"), {"fields": ("note",)}),
    )

    @admin.display(description=_("limit"), ordering="id")
    def number(self, row: Limit) -> int:
        return int(row.pk)

    @admin.display(description=_("amount"), ordering="rate")
    def amount(self, row: Limit) -> str:
        return policy_messages.format_amount(row.measure, row.rate)

    @admin.display(description=_("applies to"))
    def target_name(self, row: Limit) -> str:
        params = policy_messages.rule_of(row).params
        return policy_messages.target(params["kind"], params["name"])

    @admin.display(description=_("counted for"))
    def subject_name(self, row: Limit) -> str:
        params = policy_messages.rule_of(row).params
        return policy_messages.subject(params["by"], params["whom"])

    @display(  # type: ignore[untyped-decorator]
        description=_("status"), label={"in force": "success", "trial": "warning"}, ordering="trial"
    )
    def state(self, row: Limit) -> tuple[str, Any]:
        return ("trial", _("in trial")) if row.trial else ("in force", _("in force"))


class RunningAdmin(ModelAdmin):
    """A page to view and delete rows; the result of a call is in the audit log, under its own permission."""

    list_per_page = 20

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(Task)
class TaskAdmin(RunningAdmin):
    list_display = ("id", "tool", "user", "status", "created_at", "updated_at", "expires_at", "worker")
    list_filter = ("status",)
    list_select_related = ("user",)
    search_fields = ("id", "tool", "user__username")
    fields: ClassVar[tuple[str, ...]] = (
        "id",
        "tool",
        "user",
        "credential",
        "status",
        "status_message",
        "worker",
        "created_at",
        "updated_at",
    )
    fields += ("ttl_ms", "expires_at")


@admin.register(StoredResult)
class StoredResultAdmin(RunningAdmin):
    list_display = ("id", "user", "name", "mime_type", "size", "removed", "created_at", "expires_at")
    list_filter = ("removed",)
    list_select_related = ("user",)
    search_fields = ("id", "user__username", "name")
    fields = ("id", "user", "call_id", "name", "mime_type", "size", "removed", "created_at", "expires_at")

    def get_queryset(self, request: HttpRequest) -> QuerySet[StoredResult]:
        return super().get_queryset(request).defer("body")
