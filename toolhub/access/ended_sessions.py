"""The next step for a request whose session ended: a sign-in that says so and returns to the page.

A form leads back to the page that it was on, since its own address may accept no GET. What was typed is not kept: it
may hold secrets, and nobody is signed in who could own it.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.csrf import REASON_NO_CSRF_COOKIE
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache

PARAMETER = "ended"
SESSION, FORM = "session", "form"
"""Values of the parameter: only the session ended, or a form was sent after it and not saved."""
MAX_PAGE_CHARACTERS = 2000


def find_page(request: HttpRequest) -> str:
    """Return the path of the page of ours that sent this request, without its fragment; empty when there is none."""
    referrer = request.headers.get("referer", "")
    if len(referrer) > MAX_PAGE_CHARACTERS or not url_has_allowed_host_and_scheme(
        referrer, {request.get_host()}, require_https=request.is_secure()
    ):
        return ""
    parts = urlsplit(referrer)
    if not parts.netloc or not parts.path.startswith("/") or parts.path.startswith(("//", "/\\")):
        return ""
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


class EndedSessions:
    """Middleware that tells the sign-in page why it appears, and where to go on afterwards."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        had_session = bool(request.COOKIES.get(settings.SESSION_COOKIE_NAME))
        response = self.get_response(request)
        if response.status_code != HTTPStatus.FOUND or request.user.is_authenticated:
            return response
        target = urlsplit(response.headers.get("Location", ""))
        wanted = parse_qs(target.query).get(REDIRECT_FIELD_NAME)
        if wanted is None or target.netloc or target.path not in {reverse("access:login"), reverse("admin:login")}:
            return response
        if request.method not in {"GET", "HEAD"}:
            # The form itself cannot be opened again. A page that the view chose stays chosen.
            if wanted[0] in {request.get_full_path(), request.build_absolute_uri()}:
                response.headers["Location"] = address(find_page(request), FORM)
        elif had_session and request.session.is_empty():
            response.headers["Location"] = address(wanted[0], SESSION)
        return response


def address(page: str, ended: str) -> str:
    """Return the address of the sign-in that leads to this page and says what ended."""
    return f"{reverse('access:login')}?{urlencode({REDIRECT_FIELD_NAME: page, PARAMETER: ended})}"


@never_cache
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form with an old token: mostly, the person signed in again in another tab."""
    context: dict[str, Any] = {"page": find_page(request), "no_cookie": reason == REASON_NO_CSRF_COOKIE}
    return render(request, "403_csrf.html", context, status=HTTPStatus.FORBIDDEN)
