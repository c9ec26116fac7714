"""The admin page on which second factors of somebody who lost them are removed. It shows which there are, no seeds."""

from __future__ import annotations

from typing import cast

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods
from django.views.defaults import permission_denied

from toolhub.access import privileges
from toolhub.identity.mfa import factors


@require_http_methods(["GET", "HEAD", "POST"])
def remove(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask, and remove every second factor of this account; the audit log has each of them."""
    actor = cast(User, request.user)
    if not actor.has_perm("auth.change_user"):
        return permission_denied(request, PermissionDenied())
    user = get_object_or_404(User, pk=pk)
    if not privileges.may_take_over(actor, user):
        return permission_denied(request, PermissionDenied(privileges.take_over_refusal(user)))
    if user.pk == actor.pk:
        # One's own ask for a proof of who one is.
        return redirect("mfa:security")
    if request.method == "POST":
        number = factors.remove_all(user.pk)
        text = ngettext("%(number)d second factor was removed.", "%(number)d second factors were removed.", number)
        messages.success(request, text % {"number": number})
        return redirect("admin:auth_user_change", user.pk)
    context = {
        **admin.site.each_context(request),
        "title": _("Remove second factors"),
        "account": user,
        "app": factors.find(user.pk, factors.APP).first(),
        "passkeys": list(factors.find(user.pk, factors.PASSKEY)),
    }
    return TemplateResponse(request, "admin/identity/second_factors.html", context)
