"""Viewers of open pages: the sites whose pages may connect, and the user behind a session cookie.

`identify` loads many sessions at once, as `auth.get_user` and `has_perm` would for each: the sessions of all open pages
are checked every few seconds, and that must not cost a query for every window.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.db.models import Exists, OuterRef
from django.http import parse_cookie
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from toolhub.transports import guard
from toolhub.transports.asgi import Scope
from toolhub.transports.guard import Rejection

AUDITOR_PERMISSION = "audit.view_call"
MAX_QUERY_SESSIONS = 500
"""Maximum sessions of one query."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """The signed-in user, and whether they may view the calls of others."""

    user_id: int
    auditor: bool


def admit(scope: Scope) -> str:
    """Return the session key of one of our pages. Raises Rejection."""
    headers = guard.read_headers(scope)
    host = headers.get("host", "")
    if not guard.is_own_host(host, tuple(settings.ALLOWED_HOSTS)):
        raise Rejection(400, "another host")
    if headers.get("origin", "").lower() not in _own_origins(host.lower(), scope):
        raise Rejection(403, "not from a page of this site")
    try:
        key = parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME, "")
    except CookieError:
        key = ""
    if not key:
        raise Rejection(401, "not signed in")
    return key


def _own_origins(host: str, scope: Scope) -> set[str]:
    """Return the origins of this exact host and port.

    The cookie is sent for every port, and an allowed host name alone would admit any port. Where pages come by https, a
    page that came by http may have been changed on the way.
    """
    public = urlsplit(settings.PUBLIC_URL.lower())
    allowed = {f"{public.scheme}://{public.netloc}", f"https://{host}"}
    return allowed if public.scheme == "https" or scope.get("scheme") == "wss" else {*allowed, f"http://{host}"}


def identify(keys: Iterable[str]) -> dict[str, Viewer]:
    """Return the users currently signed in with these sessions; omit sessions without one. Runs in a thread."""
    found: dict[str, Viewer] = {}
    rest = iter(keys)
    while chunk := list(islice(rest, MAX_QUERY_SESSIONS)):
        live = Session.objects.filter(pk__in=chunk, expire_date__gt=timezone.now())
        sessions = {session.pk: data for session in live if (data := session.get_decoded())}
        may_audit = User.objects.with_perm(AUDITOR_PERMISSION).filter(pk=OuterRef("pk"), is_staff=True)
        wanted = {number for data in sessions.values() if (number := str(data.get(SESSION_KEY, ""))).isdecimal()}
        users = User.objects.filter(pk__in=wanted, is_active=True).annotate(auditor=Exists(may_audit))
        by_id = {str(user.pk): user for user in users} if wanted else {}
        for key, data in sessions.items():
            user = by_id.get(str(data.get(SESSION_KEY, "")))
            if user is not None and _is_session_valid(data, user):
                found[key] = Viewer(user.pk, user.auditor)
    return found


def _is_session_valid(data: dict[str, Any], user: User) -> bool:
    """Return whether the session was created with the current password, by a backend that is still enabled."""
    proofs = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    value = str(data.get(HASH_SESSION_KEY, ""))
    return data.get(BACKEND_SESSION_KEY) in settings.AUTHENTICATION_BACKENDS and any(
        constant_time_compare(value, proof) for proof in proofs
    )
