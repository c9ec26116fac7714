"""The page of the search, and its results as JSON for the dialog that Ctrl+K opens."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from toolhub.pages.search import sources
from toolhub.pages.staff import page, staff_page


@staff_page()
@never_cache
@vary_on_headers("Accept")
@require_safe
def search(request: HttpRequest) -> HttpResponse:
    """Show what this person may open and the query names; return {"results": [...]} where JSON is asked for."""
    query = request.GET.get("q", "")
    results = sources.find(request, query)
    if request.accepts("text/html"):
        context = {"q": query[: sources.MAX_QUERY_CHARACTERS], "results": results}
        return page(request, "admin/pages/search.html", _("Search"), **context)
    rows = [{"title": row.title, "kind": row.kind, "detail": row.detail, "url": row.url} for row in results]
    return JsonResponse({"results": rows})
