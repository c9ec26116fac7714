"""The language and the time zone of the reader of a page.

The choice of a user is stored with their account, so that it applies in every browser, and copied into the session at
sign-in, so that no page has to query it. Without a choice, the browser decides: by its languages, and by the zone that
it names in a cookie. The admin follows the same rules, and its titles and sentences name the zone; logged data, exports
and answers to programs are in UTC for everyone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone, translation

from toolhub.access.models import Preference
from toolhub.time_zones import find_zone

LANGUAGE, ZONE = "toolhub_language", "toolhub_zone"
"""Keys of the session."""
ZONE_COOKIE = "toolhub_zone"
"""The cookie with the browser's time zone; set by zone.js."""


def find_preference(user: User) -> Preference:
    """Return the stored preference of a user, or an unsaved empty one."""
    return Preference.objects.filter(user=user).first() or Preference(user=user)


def apply_to_session(request: HttpRequest, preference: Preference) -> None:
    """Apply the preference to the pages of this session."""
    request.session[LANGUAGE], request.session[ZONE] = preference.language, preference.time_zone


class Preferences:
    """Middleware behind the session and Django's own choice of a language, which it overrides."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        language = request.session.get(LANGUAGE)
        if language in dict(settings.LANGUAGES):
            translation.activate(language)
            request.LANGUAGE_CODE = translation.get_language()
        zone = find_zone(request.session.get(ZONE) or request.COOKIES.get(ZONE_COOKIE, ""))
        with timezone.override(zone):
            return self.get_response(request)


def _on_signed_in(*, user: Any, request: HttpRequest | None = None, **_: Any) -> None:
    if request is not None and hasattr(request, "session"):
        apply_to_session(request, find_preference(user))


def connect() -> None:
    user_logged_in.connect(_on_signed_in, dispatch_uid="access.preferences")
