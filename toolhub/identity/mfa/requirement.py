"""The second factor that TOOLHUB_REQUIRE_SECOND_FACTOR asks of staff or everyone, before anything else can be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import resolve
from django.urls.exceptions import Resolver404

from toolhub.access import sign_in
from toolhub.identity.mfa import factors

PROVIDER = "provider:"
"""How the method of a sign-in begins that an identity provider vouched for; it asks for its own factors."""
ALLOWED = frozenset({"access:password", "access:logout", "access:language", "admin:logout"})
PAGES = "mfa"
"""Namespace of the pages on which a second factor is set up."""


def applies_to(user: User) -> bool:
    """Return whether this person has to have a second factor when they sign in here."""
    who = settings.REQUIRE_SECOND_FACTOR
    return who == "everyone" or (who == "staff" and (user.is_staff or user.is_superuser))


class SecondFactorFirst:
    """Middleware that leads who has to have a second factor, and has none, to the page to add one, and nowhere else."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if settings.REQUIRE_SECOND_FACTOR != "nobody" and _lacks_one(request) and not _is_allowed(request):
            return redirect("mfa:security")
        return self.get_response(request)


def _lacks_one(request: HttpRequest) -> bool:
    user: Any = request.user
    if not user.is_authenticated or not applies_to(cast(User, user)):
        return False
    # A session without a method is older than this server's methods: its person signed in with a password.
    return not str(request.session.get(sign_in.METHOD_KEY, "")).startswith(PROVIDER) and not factors.has_any(user.pk)


def _is_allowed(request: HttpRequest) -> bool:
    try:
        match = resolve(request.path_info)
    except Resolver404:
        return False
    return match.view_name in ALLOWED or match.namespace == PAGES
