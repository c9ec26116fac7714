"""Names to choose from, for the fields of the pages here that ask for a user: a few that fit what was typed."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from toolhub.pages.lists import matching
from toolhub.pages.staff import staff_page

FOUND = 20


@staff_page("auth.view_user")
@require_safe
def people(request: HttpRequest) -> JsonResponse:
    """{"results": [{"value": user name, "label": full name}]}, active ones, by name."""
    query = request.GET.get("q", "").strip()[:150]
    found = get_user_model().objects.filter(is_active=True)
    rows = matching(found, ("username", "first_name", "last_name"), query).order_by("username")[:FOUND]
    return JsonResponse({"results": [{"value": row.get_username(), "label": row.get_full_name()} for row in rows]})
