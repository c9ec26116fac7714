"""The language and the time zone of whoever reads a page.

What a person chose is stored with their account, so that it counts in every browser, and copied into the session when
they sign in, so that no page has to ask for it. Who chose nothing gets what their browser says: its languages, and the
zone that it names in a cookie. So it is in the admin too, whose titles and sentences name the zone; what is recorded,
exported or handed to programs is in UTC whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone, translation

from toolhub.access.models import Preference

LANGUAGE, ZONE = "toolhub_language", "toolhub_zone"
"""In the session."""
ZONE_COOKIE = "toolhub_zone"
"""What the browser says; set by zone.js."""


@cache
def zones() -> frozenset[str]:
    return frozenset(name for name in available_timezones() if "/" in name or name == "UTC")


def zone_of(name: str) -> ZoneInfo | None:
    """None for what is no zone: a cookie may hold anything."""
    return ZoneInfo(name) if name in zones() else None


def of(user: User) -> Preference:
    """What they chose, or an unsaved row that says nothing."""
    return Preference.objects.filter(user=user).first() or Preference(user=user)


def keep(request: HttpRequest, preference: Preference) -> None:
    """Let the pages of this session follow it."""
    request.session[LANGUAGE], request.session[ZONE] = preference.language, preference.time_zone


class Preferences:
    """After the session and Django's own choice of a language, which it overrules."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        language = request.session.get(LANGUAGE)
        if language in dict(settings.LANGUAGES):
            translation.activate(language)
            request.LANGUAGE_CODE = translation.get_language()
        zone = zone_of(request.session.get(ZONE) or request.COOKIES.get(ZONE_COOKIE, ""))
        with timezone.override(zone):
            return self.get_response(request)


def _signed_in(*, user: Any, request: HttpRequest | None = None, **_: Any) -> None:
    if request is not None and hasattr(request, "session"):
        keep(request, of(user))


def connect() -> None:
    user_logged_in.connect(_signed_in, dispatch_uid="access.preferences")
