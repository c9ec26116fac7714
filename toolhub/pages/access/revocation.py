"""The page that revokes one grant: what it gives or denies, whom that changes, and one button."""

from __future__ import annotations

import time

from django.conf import settings
from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from catalog.models import Grant
from catalog.policy import effects, grant_changes, snapshot
from catalog.policy import messages as policy_messages
from catalog.policy.definitions import Snapshot
from toolhub.invisible import show
from toolhub.pages.access import grant_list
from toolhub.pages.access.giving import REVOKE_PERMISSIONS
from toolhub.pages.access.places import find_address
from toolhub.pages.staff import page, staff_page


@staff_page(*REVOKE_PERMISSIONS)
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what revoking a grant changes; with a POST, end it, or delete it if it has not begun yet."""
    grant = get_object_or_404(Grant.objects.select_related(*grant_list.SELECTED), pk=pk)
    data = request.POST if request.method == "POST" else request.GET
    place = data.get("place", "")[:40]
    name = show(policy_messages.name_row(grant))
    if request.method == "POST":
        if _end(pk):
            messages.success(request, _("Revoked: %(grant)s.") % {"grant": name})
        else:
            messages.info(request, _("It was over already: %(grant)s.") % {"grant": name})
        return redirect(find_address(place))
    catalogue = snapshot.latest()
    (line,) = grant_list.describe(request, catalogue, [grant], timezone.now())
    context = {
        "line": line,
        "effect": _find_effect(catalogue, grant),
        "here": settings.ENVIRONMENT,
        "place": place,
        "back": find_address(place),
    }
    return page(request, "admin/pages/revoke.html", _("Revoke grant %(number)s") % {"number": pk}, **context)


def _end(pk: int) -> bool:
    """End the grant; return whether it was not over yet."""
    now = timezone.now()
    with transaction.atomic():
        grant = Grant.objects.select_for_update().filter(pk=pk).first()
        if grant is None or (grant.ends is not None and grant.ends <= now):
            return False
        grant_changes.end_grant(grant, now)
    return True


def _find_effect(catalogue: Snapshot, grant: Grant) -> effects.Effect:
    rule = next((rule for rule in catalogue.grants if rule.id == grant.pk), None)
    if rule is None:
        return effects.Effect(0, 0)
    people = effects.find_people(catalogue, [(rule.subject_kind, rule.subject_id)])
    items = effects.find_items(catalogue, [(rule.target_kind, rule.target_id)])
    after = effects.with_grants(catalogue, remove={grant.pk})
    return effects.compare(catalogue, after, people, items, time.time(), settings.ENVIRONMENT)
