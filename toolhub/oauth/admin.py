"""Clients and connected apps in the admin: which clients are trusted or blocked, and who has connected what.

The tables of django-oauth-toolkit are no pages: nobody writes tokens for somebody else by hand.
"""

from __future__ import annotations

import secrets
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from oauth2_provider import admin as _registered  # noqa: F401  (it registers the models, and must do so before this)
from oauth2_provider.models import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_id_token_model,
    get_refresh_token_model,
)
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextareaWidget

from audit.actions import log
from audit.admin_base import ModelAdmin
from toolhub.access.models import digest_of
from toolhub.oauth import redirects, tokens
from toolhub.oauth.models import Client, ConnectedApp

LOGGED_FIELDS = ("name", "redirect_uris", "client_type", "trusted", "blocked")

for _model in (
    get_application_model(),
    get_access_token_model(),
    get_grant_model(),
    get_id_token_model(),
    get_refresh_token_model(),
):
    admin.site.unregister(_model)


class ClientForm(forms.ModelForm):  # type: ignore[type-arg]
    """The form of a client that an administrator adds, or that they know."""

    redirect_uris = forms.CharField(
        label=_("Redirect addresses"),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        required=False,
        help_text=_(
            "One in a line, up to ten: https, http to localhost, or the scheme of an application. A confidential client"
            " that an identity provider connects needs none."
        ),
    )
    client_type = forms.ChoiceField(
        label=_("Client type"),
        widget=UnfoldAdminSelectWidget,
        choices=(
            (Client.CLIENT_PUBLIC, _("Public: runs on people's computers and keeps no secret")),
            (Client.CLIENT_CONFIDENTIAL, _("Confidential: runs on a server and keeps a secret")),
        ),
    )

    class Meta:
        model = Client
        fields = ("name", "redirect_uris", "client_type", "trusted", "blocked")

    def clean_redirect_uris(self) -> str:
        addresses = list(dict.fromkeys(self.cleaned_data["redirect_uris"].split()))
        if len(addresses) > redirects.MAX_ADDRESSES:
            raise ValidationError(_("Enter at most %d addresses.") % redirects.MAX_ADDRESSES)
        for address in addresses:
            if redirects.find_problem(address):
                raise ValidationError(
                    _("“%s” is not accepted. Use https, http to localhost, or a scheme of TOOLHUB_CLIENT_SCHEMES.")
                    % address[:200]
                )
        return " ".join(addresses)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        kind = cleaned.get("client_type", self.instance.client_type)
        if cleaned.get("redirect_uris") == "" and kind != Client.CLIENT_CONFIDENTIAL:
            self.add_error("redirect_uris", ValidationError(_("Enter at least one address."), code="required"))
        return cleaned

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"]).strip()
        if not name:
            raise ValidationError(_("People see this name when they connect the client."), code="required")
        return name

    def _post_clean(self) -> None:
        # The rules of the library's own model are about grants that no client here has.
        for name, value in self.cleaned_data.items():
            setattr(self.instance, name, value)


@admin.register(Client)
class ClientAdmin(ModelAdmin):
    form = ClientForm
    list_display = ("shown_name", "source", "state", "number_of_people", "last_used", "created")
    list_filter = ("registration_source", "trusted", "blocked")
    list_per_page = 25
    search_fields = ("name", "client_id", "redirect_uris")
    search_help_text = _("Name, id or redirect address")
    ordering = ("-id",)
    add_fieldsets = ((None, {"fields": ("name", "redirect_uris", "client_type", "trusted")}),)
    fieldsets = (
        (None, {"fields": ("name", "client_id", "source", "redirect_uris", "client_type")}),
        (_("Access"), {"fields": ("trusted", "blocked")}),
        (_("History"), {"fields": ("registered_from", "created", "last_used")}),
    )
    readonly_fields = ("client_id", "source", "registered_from", "created", "last_used")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Client]:
        usable = Q(connections__revoked=None, connections__expires__gt=timezone.now())
        people = Count("connections__user", filter=usable & Q(connections__activated__isnull=False), distinct=True)
        found: QuerySet[Client] = super().get_queryset(request).annotate(people=people)
        return found

    @admin.display(description=_("name"), ordering="name")
    def shown_name(self, client: Client) -> str:
        return str(client)[:100]

    @admin.display(description=_("known by"))
    def source(self, client: Client) -> str:
        if client.registration_source == Client.RegistrationSource.CIMD:
            return str(_("its document at %s")) % client.document_host
        if client.registration_source == Client.RegistrationSource.DCR:
            return str(_("its own registration (not verified)"))
        return str(_("an administrator"))

    @display(  # type: ignore[untyped-decorator]
        description=_("state"), label={"trusted": "success", "blocked": "danger", "known": "info"}
    )
    def state(self, client: Client) -> tuple[str, Any]:
        if client.blocked:
            return "blocked", _("blocked")
        return ("trusted", _("trusted")) if client.trusted else ("known", _("known"))

    @admin.display(description=_("people"))
    def number_of_people(self, client: Any) -> int:
        return int(client.people)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fieldsets if obj else self.add_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ()
        own = obj.registration_source == Client.RegistrationSource.MANUAL
        return (*self.readonly_fields, *(() if own else ("name", "redirect_uris")), "client_type")

    def changeform_view(
        self, request: HttpRequest, object_id: Any = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        # Every save button leads to the page that shows the new secret.
        hidden = {"show_save_and_add_another": False, "show_save_and_continue": object_id is not None}
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), **hidden})

    def save_model(self, request: HttpRequest, obj: Client, form: Any, change: bool) -> None:
        stored = Client.objects.filter(pk=obj.pk).first() if change else None
        if not change:
            secret = tokens.new_client_secret() if obj.client_type == Client.CLIENT_CONFIDENTIAL else ""
            obj.client_id = secrets.token_urlsafe(24)
            obj.client_secret = digest_of(secret) if secret else ""
            obj.hash_client_secret = False
            obj.auth_method = "client_secret_basic" if secret else "none"
            obj.authorization_grant_type = Client.GRANT_AUTHORIZATION_CODE
            obj.registration_source = Client.RegistrationSource.MANUAL
            obj.for_devices = True
            request.new_secret = secret  # type: ignore[attr-defined]
        with transaction.atomic():
            super().save_model(request, obj, form, change)
            # Clients that register themselves are not logged: anybody could fill the log with them.
            log.record(
                "changed" if change else "created",
                "client",
                str(obj),
                {name: getattr(stored, name) for name in LOGGED_FIELDS} if stored is not None else None,
                {name: getattr(obj, name) for name in LOGGED_FIELDS},
            )

    def response_add(self, request: HttpRequest, obj: Client, post_url_continue: Any = None) -> HttpResponse:
        """Return the only page that shows the secret; no redirect carries it."""
        context = {
            **self.admin_site.each_context(request),
            "title": _("New client"),
            "client": obj,
            "secret": getattr(request, "new_secret", ""),
            "opts": self.model._meta,
        }
        response = TemplateResponse(request, "admin/oauth/client/made.html", context)
        add_never_cache_headers(response)
        return response.render()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny deletion: the audit log refers to the apps of a client. One that is not wanted is blocked."""
        return False


class StateFilter(admin.SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        return [("usable", _("active")), ("ended", _("disconnected or expired"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        usable = ConnectedApp.objects.usable().values("pk")
        if self.value() == "usable":
            return queryset.filter(pk__in=usable)
        return queryset.exclude(pk__in=usable) if self.value() == "ended" else queryset


@admin.register(ConnectedApp)
class ConnectedAppAdmin(ModelAdmin):
    list_display = ("client", "user", "state", "created", "expires", "last_used", "last_address")
    list_filter = (StateFilter,)
    list_select_related = ("client", "user")
    list_per_page = 25
    search_fields = ("client__name", "client__client_id", "user__username")
    search_help_text = _("Name or id of the client, or user")
    actions = ("revoke_chosen",)
    actions_submit_line = ("revoke_this",)
    fieldsets = (
        (None, {"fields": ("client", "user", "credential", "state_now", "connected_by", "answers_to", "scope")}),
        (_("Access"), {"fields": ("restricted", "chosen_toolsets")}),
        (_("History"), {"fields": ("created", "expires", "last_used", "last_address", "revoked")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[ConnectedApp]:
        found: QuerySet[ConnectedApp] = super().get_queryset(request).filter(activated__isnull=False)
        return found

    @display(  # type: ignore[untyped-decorator]
        description=_("state"),
        label={"usable": "success", "expired": "warning", "revoked": "danger", "inactive": "warning"},
    )
    def state(self, app: ConnectedApp) -> tuple[str, Any]:
        if app.revoked is not None:
            return "revoked", _("disconnected")
        if app.is_expired:
            return "expired", _("expired")
        if app.client.blocked:
            return "inactive", _("client blocked")
        return ("usable", _("active")) if app.user.is_active else ("inactive", _("user inactive"))

    @admin.display(description=_("state"))
    def state_now(self, app: ConnectedApp) -> Any:
        return self.state(app)[1]

    @admin.display(description=_("credential id"))
    def credential(self, app: ConnectedApp) -> str:
        return app.credential_id

    @admin.display(description=_("connected by"))
    def connected_by(self, app: ConnectedApp) -> str:
        return str(app.user) if app.identity is None else str(_("identity provider %s")) % app.destination

    @admin.display(description=_("answers go to"))
    def answers_to(self, app: ConnectedApp) -> str:
        return app.destination if app.identity is None else "-"

    @admin.display(description=_("toolsets"))
    def chosen_toolsets(self, app: ConnectedApp) -> str:
        return ", ".join(map(str, app.toolsets.all())) if app.restricted else str(_("everything"))

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for _title, options in self.fieldsets for name in options["fields"]]

    def changeform_view(
        self, request: HttpRequest, object_id: Any = None, form_url: str = "", extra_context: Any = None
    ) -> Any:
        hidden = {"show_save": False, "show_save_and_continue": False}
        return super().changeform_view(request, object_id, form_url, {**(extra_context or {}), **hidden})

    @admin.action(description=_("Disconnect"), permissions=["change"])
    def revoke_chosen(self, request: HttpRequest, queryset: QuerySet[ConnectedApp]) -> None:
        with transaction.atomic():  # all or none; one by one, as every open stream of an app must be notified
            number = sum(app.revoke() for app in queryset.order_by("pk"))
        text = ngettext("%d app was disconnected.", "%d apps were disconnected.", number) % number
        self.message_user(request, text, messages.SUCCESS)

    @action(description=_("Disconnect"), permissions=["change"])  # type: ignore[untyped-decorator]
    def revoke_this(self, request: HttpRequest, obj: ConnectedApp) -> None:
        if obj.revoke():
            self.message_user(request, _("The app was disconnected. Its requests are now rejected."))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Deny additions: a person connects an app, by signing in."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny deletion, except together with the owner: the audit log refers to disconnected apps."""
        match = request.resolver_match
        return bool(match and (match.url_name or "").startswith("auth_user_")) and super().has_delete_permission(
            request, obj
        )
