"""OpenAPI documents in the admin: upload or fetch, review, select, import; and again when the document changed."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from unfold.decorators import display

from audit.actions.cascade import BoundedDeletion
from audit.admin_base import ModelAdmin
from catalog.models import ImportedDocument, Tool
from catalog.openapi import document_import
from catalog.openapi.forms import ChoicesForm, SourceForm, asks_for_new_secret
from catalog.openapi.proposals import MAX_OPERATIONS
from catalog.querysets import count_by_origin
from catalog.secrets import entry

MAX_PAGE_OPERATIONS = 50
"""Operations per page, each with its schemas; the filter finds the others."""

STATES = {
    "draft": _("draft, not imported"),
    "newer": _("newer version not imported"),
    "imported": _("imported"),
}
"""The states of a document, with their names on pages."""


@admin.register(ImportedDocument)
class ImportedDocumentAdmin(BoundedDeletion, ModelAdmin):
    list_per_page = 25
    list_display = ("name", "title", "document_version", "source", "tool_count", "state", "imported_at", "imported_by")
    search_fields = ("name", "title", "source")
    list_select_related = ("imported_by",)
    fields = (
        *("name", "title", "document_version", "source", "sha256", "choices", "tool_count"),
        *("status", "imported_at", "imported_by"),
    )
    readonly_fields = fields
    change_form_template = "admin/catalog/importeddocument_change.html"

    @admin.display(description=_("tools"))
    def tool_count(self, row: Any) -> int:
        return int(getattr(row, "tools", 0))

    @display(  # type: ignore[untyped-decorator]
        description=_("status"), label={"draft": "warning", "newer": "info", "imported": "success"}
    )
    def state(self, row: Any) -> tuple[str, Any]:
        return self._name_state(row), STATES[self._name_state(row)]

    @admin.display(description=_("status"))
    def status(self, row: Any) -> str:
        return str(STATES[self._name_state(row)])

    @staticmethod
    def _name_state(row: ImportedDocument) -> str:
        if row.draft:
            return "draft"
        return "newer" if row.pending_at else "imported"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        tools = count_by_origin(Tool.objects.all(), "openapi:")
        found: QuerySet[Any] = super().get_queryset(request).annotate(tools=tools).defer("pending", "kept")
        return found

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Allow an import only to users who may create tools."""
        return bool(request.user.has_perm("catalog.add_tool"))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return bool(super().has_view_permission(request, obj)) or self.has_add_permission(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny deletion of a document with tools: they would lose the source that they are reviewed against."""
        if obj is not None and Tool.objects.filter(origin=obj.origin).exists():
            return False
        return bool(super().has_delete_permission(request, obj))

    def get_urls(self) -> list[URLPattern]:
        again = path(
            "<int:number>/again/", self.admin_site.admin_view(self.source_view), name="catalog_importeddocument_again"
        )
        preview = path(
            "<int:number>/preview/",
            self.admin_site.admin_view(self.preview_view),
            name="catalog_importeddocument_preview",
        )
        urls: list[URLPattern] = super().get_urls()
        return [again, preview, *urls]

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        return self.source_view(request)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        found = ImportedDocument.objects.filter(pk=object_id) if object_id.isdigit() and len(object_id) < 16 else None
        row = found.defer("pending", "kept").first() if found is not None else None
        context = dict(extra_context or {})
        if row is not None and found is not None and self.has_add_permission(request):
            context |= {
                "again": reverse("admin:catalog_importeddocument_again", args=[row.pk]),
                "review": reverse("admin:catalog_importeddocument_preview", args=[row.pk]) if row.pending_at else "",
                "kept": found.exclude(kept=b"").exists(),
            }
        response: HttpResponse = super().change_view(request, object_id, form_url, context)
        return response

    def source_view(self, request: HttpRequest, number: int | None = None) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        row = get_object_or_404(ImportedDocument, pk=number) if number is not None else None
        address = row.source if row is not None and row.source.startswith(("http://", "https://")) else ""
        use = request.POST.get("use", "") if row is not None else ""
        if use == "kept" and row is not None and row.kept:
            document_import.cancel(row)
            return HttpResponseRedirect(reverse("admin:catalog_importeddocument_preview", args=[row.pk]))
        data = {"url": address} if use == "address" else request.POST or None
        form = SourceForm(data, request.FILES or None, initial={"url": address})
        if request.method == "POST" and form.is_valid():
            try:
                made = self._prepare(form.cleaned_data, row)
                return HttpResponseRedirect(reverse("admin:catalog_importeddocument_preview", args=[made.pk]))
            except document_import.DocumentImportError as error:
                form.add_error(None, str(error))
            except ValidationError as error:
                form.add_error(None, " ".join(error.messages))
        title = (
            gettext("Import %s again") % row if row is not None else gettext("Import tools from an OpenAPI document")
        )
        context = {"form": form, "document": row, "address": address}
        return self._render_page(request, "admin/catalog/openapi_source.html", title, context)

    @staticmethod
    def _prepare(given: dict[str, Any], row: ImportedDocument | None) -> ImportedDocument:
        if given["file"] is not None:
            return document_import.prepare(given["file"].read(), given["file"].name, again=row)
        return document_import.prepare(document_import.fetch(given["url"]), given["url"], again=row)

    @method_decorator(sensitive_post_parameters())
    def preview_view(self, request: HttpRequest, number: int) -> HttpResponse:
        if not self.has_add_permission(request):
            raise PermissionDenied
        if asks_for_new_secret(request.POST) and not entry.may_create(request):
            raise PermissionDenied
        row = get_object_or_404(ImportedDocument, pk=number)
        if request.POST.get("do") == "cancel":
            return self._cancel(request, row)
        if not row.text:
            messages.info(
                request, _("This document is not stored here. Choose its file or address to import it again.")
            )
            return HttpResponseRedirect(reverse("admin:catalog_importeddocument_again", args=[row.pk]))
        if request.POST.get("document") not in (None, document_import.digest(row.text)):
            messages.error(request, document_import.CHANGED_SINCE)
            return HttpResponseRedirect(reverse("admin:catalog_importeddocument_preview", args=[row.pk]))
        content = document_import.read(row.text.encode())
        form, valid = self._choices_form(request, row, content)
        wanted = request.POST.get("do", "")
        chosen = set(request.POST.getlist("operation"))
        choices = form.chosen() if valid else form.initial_choices()
        if valid and wanted == "import" and not chosen and row.imported_at is None:
            form.add_error(None, _("Choose at least one operation."))
        elif valid and wanted == "import":
            try:
                result = document_import.apply(row, choices, chosen, form.cleaned_data["toolset"], request.user)
            except document_import.DocumentImportError as error:
                form.add_error(None, str(error))
            else:
                return self._report_result(request, result)
        found = document_import.rows(row, choices)
        sought = request.POST.get("filter", "").strip()[:200]
        known = [line for line in found if not line.over_limit]
        matching = [line for line in known if line.matches(sought)]
        those = {line.key for line in matching if line.choosable}
        chosen = chosen | those if wanted == "all" else chosen - those if wanted == "none" else chosen
        context: dict[str, Any] = {"form": form, "document": row, "chosen": chosen, "sought": sought}
        context |= {"rows": matching[:MAX_PAGE_OPERATIONS], "matching": len(matching), "known": len(known)}
        context["digest"] = document_import.digest(row.text)
        context["sent"] = document_import.describe_secrets(found)
        context["missing"] = document_import.describe_missing(found, may_create=entry.may_create(request))
        context["beyond"], context["most"] = len(found) - len(known), MAX_OPERATIONS
        seen = {line.key for line in matching[:MAX_PAGE_OPERATIONS]}
        context["kept"] = [line.key for line in known if line.key in chosen and line.key not in seen]
        context["names"] = ", ".join(line.proposal.name for line in found if line.key in chosen and line.proposal)
        return self._render_page(request, "admin/catalog/openapi_preview.html", gettext("Import %s") % row, context)

    @sensitive_variables("data", "form")
    def _choices_form(
        self, request: HttpRequest, row: ImportedDocument, content: dict[str, Any]
    ) -> tuple[ChoicesForm, bool]:
        """Return the form as it was sent, with the secrets created that it asks for, and whether it is valid.

        A created secret is chosen by its name from then on: its value is in no form any more.
        """

        def make(data: Any) -> ChoicesForm:
            made = ChoicesForm(content, row.text_source, data, title=row.name, may_create=entry.may_create(request))
            made.preset_choices(row.choices)
            return made

        form = make(request.POST if request.method == "POST" else None)
        if request.method != "POST" or not form.is_valid():
            return form, False
        created = form.create_secrets()
        if not created:
            return form, not form.has_name_conflict()
        for secret in created.values():
            hosts = ", ".join(secret.hosts)
            text = gettext("The secret %(name)s was created. It is sent only to %(hosts)s.")
            if not hosts:
                text = gettext("The secret %(name)s was created. It is not bound to a host.")
            messages.success(request, text % {"name": secret.name, "hosts": hosts})
        conflict = form.has_name_conflict()
        data = request.POST.copy()
        for field, secret in created.items():
            data[field] = secret.name
            for name in form.new_secrets[field].fields:
                data.pop(form.new_secrets[field].add_prefix(name), None)
        form = make(data)
        return form, form.is_valid() and not conflict

    @staticmethod
    def _cancel(request: HttpRequest, row: ImportedDocument) -> HttpResponse:
        """Discard the document under review, and go back to where it came from."""
        if row.pending_at is not None:
            document_import.cancel(row)
            messages.info(request, _("The preview was discarded. Nothing was imported."))
        if row.draft:
            return HttpResponseRedirect(reverse("admin:catalog_importeddocument_changelist"))
        return HttpResponseRedirect(reverse("admin:catalog_importeddocument_change", args=[row.pk]))

    def _report_result(self, request: HttpRequest, result: document_import.Result) -> HttpResponse:
        made, changed = len(result.made), len(result.quarantined)
        if made:
            text = ngettext(
                "%d tool imported. No one has access yet.", "%d tools imported. No one has access yet.", made
            )
            messages.success(request, text % made)
        elif not changed and not result.adjusted and not result.added:
            messages.success(request, _("Every imported tool matches its approved definition."))
        if adjusted := len(result.adjusted):
            text = ngettext("%d tool follows your choices.", "%d tools follow your choices.", adjusted)
            messages.success(request, text % adjusted)
        if added := len(result.added):
            text = ngettext("%d existing tool added to the toolset.", "%d existing tools added to the toolset.", added)
            messages.success(request, text % added)
        if changed:
            names = ", ".join(tool.name for tool in result.quarantined[:20])
            messages.warning(
                request,
                gettext("Quarantined until reviewed (%(number)d): %(names)s.") % {"number": changed, "names": names},
            )
        if result.batch is not None and request.user.has_perm("catalog.view_tool"):
            return HttpResponseRedirect(reverse("pages:import", args=[result.batch.pk]))
        return HttpResponseRedirect(reverse("admin:catalog_tool_changelist"))

    def _render_page(self, request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
        base = self.admin_site.each_context(request)
        return TemplateResponse(request, template, {**base, "title": title, "content_title": title, **context})
