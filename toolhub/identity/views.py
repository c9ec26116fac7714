"""Pages of signing in with an identity provider: there, back again, linking one to an account, and removing it.

Nothing leads from here to the library's own pages: they know other texts, and other rules about accounts.
"""

from __future__ import annotations

from typing import Any, cast

import requests
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST, require_safe

from toolhub import client_address
from toolhub.access import throttle
from toolhub.access.backends import may_use_password
from toolhub.access.sign_in import find_first_page, keep_opener
from toolhub.identity import openid, providers, sign_in
from toolhub.identity.models import Identity, Provider
from toolhub.identity.saml_metadata import MetadataError

START_RATE = "60/10m"
"""Rate of sign-ins that one address begins: each stores a session."""


def _find(slug: str) -> Provider:
    provider = providers.find(slug)
    if provider is None or not provider.enabled:
        raise Http404
    return provider


@never_cache
@require_safe
def start(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Lead to the provider. A GET: the page of a form would have to allow redirects to every provider (CSP)."""
    provider = _find(slug)
    target = _safe_target(request, request.GET.get("next", ""))
    if request.user.is_authenticated:
        return HttpResponseRedirect(target or find_first_page(request.user))
    address = client_address.counted(str(request.META.get("REMOTE_ADDR", "")))
    if seconds := throttle.wait_seconds("provider-start", address, START_RATE, count=True):
        request.throttled_seconds = seconds  # type: ignore[attr-defined]
        return sign_in.refuse(request, slug, "too_many")
    answer = _leave(request, provider, sign_in.LOGIN, target)
    keep_opener(answer, target)
    return answer


@never_cache
@require_GET
def callback(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Receive a person who comes back from the provider, on or off: a test comes back here too."""
    provider = providers.find(slug)
    if provider is None or provider.kind == Provider.Kind.SAML:
        raise Http404
    found = request.GET.get("iss")
    if found is not None and found.rstrip("/") != provider.issuer.rstrip("/"):
        # RFC 9207: the answer of another provider, which wants to be taken for this one.
        return sign_in.refuse(request, slug, "issuer")
    try:
        adapter = get_adapter(request).get_provider(request, slug).get_oauth2_adapter(request)
        answer: HttpResponseBase = OAuth2CallbackView.adapter_view(adapter)(request)
    except OAuth2Error as error:
        return sign_in.fail(request, slug, None, error, None)
    keep_opener(answer, answer.headers.get("Location", ""))
    return answer


@login_required
@never_cache
@require_POST
def link(request: HttpRequest, slug: str) -> HttpResponseBase:
    """Lead the signed-in person to the provider, to add their identity there to this account."""
    user = cast(User, request.user)
    answer = _leave(request, _find(slug), sign_in.LINK, "", {"user": user.pk})
    return leave_from_form(request, answer)


def leave_from_form(request: HttpRequest, answer: HttpResponseBase) -> HttpResponseBase:
    """Return a page that leads on at once instead of a redirect: the policy of forms (CSP) allows our pages only."""
    if not isinstance(answer, HttpResponseRedirect):
        return answer
    return render(request, "identity/leaving.html", {"address": answer.url})


@login_required
@require_POST
def unlink(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove an identity that the person linked, if they can still sign in without it."""
    user = cast(User, request.user)
    identity = get_object_or_404(Identity, pk=pk, user=user, linked_by_owner=True)
    others = Identity.objects.filter(user=user, provider__enabled=True).exclude(pk=pk)
    if not (user.has_usable_password() and may_use_password(user)) and not others.exists():
        messages.error(request, _("This is your only way to sign in. Add another one first."))
        return redirect("access:account")
    identity.delete()
    messages.success(request, _("You can no longer sign in with %(name)s.") % {"name": identity.provider.name})
    return redirect("access:account")


def begin_test(request: HttpRequest, provider: Provider) -> HttpResponseBase:
    """Lead an administrator to the provider, to see what it says about them; nobody is signed in."""
    answer = _leave(request, provider, sign_in.TEST, "", {"user": request.user.pk})
    return leave_from_form(request, answer)


def _leave(request: HttpRequest, provider: Provider, purpose: str, target: str, data: Any = None) -> HttpResponseBase:
    try:
        found = get_adapter(request).get_provider(request, provider.slug)
        if provider.kind == Provider.Kind.OPENID:
            openid.fetch_configuration(provider.issuer)
        answer: HttpResponseBase = found.redirect(request, purpose, next_url=target or None, data=data)
    except (OAuth2Error, requests.RequestException, MetadataError) as error:
        return sign_in.fail(request, provider.slug, None, error, None)
    return answer


def _safe_target(request: HttpRequest, target: str) -> str:
    allowed = url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()})
    return target if target.startswith("/") and allowed else ""
