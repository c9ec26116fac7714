"""Identity providers, group mappings and identities in the admin.

Who configures a provider decides who signs in as whom. So only superusers do; others may be given the view.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import requests
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters
from unfold.admin import TabularInline
from unfold.decorators import display
from unfold.widgets import UnfoldAdminPasswordWidget

from audit.admin_base import ModelAdmin
from audit.admin_filters import related_filter
from catalog.encryption import KeysError
from toolhub.identity import github, openid, providers, saml_admin, sign_in, views
from toolhub.identity.models import GroupMapping, Identity, Provider

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
CHANGING_CLAIMS = frozenset({"email", "mail", "preferred_username", "upn", "name", "unique_name", "nickname"})
"""Claims that a provider may give to another person later."""
DEFAULT_SCOPES = {
    Provider.Kind.OPENID: "openid profile email",
    Provider.Kind.GITHUB: " ".join(github.SCOPES),
}

_CLIENTS = (_("Clients"), {"fields": ("accepts_assertions", "assertion_clients")})


class SuperusersOnly(ModelAdmin):
    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_active and request.user.is_superuser)


class ProviderForm(forms.ModelForm):  # type: ignore[type-arg]
    new_secret = forms.CharField(
        label=_("New client secret"),
        required=False,
        max_length=1000,
        strip=True,
        widget=UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"}),
        help_text=_("Stored encrypted and never shown. Leave empty to keep the stored one."),
    )

    class Meta:
        model = Provider
        fields = (
            *("name", "slug", "kind", "enabled", "issuer", "client_id", "scopes"),
            *("subject_claim", "groups_claim", "new_people", "check_minutes", "lapse_hours", "metadata"),
            *("accepts_assertions", "assertion_clients"),
        )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.kind == Provider.Kind.SAML:
            saml_admin.describe_fields(self.fields)

    def clean_issuer(self) -> str:
        address = str(self.cleaned_data["issuer"]).strip()
        if not address:
            return ""
        try:
            parts = urlsplit(address)
            host = parts.hostname or ""
            _ = parts.port
        except ValueError:
            raise ValidationError(gettext("Enter an https address."), code="invalid") from None
        local = parts.scheme == "http" and host in LOCAL_HOSTS
        if not host or set(address) & set("?#@\\ ") or not (parts.scheme == "https" or local):
            raise ValidationError(
                gettext("Enter an https address without a query, for example https://login.example.com."),
                code="invalid",
            )
        return address.rstrip("/")

    def clean_slug(self) -> str:
        slug = str(self.cleaned_data["slug"])
        if slug == providers.ENVIRONMENT_SLUG:
            raise ValidationError(
                gettext("Choose another short name: this one is for the provider in the environment."), code="reserved"
            )
        return slug

    def clean_subject_claim(self) -> str:
        name = str(self.cleaned_data["subject_claim"]).strip()
        if name.lower() in CHANGING_CLAIMS:
            raise ValidationError(
                gettext("Choose a claim that identifies a person for ever. Mail addresses and names change hands."),
                code="changing",
            )
        if self.instance.kind == Provider.Kind.SAML:
            saml_admin.clean_subject_claim(name)
        return name

    def clean_metadata(self) -> str:
        text = str(self.cleaned_data["metadata"])
        if self.instance.kind == Provider.Kind.SAML and text:
            self.instance.metadata_warning = saml_admin.warn(saml_admin.clean_metadata(self.instance, text))
        return text

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        kind = found.get("kind", self.instance.kind)
        if not self.instance.pk:
            found["scopes"] = DEFAULT_SCOPES.get(kind, "")
            if kind == Provider.Kind.GITHUB:
                found["issuer"] = github.PUBLIC_ADDRESS
            for name in ("scopes", "issuer"):
                if name in found:
                    setattr(self.instance, name, found[name])
        if found.get("enabled"):
            for name in ("metadata",) if kind == Provider.Kind.SAML else ("issuer", "client_id"):
                if name in self.fields and not found.get(name) and name not in self.errors:
                    self.add_error(
                        name, ValidationError(gettext("Required before people can sign in."), code="required")
                    )
        if kind == Provider.Kind.OPENID and found.get("scopes") and "openid" not in found["scopes"].split():
            self.add_error("scopes", ValidationError(gettext("Include the scope openid."), code="openid"))
        secret = found.get("new_secret")
        if kind == Provider.Kind.GITHUB and found.get("enabled") and not (secret or self.instance.client_secret):
            self.add_error(
                "new_secret", ValidationError(gettext("Required before people can sign in."), code="required")
            )
        # The other pages have no such field, whatever is sent to them.
        if secret and self.instance.pk and not self.instance.from_environment:
            try:
                self.instance.set_secret(secret)
            except KeysError as error:
                self.add_error("new_secret", ValidationError(str(error), code="keys"))
        return found


class MappingForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = GroupMapping
        fields = ("value", "group", "staff")


class MappingInline(TabularInline):  # type: ignore[misc]
    model = GroupMapping
    form = MappingForm
    extra = 0
    per_page = 10
    autocomplete_fields = ("group",)
    verbose_name_plural = _("group mappings")

    def get_queryset(self, request: HttpRequest) -> QuerySet[GroupMapping]:
        rows: QuerySet[GroupMapping] = super().get_queryset(request).select_related("group").order_by("value", "pk")
        return rows

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.is_superuser)

    has_change_permission = has_delete_permission = has_add_permission

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(request.user.has_perm("identity.view_provider"))


@admin.register(Provider)
class ProviderAdmin(SuperusersOnly):
    form = ProviderForm
    list_display = ("name", "kind", "state", "number_of_people", "issuer")
    list_per_page = 25
    search_fields = ("name", "slug", "issuer")
    warn_unsaved_form = True
    autocomplete_fields = ("assertion_clients",)
    add_fieldsets = ((None, {"fields": ("name", "slug", "kind")}),)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return self.add_fieldsets
        changes = self.has_change_permission(request, obj) and not obj.from_environment
        secret = ("secret_state", "new_secret") if changes else ("secret_state",)
        connection = (
            ("issuer", "client_id", *secret, "scopes") if obj.kind != Provider.Kind.SAML else ("metadata", "issuer")
        )
        # SAML has no token with which a provider could be asked again.
        periods = "lapse_hours" if obj.kind == Provider.Kind.SAML else ("check_minutes", "lapse_hours")
        people = ("subject_claim", "groups_claim", "new_people", periods)
        return (
            (None, {"fields": ("name", "kind", "enabled", "redirect_address", "test")}),
            (_("Connection"), {"fields": connection}),
            (_("People and groups"), {"fields": people if obj.kind != Provider.Kind.GITHUB else people[2:]}),
            *((_CLIENTS,) if obj.kind == Provider.Kind.OPENID else ()),
        )

    def get_inlines(self, request: HttpRequest, obj: Any) -> Any:
        return (MappingInline,) if obj is not None else ()

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is None:
            return ()
        fixed = ["kind", "redirect_address", "test", "secret_state"]
        if obj.kind == Provider.Kind.SAML:
            fixed.append("issuer")  # the entity ID in the metadata
        if obj.from_environment:
            fixed += ["name", "enabled", "issuer", "client_id", "scopes", "subject_claim", "groups_claim"]
        elif obj.identities.exists():
            fixed += ["issuer", "subject_claim"]  # who is who hangs on both
        return fixed

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return {"slug": ("name",)} if obj is None else {}

    @method_decorator(sensitive_post_parameters("new_secret"))
    def changeform_view(self, request: HttpRequest, *args: Any, **options: Any) -> Any:
        return super().changeform_view(request, *args, **options)

    def save_model(self, request: HttpRequest, obj: Provider, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if warning := getattr(obj, "metadata_warning", ""):
            self.message_user(request, warning, messages.WARNING)

    def response_add(self, request: HttpRequest, obj: Provider, post_url_continue: Any = None) -> HttpResponse:
        """Lead on to the page with the settings of this type of provider."""
        return redirect("admin:identity_provider_change", obj.pk)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny the deletion of a provider that people sign in with, and of the one in the environment."""
        allowed = super().has_delete_permission(request, obj)
        return allowed and (obj is None or not (obj.from_environment or obj.identities.exists()))

    def get_actions(self, request: HttpRequest) -> Any:
        return {}

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).annotate(people=Count("identities"))

    @display(description=_("state"), label={"on": "success", "off": "info"})  # type: ignore[untyped-decorator]
    def state(self, row: Provider) -> tuple[str, Any]:
        return ("on", _("on")) if row.enabled else ("off", _("off"))

    @admin.display(description=_("people"))
    def number_of_people(self, row: Provider) -> int:
        return row.people  # type: ignore[attr-defined, no-any-return]

    @admin.display(description=_("client secret"))
    def secret_state(self, row: Provider) -> str:
        if row.from_environment:
            return gettext("from TOOLHUB_OIDC_CLIENT_SECRET") if settings.OIDC_CLIENT_SECRET else gettext("missing")
        return gettext("set") if row.client_secret else gettext("missing")

    @admin.display(description=_("redirect address"))
    def redirect_address(self, row: Provider) -> str:
        if row.kind == Provider.Kind.SAML:
            return saml_admin.describe_addresses(row)
        address = providers.callback_url(row.slug)
        return format_html(
            '<code class="select-all">{}</code><br>{}', address, gettext("Register it at your provider.")
        )

    @admin.display(description=_("test"))
    def test(self, row: Provider) -> str:
        address = reverse("admin:identity_provider_tested", args=[row.pk])
        return format_html('<a href="{}" class="underline">{}</a>', address, gettext("Test this provider"))

    def get_urls(self) -> list[URLPattern]:
        page = self.admin_site.admin_view(self.test_page)
        return [path("<int:pk>/test/", page, name="identity_provider_tested"), *super().get_urls()]

    def test_page(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        """Ask the provider for its configuration, or sign in there to see what it says; nothing is changed."""
        provider = Provider.objects.filter(pk=pk).first()
        if provider is None:
            raise Http404
        if not self.has_change_permission(request, provider):
            raise PermissionDenied
        checks: list[tuple[bool, str]] = []
        if request.method == "POST":
            if request.POST.get("action") == "sign-in":
                return views.begin_test(request, provider)
            checks = run_checks(provider)
        result = request.session.get(sign_in.TEST_RESULT)
        if result is not None and result["provider"] != provider.pk:
            result = None
        groups = set(result["groups"]) if result else set()
        mapped = [one for one in provider.mappings.select_related("group") if one.value in groups]
        title = gettext("Test %s") % provider.name
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "content_title": title,
            "provider": provider,
            "checks": checks,
            "result": result,
            "mapped": mapped,
            "unmapped": sorted(groups - {one.value for one in mapped}),
        }
        return TemplateResponse(request, "admin/identity/test.html", context)


def run_checks(provider: Provider) -> list[tuple[bool, str]]:
    """Return what can be found out without a person: (passed, a sentence) each."""
    found: list[tuple[bool, str]] = []
    if provider.kind == Provider.Kind.OPENID:
        try:
            document = openid.fetch_configuration(provider.issuer, fresh=True)
            found.append((True, gettext("The provider's configuration was read.")))
            methods = document.get("code_challenge_methods_supported") or []
            if "S256" not in methods:
                found.append((True, gettext("The provider does not say that it supports PKCE. It is sent anyway.")))
            scopes = document.get("scopes_supported") or []
            if "offline_access" in scopes and "offline_access" not in provider.scopes.split():
                text = gettext(
                    "Add the scope offline_access: without a refresh token, people must sign in again every %d hours."
                )
                found.append((True, text % provider.lapse_hours))
            openid.fetch_keys(document)
            found.append((True, gettext("The provider's signing keys were read.")))
        except (OAuth2Error, requests.RequestException) as error:
            found.append((False, gettext("The provider cannot be used: %s.") % str(error)[:300]))
    if provider.kind == Provider.Kind.SAML:
        found += saml_admin.run_checks(provider)
    elif not provider.client_id:
        found.append((False, gettext("The client ID is missing.")))
    secret = provider.client_secret or (provider.from_environment and settings.OIDC_CLIENT_SECRET)
    if provider.kind != Provider.Kind.SAML and not secret:
        found.append((provider.kind != Provider.Kind.GITHUB, gettext("No client secret is set.")))
    if provider.new_people == Provider.NewPeople.MAPPED and not provider.mappings.exists():
        found.append((False, gettext("No group is mapped, so nobody new can sign in.")))
    return found


def describe_state(row: Identity) -> tuple[str, Any]:
    """Return (key, text) of whether a person can sign in with this identity, and why not."""
    if row.provisioned is False:
        return "ended", _("removed by provisioning")
    if row.valid_until is None:
        return ("waiting", _("not signed in yet")) if row.last_sign_in is None else ("lapsed", _("lapsed"))
    if row.valid_until <= timezone.now():
        return "lapsed", _("lapsed")
    if row.user.is_active:
        return "active", _("active")
    ended = getattr(row.user, "deactivation", None)
    return "ended", ended.get_reason_display() if ended is not None else _("user inactive")


@admin.register(Identity)
class IdentityAdmin(SuperusersOnly):
    list_display = ("user", "provider", "label", "state", "last_sign_in", "checked", "valid_until")
    list_filter = (related_filter("provider"),)
    list_select_related = ("user", "provider", "user__deactivation")
    list_per_page = 25
    search_fields = ("user__username", "label", "subject")
    search_help_text = _("User, name or subject at the provider")
    fieldsets = (
        (None, {"fields": ("user", "provider", "issuer", "subject", "label", "state_now")}),
        (_("Groups"), {"fields": ("groups_there",)}),
        (_("History"), {"fields": ("created", "last_sign_in", "checked", "valid_until", "linked_by_owner")}),
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return [name for _title, options in self.fieldsets for name in options["fields"]]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny additions: a person links an identity, by signing in with it."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @display(  # type: ignore[untyped-decorator]
        description=_("state"),
        label={"active": "success", "waiting": "info", "lapsed": "warning", "ended": "danger"},
    )
    def state(self, row: Identity) -> tuple[str, Any]:
        return describe_state(row)

    @admin.display(description=_("state"))
    def state_now(self, row: Identity) -> Any:
        return describe_state(row)[1]

    @admin.display(description=_("groups at the provider"))
    def groups_there(self, row: Identity) -> str:
        return ", ".join(sorted(row.groups)) or gettext("none")

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        for identity in queryset:
            identity.delete()
        number = len(queryset)
        text = ngettext("%d identity was removed.", "%d identities were removed.", number) % number
        self.message_user(request, text, messages.SUCCESS)


class IdentityInline(TabularInline):  # type: ignore[misc]
    """The identities on the page of a user, to read."""

    model = Identity
    extra = 0
    tab = True
    show_change_link = True
    fields = readonly_fields = ("provider", "label", "state", "last_sign_in", "valid_until")

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related("provider", "user__deactivation")

    @admin.display(description=_("state"))
    def state(self, row: Identity) -> Any:
        return describe_state(row)[1]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_change_permission = has_delete_permission = has_add_permission
