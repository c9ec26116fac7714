"""Secrets in the admin: values can be written and never read. Its uses are shown, and block its deletion."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Count, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters
from unfold.decorators import display

from audit.actions.cascade import BoundedDeletion
from audit.admin_base import ModelAdmin
from catalog.accounts import clients, discovery, problems
from catalog.accounts.problems import AccountProblem
from catalog.admin.forms import CatalogueForm
from catalog.models import Secret
from catalog.models.fields import NamesFormField
from catalog.models.secrets import ACCOUNT_ADDRESSES
from catalog.secrets import resolve
from catalog.secrets.entry import MAX_VALUE_CHARACTERS, WriteOnlyWidget, enter_value
from catalog.secrets.resolve import check_value
from catalog.threads import run_in_loop
from toolhub.chinese import close_blanks

MAX_USES = 200
"""Maximum number of uses on the page of a secret."""


ACCOUNT_FIELDS = (
    *("url", "issuer", "scopes", "client_id"),
    *("authorization_endpoint", "token_endpoint", "revocation_endpoint"),
)


class SecretForm(CatalogueForm):
    new_value = forms.CharField(
        required=False,
        max_length=MAX_VALUE_CHARACTERS,
        widget=WriteOnlyWidget(),
        validators=[check_value],
        label=_("New value"),
        help_text=_("The value is never shown again. Leave this empty to keep the current value."),
    )

    new_client_secret = forms.CharField(
        required=False,
        max_length=8_192,
        widget=WriteOnlyWidget(),
        label=_("New client secret"),
        help_text=_("It is never shown again. Leave this empty to keep the current one."),
    )

    class Meta:
        model = Secret
        fields = ("name", "kind", "description", "hosts", *ACCOUNT_FIELDS)
        field_classes = {"hosts": NamesFormField}

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean() or {}
        kind = cleaned.get("kind") or self.instance.kind
        if kind == Secret.Kind.PERSONAL and cleaned.get("new_value"):
            self.add_error("new_value", _("A personal secret has no value here. Each user enters their own."))
        if kind == Secret.Kind.ACCOUNT and cleaned.get("new_value"):
            self.add_error("new_value", _("An account has no value here. Each user connects their own."))
        if cleaned.get("new_client_secret") and not cleaned.get("client_id"):
            self.add_error("client_id", _("Enter the ID of the client that has this secret."))
        return cleaned

    def _post_clean(self) -> None:
        # Entered before the row is checked: only a new value may go to further hosts.
        name = self.cleaned_data.get("name") or self.instance.name
        for field, enter in (
            ("new_value", self.instance.enter),
            ("new_client_secret", self.instance.enter_client_secret),
        ):
            value = self.cleaned_data.get(field)
            if value and name and not self.errors:
                self.instance.name = name
                for address in ACCOUNT_ADDRESSES:  # what is entered belongs to them
                    setattr(self.instance, address, self.cleaned_data.get(address, getattr(self.instance, address)))
                enter_value(self, field, enter, value)
        if "client_id" in self.cleaned_data and not self.cleaned_data["client_id"]:
            self.instance.client_secret = ""  # a secret without its client
        super()._post_clean()  # type: ignore[misc]


def join_limited(words: list[str], shown: int = 50) -> str:
    """Return the first `shown` words as text, and the number of further ones."""
    more = len(words) - shown
    further = [gettext("and %(more)s more") % {"more": more}] if more > 0 else []
    return close_blanks(", ".join([*words[:shown], *further]))


@admin.register(Secret)
class SecretAdmin(BoundedDeletion, ModelAdmin):
    form = SecretForm
    list_filter = ("kind",)
    search_fields = ("name", "description")
    search_help_text = _("Name or description")
    list_per_page = 25
    warn_unsaved_form = True
    readonly_fields = ("state", "bound_to", "used_by", "entered_by", "sign_in", "client_secret_state")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset(request).annotate(entries=Count("entered"))
        return found

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        # Settings of tools refer to the name, and the entered values belong to name and kind.
        return self.readonly_fields if obj is None else ("name", "kind", *self.readonly_fields)

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        changes = self.has_change_permission(request, obj)
        entered = ("new_client_secret",) if changes or obj is None else ()
        account = (*ACCOUNT_FIELDS[:4], *entered, *ACCOUNT_FIELDS[4:])
        if obj is None:
            own = ("name", "kind", "description", "hosts", "new_value")
            return ((None, {"fields": own}), (_("Account"), {"classes": ("collapse",), "fields": account}))
        fields = ("name", "kind", "description", "hosts" if changes else "bound_to")
        if obj.kind == Secret.Kind.ACCOUNT:
            shown = (*ACCOUNT_FIELDS[:4], "client_secret_state", *entered, *ACCOUNT_FIELDS[4:])
            return (
                (None, {"fields": (*fields, "sign_in", "entered_by", "used_by")}),
                (_("Account"), {"fields": shown}),
            )
        if obj.kind == Secret.Kind.PERSONAL:
            return ((None, {"fields": (*fields, "entered_by", "used_by")}),)
        return ((None, {"fields": (*fields, *(("new_value",) if changes else ()), "state", "used_by")}),)

    def get_urls(self) -> list[URLPattern]:
        urls: list[URLPattern] = super().get_urls()
        page = self.admin_site.admin_view(self.sign_in_page)
        return [path("<int:pk>/sign-in/", page, name="catalog_secret_sign_in"), *urls]

    def sign_in_page(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Find out where people sign in for an account, and what this server is there; nothing is changed."""
        secret = Secret.objects.filter(pk=pk, kind=Secret.Kind.ACCOUNT).first()
        if secret is None:
            raise Http404
        if not self.has_change_permission(request, secret):
            raise PermissionDenied
        context = {**self.admin_site.each_context(request), "secret": secret, "redirect": clients.redirect_url()}
        if request.method == "POST":
            try:
                context["server"] = server = run_in_loop(discovery.discover(secret))
                context["client"] = clients.describe_choice(secret, server)
            except AccountProblem as problem:
                context["problem"] = problems.describe(problem)
        title = gettext("Sign-in of the account %s") % secret.name
        context |= {"title": title, "content_title": title}
        return TemplateResponse(request, "admin/catalog/secret_sign_in.html", context)

    @admin.display(description=_("sign-in"))
    def sign_in(self, row: Secret) -> str:
        address = reverse("admin:catalog_secret_sign_in", args=[row.pk])
        return format_html('<a href="{}" class="underline">{}</a>', address, gettext("Check where people sign in"))

    @admin.display(description=_("client secret"))
    def client_secret_state(self, row: Secret) -> str:
        return gettext("set") if row.client_secret else gettext("none")

    @method_decorator(sensitive_post_parameters("new_value", "new_client_secret"))
    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        with transaction.atomic():
            response: HttpResponse = super().changeform_view(request, *args, **kwargs)
        return response

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Return the objects to delete; secrets in use are protected, and the page names the uses to change first."""
        deleted, counts, needed, protected = super().get_deleted_objects(objs, request)
        uses = resolve.uses()
        protected_uses = [
            gettext("%(what)s uses the secret %(name)s") % {"what": use.what, "name": secret.name}
            for secret in objs
            for use in uses.get(secret.name, [])
        ]
        return deleted, counts, needed, [*protected, *protected_uses]

    @display(
        description=_("kind"), ordering="kind", label={"shared": "info", "personal": "success", "account": "success"}
    )  # type: ignore[untyped-decorator]
    def kind_badge(self, row: Secret) -> tuple[str, str]:
        # The choices of the form explain each kind; a list has room for one word.
        words = {"shared": gettext("shared"), "personal": gettext("personal"), "account": gettext("account")}
        return row.kind, words[row.kind]

    @admin.display(description=_("value"))
    def state(self, row: Any) -> str:
        if row.kind == Secret.Kind.ACCOUNT:
            return str(ngettext("connected by %d user", "connected by %d users", row.entries) % row.entries)
        if row.kind == Secret.Kind.PERSONAL:
            return str(ngettext("entered by %d user", "entered by %d users", row.entries) % row.entries)
        return gettext("set") if row.value else gettext("missing")

    def get_list_display(self, request: HttpRequest) -> tuple[Any, ...]:
        uses = resolve.uses()  # once for all rows

        @admin.display(description=_("used by"))
        def used_by(row: Secret) -> str:
            return join_limited([use.what for use in uses.get(row.name, [])], 3) or gettext("nothing")

        return ("name", "kind_badge", "state", used_by, "changed_at")

    @admin.display(description=_("sent by"))
    def used_by(self, row: Secret) -> str:
        """Return every use with its destinations, and whether the hosts of the secret block it."""
        lines = []
        for use in resolve.uses().get(row.name, [])[:MAX_USES]:
            for destination in use.destinations:
                values = {"what": use.what, "destination": destination.label}
                if row.allows(destination):
                    lines.append(gettext("%(what)s, to %(destination)s") % values)
                else:
                    lines.append(gettext("%(what)s, to %(destination)s (blocked by the hosts)") % values)
        return format_html_join(SafeString("<br>"), "{}", ((line,) for line in lines)) or gettext("nothing")

    @admin.display(description=_("hosts"))
    def bound_to(self, row: Secret) -> str:
        return ", ".join(row.hosts) or gettext("not bound")

    @admin.display(description=_("entered by"))
    def entered_by(self, row: Secret) -> str:
        names = list(row.entered.values_list("user__username", flat=True).order_by("user__username"))
        return join_limited(names) or gettext("no one")
