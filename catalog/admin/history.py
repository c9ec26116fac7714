"""History of a definition in the admin: author and time of each change, the difference, and the revert."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from simple_history.admin import SimpleHistoryAdmin

from audit.actions.cascade import BoundedDeletion
from audit.admin_base import ModelAdmin


class HistoryAdmin(BoundedDeletion, SimpleHistoryAdmin, ModelAdmin):  # type: ignore[misc]
    """A ModelAdmin with history. A revert restores the toolsets as well, in one transaction like every other save."""

    list_per_page = 20
    history_list_per_page = 15  # each queries the version before it, and the toolsets of both
    object_history_list_template = "admin/catalog/history_list.html"
    object_history_form_template = "admin/catalog/version.html"

    def history_form_view(
        self, request: HttpRequest, object_id: str, version_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if request.method == "POST" and not self.has_change_permission(request):
            raise PermissionDenied
        version = self.model.history.filter(pk=version_id).first()
        relation = getattr(version, "toolsets", None)
        if relation is not None and request.method == "GET":
            request.catalog_toolsets = list(relation.values_list("toolset_id", flat=True))  # type: ignore[attr-defined]
        with transaction.atomic():
            response: HttpResponse = super().history_form_view(request, object_id, version_id, extra_context)
        return response

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        toolsets = getattr(request, "catalog_toolsets", None)
        if toolsets is None:
            return form

        class RevertForm(form):  # type: ignore[misc, valid-type]
            def __init__(self, *args: Any, **options: Any) -> None:
                options["initial"] = {**options.get("initial", {}), "toolsets": toolsets}
                super().__init__(*args, **options)

        return RevertForm
