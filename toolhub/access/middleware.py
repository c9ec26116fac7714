"""The Content-Security-Policy of every page (FACTS of the theme decide the admin's), and the answer to a password."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from toolhub.access import device_cookies

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
