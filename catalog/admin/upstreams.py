"""Upstream servers in the admin: connection, health, offered tools, and imports.

Every page that connects (testing included) runs the configured program or request. It therefore needs the same
permission as saving the settings, requires a POST and is logged.
"""

from __future__ import annotations

from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet, Value
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display
from unfold.widgets import UnfoldAdminSelectWidget

from audit.actions import actor
from audit.actions.cascade import BoundedDeletion
from audit.admin_base import ModelAdmin
from catalog.accounts import problems
from catalog.accounts.problems import AccountProblem
from catalog.admin.connection_tests import describe_listing, stream_test
from catalog.admin.forms import CatalogueForm
from catalog.models import Prompt, Resource, Secret, Tool, Upstream, secret_flows
from catalog.models import validators as check
from catalog.models.base import CatalogueItem
from catalog.models.fields import NetworksFormField
from catalog.models.secrets import PERMISSION as USE_SECRETS
from catalog.querysets import count_by_origin
from catalog.runners.upstream_mcp.failures import UpstreamError
from catalog.upstreams import accounts, discovery
from catalog.upstreams.listing import KINDS, Listing


def _may_import(request: HttpRequest, kind: str) -> bool:
    return kind in KINDS and bool(request.user.has_perm(f"catalog.add_{kind}"))


def _may_add_accounts(request: HttpRequest) -> bool:
    return request.user.has_perms(("catalog.add_secret", USE_SECRETS))


class _Imported:
    """An imported item with the addresses of its pages."""

    def __init__(self, row: CatalogueItem) -> None:
        self.row, self.kind = row, row._meta.verbose_name
        pages = f"admin:catalog_{row._meta.model_name}"
        self.change, self.review = reverse(f"{pages}_change", args=[row.pk]), reverse(f"{pages}_review", args=[row.pk])


class SecretsOfField(forms.ModelChoiceField):  # type: ignore[type-arg]
    """A choice between one's own personal secrets, none, and those of the user who chose theirs before."""

    def label_from_instance(self, obj: Any) -> str:
        user = actor.current_user()
        if user is not None and user.pk == obj.pk:
            return gettext("Use my personal secrets (%(user)s)") % {"user": obj}
        return gettext("Keep using the personal secrets of %(user)s") % {"user": obj}


class UpstreamForm(CatalogueForm):
    secrets_of = SecretsOfField(
        User.objects.none(),
        required=False,
        label=_("Personal secrets"),
        empty_label=_("Use no personal secrets"),
        widget=UnfoldAdminSelectWidget,
        help_text=_(
            "The scheduled comparison uses them if it needs any. You can choose only your own. They are sent only "
            "where their owner allowed it."
        ),
    )

    class Meta:
        model = Upstream
        fields = "__all__"
        field_classes = {"allowed_networks": NetworksFormField}
        help_texts = {
            "allowed_networks": _(
                "Private networks that this upstream server may be in, separated by commas, such as 10.1.2.0/24:8080 "
                "or 127.0.0.0/8. TOOLHUB_ALLOW_PRIVATE_NETWORKS must include them. Empty: public addresses only."
            )
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "secrets_of" in self.fields:
            user = actor.current_user()
            choices = {self.instance.secrets_of_id, user.pk if user is not None else None}
            field = cast(SecretsOfField, self.fields["secrets_of"])
            field.queryset = User.objects.filter(pk__in=choices - {None})


@admin.register(Upstream)
class UpstreamAdmin(BoundedDeletion, ModelAdmin):
    form = UpstreamForm
    list_per_page = 25
    list_display = ("name", "transport", "address", "health", "last_seen", "quarantined_count", "enabled")
    list_filter = ("enabled", "transport")
    search_fields = ("name", "url", "command")
    readonly_fields = ("tools", "secrets_sent", "health_text", "last_seen", "last_error", "revision", "server")
    warn_unsaved_form = True
    compressed_fields = True
    fieldsets = (
        (None, {"fields": ("name", ("enabled", "transport"), "tools")}),
        (_("Connection over HTTP"), {"fields": ("url", "headers", "allowed_networks")}),
        (_("Connection over stdio"), {"fields": ("command", "args", "env")}),
        (_("Secrets"), {"fields": ("secrets_sent", "secrets_of")}),
        (_("Names"), {"fields": (("prefix", "separator"),)}),
        (_("For clients"), {"fields": ("icons", "apps")}),
        (_("Calls"), {"fields": ("forward_meta",)}),
        (_("Comparison"), {"fields": (("timeout", "refresh_seconds"),)}),
        (_("Health"), {"fields": ("health_text", "last_seen", "last_error", "revision", "server")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        waiting = (model.objects.filter(quarantined_since__isnull=False) for model in (Tool, Resource, Prompt))
        quarantined = sum((count_by_origin(rows, "upstream:") for rows in waiting), start=Value(0))
        found: QuerySet[Any] = super().get_queryset(request).annotate(in_quarantine=quarantined)
        return found

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        # A server that is not saved yet has no health.
        return self.fieldsets if obj is not None else self.fieldsets[:-1]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        # The settings of its tools refer to it by name.
        return self.readonly_fields if obj is None else ("name", *self.readonly_fields)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        allowed: bool = super().has_change_permission(request, obj)
        guarded = obj is not None and obj.transport == Upstream.Transport.STDIO
        return allowed and (not guarded or check.may_use("command"))

    def get_urls(self) -> list[URLPattern]:
        urls: list[URLPattern] = super().get_urls()
        page = self.admin_site.admin_view(self.tools_page)
        return [path("<int:pk>/tools/", page, name="catalog_upstream_tools"), *urls]

    @admin.display(description=_("address or command"))
    def address(self, row: Upstream) -> str:
        return str(row.url or row.command)

    @display(  # type: ignore[untyped-decorator]
        description=_("health"), label={"well": "success", "trouble": "danger", "unseen": "info"}
    )
    def health(self, row: Upstream) -> tuple[str, Any]:
        if row.last_error:
            return "trouble", _("failing")
        return ("well", _("healthy")) if row.last_seen else ("unseen", _("not connected yet"))

    @admin.display(description=_("health"))
    def health_text(self, row: Upstream) -> str:
        """Return the health as text alone: the page of one server shows no badges."""
        return str(self.health(row)[1])

    @admin.display(description=_("sent secrets"))
    def secrets_sent(self, row: Upstream) -> str:
        if row._state.adding:
            return gettext("Save the upstream server first.")
        lines = secret_flows.describe(row.secret_flows())
        return format_html_join(SafeString("<br>"), "{}", ((line,) for line in lines)) or gettext("none")

    @admin.display(description=_("quarantined"))
    def quarantined_count(self, row: Any) -> int:
        return int(row.in_quarantine)

    @admin.display(description=_("tools"))
    def tools(self, row: Upstream) -> str:
        if row._state.adding:
            return gettext("Save the upstream server first.")
        address = reverse("admin:catalog_upstream_tools", args=[row.pk])
        return format_html('<a href="{}" class="underline">{}</a>', address, gettext("Test connection and import"))

    def tools_page(self, request: HttpRequest, pk: int) -> HttpResponseBase:
        upstream = Upstream.objects.filter(pk=pk).first()
        if upstream is None:
            raise Http404
        if not self.has_change_permission(request, upstream):
            raise PermissionDenied
        found: list[discovery.Candidate] | HttpResponse | None = None
        if request.method == "POST":
            action = request.POST.get("action", "")
            if action == "test" and not request.accepts("text/html"):
                return stream_test(request, upstream)
            try:
                found = self._run_action(request, upstream, action)
            except UpstreamError as error:
                messages.error(request, error.localized_message)
            if found is None:
                return redirect("admin:catalog_upstream_tools", pk)
            if isinstance(found, HttpResponse):
                return found
        title = gettext("Tools, resources and prompts of %s") % upstream.name
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "content_title": title,
            "upstream": upstream,
            "sent": secret_flows.describe(upstream.secret_flows()),
            "personal": Secret.objects.filter(
                kind__in=Secret.OWN_KINDS, name__in={flow.secret for flow in upstream.secret_flows()}
            ),
            "found": found,
            "imported": [_Imported(row) for row in discovery.imported_items(upstream)],
            "importable": [kind for kind in KINDS if _may_import(request, kind)],
            "may_add_accounts": _may_add_accounts(request) and accounts.may_be_added(upstream),
        }
        return TemplateResponse(request, "admin/catalog/upstream_tools.html", context)

    def _report_problems(self, request: HttpRequest, found: Listing) -> None:
        for problem in found.problems.values():
            messages.warning(request, problem.localized_message)

    def _add_accounts(self, request: HttpRequest, upstream: Upstream) -> None:
        if not _may_add_accounts(request) or not accounts.may_be_added(upstream):
            raise PermissionDenied
        try:
            secret = accounts.add(upstream)
        except AccountProblem as problem:
            messages.error(request, problems.describe(problem).html)
            return
        except ValidationError as error:
            messages.error(request, " ".join(error.messages))
            return
        text = gettext(
            "From now on, each person calls %(upstream)s with their own account “%(name)s”. Connect yours on the page "
            "Accounts, and then test the connection here."
        )
        messages.success(request, text % {"upstream": upstream.name, "name": secret.name})

    def _run_action(
        self, request: HttpRequest, upstream: Upstream, action: str
    ) -> list[discovery.Candidate] | HttpResponse | None:
        """Do what a button says; return what was listed, or another page, or None for this page anew."""
        user_id = request.user.pk
        match action:
            case "accounts":
                self._add_accounts(request, upstream)
            case "test":
                found = discovery.discover(upstream, user_id, "tested")
                messages.success(request, describe_listing(upstream, found))
                self._report_problems(request, found)
            case "discover":
                found = discovery.discover(upstream, user_id, "discovered")
                self._report_problems(request, found)
                return discovery.candidates(upstream, found)
            case "import":
                wanted = request.POST.getlist("item")
                kinds = {value.partition(":")[0] for value in wanted} or {"tool"}
                if not all(_may_import(request, kind) for kind in kinds):
                    raise PermissionDenied
                found = discovery.discover(upstream, user_id, "discovered")
                outcome = discovery.import_items(upstream, found, wanted)
                if outcome.imported:
                    messages.success(
                        request,
                        gettext("Imported: %s. No one has access until you grant it.") % ", ".join(outcome.imported),
                    )
                for refusal in outcome.refused:
                    messages.error(request, str(refusal))
                if outcome.batch is not None and request.user.has_perm("catalog.view_tool"):
                    return redirect("pages:import", outcome.batch.pk)
            case "refresh":
                found = discovery.discover(upstream, user_id, "compared")
                self._report_problems(request, found)
                compared = discovery.compare(upstream, found)
                if compared.changed:
                    messages.warning(request, gettext("Quarantined until reviewed: %s.") % ", ".join(compared.changed))
                else:
                    messages.success(request, _("Everything that was imported matches its approved definition."))
        return None
