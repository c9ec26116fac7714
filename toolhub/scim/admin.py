"""Provisioning in the admin: the tokens of identity providers, and the groups that they keep here."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables
from unfold.decorators import action, display

from audit.admin_base import ModelAdmin
from audit.admin_filters import related_filter
from toolhub import invisible
from toolhub.identity.admin import SuperusersOnly
from toolhub.identity.models import Provider
from toolhub.scim.models import ROTATION_HOURS, ScimGroup, ScimToken, base_url

MAX_SHOWN_MEMBERS = 100


class TokenForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = ScimToken
        fields = ("provider",)

    def clean_provider(self) -> Provider:
        provider: Provider = self.cleaned_data["provider"]
        if not provider.issuer:
            raise forms.ValidationError(
                gettext("Enter the issuer of this provider first: people are identified by it."), code="issuer"
            )
        return provider


@admin.register(ScimToken)
class ScimTokenAdmin(SuperusersOnly):
    form = TokenForm
    list_display = ("provider", "visible_prefix", "state", "created", "last_used", "last_address")
    list_filter = (related_filter("provider"),)
    list_select_related = ("provider",)
    list_per_page = 25
    actions = ("revoke_chosen",)
    actions_submit_line = ("revoke_this",)
    actions_detail = ("rotate",)
    fieldsets = (
        (None, {"fields": ("provider", "address", "visible_prefix", "state_now")}),
        (_("History"), {"fields": ("created", "expires", "last_used", "last_address", "revoked")}),
    )
    add_fieldsets = ((None, {"fields": ("provider",)}),)

    @admin.display(description=_("base URL"))
    def address(self, token: ScimToken) -> str:
        return format_html('<code class="select-all">{}</code>', base_url())

    @display(description=_("starts with"))  # type: ignore[untyped-decorator]
    def visible_prefix(self, token: ScimToken) -> str:
        return f"{token.prefix}…"

    @display(  # type: ignore[untyped-decorator]
        description=_("state"),
        label={"usable": "success", "rotated": "info", "expired": "warning", "revoked": "danger", "off": "warning"},
    )
    def state(self, token: ScimToken) -> tuple[str, Any]:
        if token.revoked is not None:
            return "revoked", _("revoked")
        if token.is_expired:
            return "expired", _("expired")
        if not token.provider.enabled:
            return "off", _("provider off")
        return ("rotated", _("replaced, still active")) if token.expires is not None else ("usable", _("active"))

    @admin.display(description=_("state"))
    def state_now(self, token: ScimToken) -> Any:
        return self.state(token)[1]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fieldsets if obj is not None else self.add_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else [name for _title, options in self.fieldsets for name in options["fields"]]

    def changeform_view(
        self, request: HttpRequest, object_id: Any = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        # A token is never edited, and the button that adds one leads to the page that shows it.
        hidden = {
            "show_save": object_id is None,
            "show_save_and_continue": False,
            "show_save_and_add_another": False,
        }
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), **hidden})

    def save_model(self, request: HttpRequest, obj: ScimToken, form: Any, change: bool) -> None:
        if change:
            super().save_model(request, obj, form, change)
            return
        made, text = ScimToken.objects.issue(obj.provider)
        for field in made._meta.concrete_fields:
            setattr(obj, field.attname, getattr(made, field.attname))
        obj._state.adding, obj._state.db = False, made._state.db
        request.new_token = text  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: ScimToken, post_url_continue: Any = None) -> HttpResponse:
        return self._show_new(request, obj, getattr(request, "new_token", ""))

    @method_decorator(sensitive_variables("text", "context"))
    def _show_new(self, request: HttpRequest, token: ScimToken, text: str, hours: int = 0) -> HttpResponse:
        """Return the only page that shows the token: never cached, and no redirect carries the token."""
        title = gettext("New provisioning token")
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "content_title": title,
            "opts": self.opts,
            "token": token,
            "text": text,
            "hours": hours,
            "base_url": base_url(),
        }
        response = TemplateResponse(request, "admin/scim/scimtoken/made.html", context)
        add_never_cache_headers(response)
        return response.render()

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> Any:
        """Return the buttons above the form: none that rotates a token that has ended or was rotated."""
        token = self.get_object(request, unquote(str(object_id)))
        found: Any = super().get_actions_detail(request, object_id)  # type: ignore[misc]
        return found if token is not None and _may_rotate(token) else []

    def has_rotate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        return self.has_add_permission(request)

    @action(description=_("Rotate"), permissions=["rotate"])  # type: ignore[untyped-decorator]
    @method_decorator(sensitive_variables("text"))
    def rotate(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask first, and answer a POST with the only page that shows the next token."""
        if request.method not in ("GET", "HEAD", "POST"):
            return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
        token = self.get_object(request, unquote(object_id))
        if token is None:
            raise Http404
        if not _may_rotate(token):
            text = gettext("This token was rotated or has ended. Create a new one.")
            self.message_user(request, text, messages.ERROR)
            return redirect("admin:scim_scimtoken_change", token.pk)
        if request.method == "POST":
            made, text = token.rotate()
            return self._show_new(request, made, text, ROTATION_HOURS)
        title = gettext("Rotate %(token)s") % {"token": token}
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "content_title": title,
            "opts": self.opts,
            "token": token,
            "hours": ROTATION_HOURS,
        }
        return TemplateResponse(request, "admin/scim/scimtoken/rotate.html", context)

    @admin.action(description=_("Revoke"), permissions=["change"])
    def revoke_chosen(self, request: HttpRequest, queryset: QuerySet[ScimToken]) -> None:
        with transaction.atomic():  # all or none
            number = sum(token.revoke() for token in queryset.order_by("pk"))
        text = ngettext("%d token was revoked.", "%d tokens were revoked.", number) % number
        self.message_user(request, text, messages.SUCCESS)

    @action(description=_("Revoke"), permissions=["change"])  # type: ignore[untyped-decorator]
    def revoke_this(self, request: HttpRequest, obj: ScimToken) -> None:
        if obj.revoke():
            self.message_user(request, _("The token was revoked. Requests with it are now rejected."))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny deletion: the audit log refers to revoked tokens. They are deleted only together with their provider."""
        match = request.resolver_match
        return bool(
            match and (match.url_name or "").startswith("identity_provider_")
        ) and super().has_delete_permission(request, obj)


def _may_rotate(token: ScimToken) -> bool:
    return token.is_usable and token.expires is None


@admin.register(ScimGroup)
class ScimGroupAdmin(ModelAdmin):
    list_display = ("name_there", "provider", "number_of_members", "mapped_to", "modified")
    list_filter = (related_filter("provider"),)
    list_select_related = ("provider",)
    list_per_page = 25
    search_fields = ("display_name", "external_id")
    search_help_text = _("Name or ID at the provider")
    ordering = ("display_name", "id")
    fields = (
        "name_there",
        "id_there",
        "provider",
        "mapped_to",
        "number_of_members",
        "members_there",
        "created",
        "modified",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ScimGroup]:
        found: QuerySet[ScimGroup] = super().get_queryset(request)
        return found.annotate(number=Count("members")).prefetch_related("provider__mappings__group")

    @admin.display(description=_("name there"), ordering="display_name")
    def name_there(self, group: ScimGroup) -> str:
        return str(group)

    @admin.display(description=_("ID there"))
    def id_there(self, group: ScimGroup) -> str:
        return invisible.show(group.external_id) or "-"

    @admin.display(description=_("number of members"))
    def number_of_members(self, group: Any) -> int:
        return int(group.number)

    @admin.display(description=_("members"))
    def members_there(self, group: Any) -> str:
        names = [str(one) for one in group.members.order_by("user_name_key")[:MAX_SHOWN_MEMBERS]]
        more = group.number - len(names)
        text = ", ".join(names) or "-"
        return (
            text
            if more <= 0
            else ngettext("%(names)s and %(more)d more", "%(names)s and %(more)d more", more)
            % {
                "names": text,
                "more": more,
            }
        )

    @admin.display(description=_("group here"))
    def mapped_to(self, group: ScimGroup) -> str:
        values = {group.display_name, group.external_id} - {""}
        names = sorted({one.group.name for one in group.provider.mappings.all() if one.value in values})
        if names:
            return ", ".join(names)
        address = reverse("admin:identity_provider_change", args=[group.provider_id])
        return format_html('{} <a href="{}" class="underline">{}</a>', _("not mapped:"), address, _("map it"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Deny additions: the identity provider keeps its groups."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny deletion, except together with the provider."""
        match = request.resolver_match
        return bool(match and (match.url_name or "").startswith("identity_provider_") and request.user.is_superuser)
