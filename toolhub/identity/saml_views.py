"""Addresses of SAML sign-in: our metadata, the POST with the provider's response, and the page that finishes it.

The POST comes from the provider's page, so the session cookie does not come along (SameSite=Lax). The response is
verified at once, and what it says waits in a short session of its own until the browser asks for the next page, with
its own session. Nothing is stored for a response that no configured provider signed.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Any

from allauth.socialaccount.adapter import get_adapter
from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST, require_safe

from toolhub import client_address
from toolhub.access import throttle
from toolhub.identity import providers, saml, sign_in
from toolhub.identity.models import Provider
from toolhub.identity.saml_metadata import MetadataError

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 500_000
"""Maximum bytes of a response: enough for 1,000 groups with long names."""
ANSWER_RATE = "60/10m"
"""Rate of responses from one address: each costs the verification of a signature."""
WAIT_SECONDS = 300
COOKIE, ANSWER = "toolhub_saml", "saml_answer"


def _find(slug: str) -> Provider:
    """Return a SAML provider, on or off: an administrator registers and tests it before it is on."""
    provider = providers.find(slug)
    if provider is None or provider.kind != Provider.Kind.SAML:
        raise Http404
    return provider


@never_cache
@require_safe
def metadata(request: HttpRequest, slug: str) -> HttpResponse:
    """Return our metadata, to give to the provider."""
    provider = _find(slug)
    document = saml.make_own_metadata(slug, provider.subject_claim)
    return HttpResponse(document, content_type="application/samlmetadata+xml")


@csrf_exempt
@never_cache
@require_POST
def acs(request: HttpRequest, slug: str) -> HttpResponse:
    """Receive the provider's response (Assertion Consumer Service). The signature is what makes it the provider's."""
    provider = _find(slug)
    address = client_address.counted(str(request.META.get("REMOTE_ADDR", "")))
    if seconds := throttle.wait_seconds("saml-answer", address, ANSWER_RATE, count=True):
        request.throttled_seconds = seconds  # type: ignore[attr-defined]
        return sign_in.refuse(request, slug, "too_many")
    if len(request.body) > MAX_BODY_BYTES:
        refusal = sign_in.refuse(request, slug, "too_large")
        refusal.status_code = 413
        return refusal
    values = request.POST.getlist("SAMLResponse")
    if len(values) != 1:
        return sign_in.refuse(request, slug, "no_response")
    try:
        claims = saml.verify(provider, values[0])
    except (saml.AnswerError, MetadataError) as error:
        logger.warning("Sign-in with %s failed: %s (%s)", slug, error, str(error.__cause__ or "")[:500])
        return sign_in.refuse(request, slug, error.code if isinstance(error, saml.AnswerError) else "metadata")
    waiting = _new_session()
    waiting[ANSWER] = {"slug": slug, **claims}
    waiting.set_expiry(WAIT_SECONDS)
    waiting.create()
    target = reverse("identity:saml_finish", args=[slug])
    response = HttpResponseRedirect(target)
    response.status_code = 303
    response.set_cookie(
        COOKIE,
        waiting.session_key,
        max_age=WAIT_SECONDS,
        path=target,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


@never_cache
@require_GET
def finish(request: HttpRequest, slug: str) -> HttpResponse:
    """Finish the sign-in in the browser's own session, which must have begun it; a response is used once."""
    provider = _find(slug)
    claims = _take(request, slug)
    response = _finish(request, provider, claims)
    response.delete_cookie(COOKIE, path=reverse("identity:saml_finish", args=[slug]), samesite="Lax")
    return response


def _finish(request: HttpRequest, provider: Provider, claims: dict[str, Any] | None) -> HttpResponse:
    if claims is None or claims["issuer"] != provider.issuer:
        return sign_in.refuse(request, provider.slug, "state")
    found = get_adapter(request).get_provider(request, provider.slug)
    login = found.sociallogin_from_response(request, claims)
    try:
        login.state = found.unstash_redirect_state(request, claims["in_response_to"])
    except PermissionDenied:
        return sign_in.refuse(request, provider.slug, "state")
    return sign_in.finish(request, login)


def _take(request: HttpRequest, slug: str) -> dict[str, Any] | None:
    """Return the verified response that waits for this browser, and remove it."""
    key = request.COOKIES.get(COOKIE)
    if not key:
        return None
    waiting = _new_session(key)
    claims: dict[str, Any] | None = waiting.get(ANSWER)
    if claims is None or claims["slug"] != slug:
        return None
    waiting.delete()
    return claims


def _new_session(key: str | None = None) -> Any:
    return import_module(settings.SESSION_ENGINE).SessionStore(key)
