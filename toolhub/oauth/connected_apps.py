"""The page of the apps that a person connected: what each one gets, when and from where it was used, and its end.

Those that an identity provider connected are there, too. The person disconnects them like the others, and nobody else
can allow them again.
"""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from toolhub.oauth.models import ConnectedApp, ConnectedAppQuerySet

MAX_LISTED_APPS = 300


def _own(request: HttpRequest) -> ConnectedAppQuerySet:
    return ConnectedApp.objects.filter(user=cast(User, request.user), activated__isnull=False)


@login_required
@never_cache
@require_safe
def apps(request: HttpRequest) -> HttpResponse:
    """Show the connected apps of the person, and those that have ended."""
    rows = list(_own(request).select_related("client").prefetch_related("toolsets")[:MAX_LISTED_APPS])
    usable = [app for app in rows if app.is_usable and not app.client.blocked]
    context = {"section": "apps", "usable": usable, "ended": [app for app in rows if app not in usable]}
    return render(request, "oauth/apps.html", context)


@login_required
@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    app = get_object_or_404(_own(request), pk=pk)
    if app.revoke():
        messages.success(request, _("“%s” was disconnected. Its requests are now rejected.") % app)
    return redirect("oauth:apps")


@login_required
@require_POST
def reconnect(request: HttpRequest, pk: int) -> HttpResponse:
    """Let the identity provider connect an app again that the person, or an administrator, disconnected."""
    app = get_object_or_404(_own(request).filter(identity__isnull=False), pk=pk)
    if app.reconnect():
        messages.success(request, _("Your identity provider can connect “%s” again.") % app)
    return redirect("oauth:apps")
