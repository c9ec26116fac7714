"""Middleware of all pages: the Content-Security-Policy, the answer to a password, and the one to two changes that met.

FACTS of the theme decide the policy of the admin.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from toolhub import conflicts
from toolhub.access import device_cookies, ended_sessions

logger = logging.getLogger(__name__)

SHARED_POLICY = (
    "default-src 'none'; img-src 'self' data:; media-src 'self'; font-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
PAGES_POLICY = f"{SHARED_POLICY}; script-src 'self'; style-src 'self'"
ADMIN_POLICY = f"{SHARED_POLICY}; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'"
"""The policy of the admin: its theme evaluates Alpine expressions and needs this much (measured, unfold 0.91)."""


class ContentSecurityPolicy:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        policy = ADMIN_POLICY if request.path.startswith("/admin/") else PAGES_POLICY
        response.headers.setdefault("Content-Security-Policy", policy)
        return response


class SignInProtection:
    """Middleware for whatever page checks passwords: status 429 for a throttled one, and the device cookie."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        seconds = getattr(request, "throttled_seconds", 0)
        if seconds:
            response.status_code = 429
            response.headers["Retry-After"] = str(seconds)
        device_cookies.write(request, response)
        return response


class Conflicts:
    """Middleware that answers 409 where a form met the change of somebody else, such as a deletion.

    Each form is saved in one transaction, so nothing of it is. Its page says so, and how to go on.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if request.method != "POST" or not isinstance(error, DatabaseError) or not conflicts.is_conflict(error):
            return None
        logger.warning("%s: two changes met: %s", request.path, str(error).partition("\n")[0])
        return render(request, "409.html", {"page": ended_sessions.find_page(request)}, status=409)
