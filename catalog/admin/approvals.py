"""The admin's list of requests for approval. Nothing is changed here: people decide on their own page."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from audit.actions import actor
from audit.admin_base import ModelAdmin
from audit.admin_filters import related_filter
from catalog.models import Approval
from toolhub.invisible import show

MAX_SHOWN_CHARACTERS = 20_000


@admin.register(Approval)
class ApprovalAdmin(ModelAdmin):
    goes_with_others = True
    list_display = ("state_now", "tool_shown", "user", "rule_shown", "created", "decided", "call_link")
    list_display_links = ("tool_shown",)
    list_filter = ("state", "asks", related_filter("group"), "created")
    list_select_related = ("user", "rule", "group")
    list_per_page = 20
    search_fields = ("tool_name", "user__username", "rule_name", "decided_by_name")
    search_help_text = _("Tool, user, rule or who decided")
    ordering = ("-created", "-id")
    fieldsets: ClassVar[Any] = (
        (None, {"fields": ("state_now", "tool_shown", "shown_arguments", "call_link", "ran_link")}),
        (_("Who asks"), {"fields": ("user", "maker", "credential_shown", "client_shown", "created", "expires")}),
        (_("Who approves"), {"fields": ("rule_shown", "asks", "group", "four_eyes")}),
        (_("Decision"), {"fields": ("decided", "decided_at", "by_client", "reason_shown")}),
    )
    readonly_fields = (
        *("state_now", "tool_shown", "shown_arguments", "call_link", "ran_link", "credential_shown", "client_shown"),
        *("rule_shown", "decided", "reason_shown"),
    )

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("binding", "context", "seal")

    @display(  # type: ignore[untyped-decorator]
        description=_("state"),
        label={
            "waiting": "info",
            "approved": "success",
            "used": "success",
            "denied": "danger",
            "expired": "warning",
            "withdrawn": "warning",
            "void": "warning",
        },
        ordering="state",
    )
    def state_now(self, row: Approval) -> tuple[str, str]:
        state = row.state_at(timezone.now())
        return state, str(dict(Approval.State.choices)[state])

    @admin.display(description=_("tool"), ordering="tool_name")
    def tool_shown(self, row: Approval) -> str:
        return show(row.tool_name)

    @admin.display(description=_("approval rule"), ordering="rule_name")
    def rule_shown(self, row: Approval) -> str:
        name = show(row.rule_name)
        user = actor.current_user()
        if row.rule_id is None or user is None or not user.has_perm("catalog.view_approvalrule"):
            return name
        address = reverse("admin:catalog_approvalrule_change", args=[row.rule_id])
        return format_html('<a class="underline" href="{}">{}</a>', address, name)

    @admin.display(description=_("decided by"), ordering="decided_by_name")
    def decided(self, row: Approval) -> str:
        return show(row.decided_by_name) or "-"

    @admin.display(description=_("call"))
    def call_link(self, row: Approval) -> str:
        return _link_call(row.call_id)

    @admin.display(description=_("call that ran"))
    def ran_link(self, row: Approval) -> str:
        return _link_call(row.used_by)

    @admin.display(description=_("arguments"))
    def shown_arguments(self, row: Approval) -> str:
        text = row.arguments
        with suppress(ValueError):  # it can be cut to the size that the audit log keeps
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        return format_html('<pre class="whitespace-pre-wrap">{}</pre>', show(text[:MAX_SHOWN_CHARACTERS]))

    @admin.display(description=_("credential"))
    def credential_shown(self, row: Approval) -> str:
        return show(row.credential_name) or show(row.credential)

    @admin.display(description=_("client"))
    def client_shown(self, row: Approval) -> str:
        return show(row.client) or "-"

    @admin.display(description=_("reason"))
    def reason_shown(self, row: Approval) -> str:
        return show(row.reason) or "-"


def _link_call(key: Any) -> str:
    """Return the id of a call, with a link for those who may read the audit log."""
    if key is None:
        return "-"
    user = actor.current_user()
    if user is None or not user.has_perm("audit.view_call"):
        return str(key)
    return format_html('<a class="underline" href="{}">{}</a>', reverse("admin:audit_call_change", args=[key]), key)
