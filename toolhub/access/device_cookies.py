"""Device cookies: a browser in which somebody signed in has its own counter of wrong passwords (OWASP's name for it).

Guesses from elsewhere fill the counters of the account and of their address, and the account's own browsers still get
in. The cookie is no proof of identity: it exempts from nobody's password, and its own counter is as strict.

It is signed and holds, for the last few accounts of the browser, a keyed digest of the name, a random id, the time, and
a keyed digest of the stored password hash. So it counts for one account, is new after every sign-in, ends after
MAX_AGE_DAYS or with a new password, and names nobody.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.crypto import constant_time_compare, salted_hmac

COOKIE_NAME = "toolhub_device"
SALT = "toolhub.access.device_cookies"
MAX_AGE_DAYS = 90
MAX_ACCOUNTS = 5
"""Maximum accounts that one browser is known for; the one signed in longest ago is dropped first."""
MAX_COOKIE_CHARACTERS = 2_000
_ATTRIBUTE = "toolhub_device_user"

Entry = tuple[str, str, int, str]
"""Digest of the name, id of the device, Unix time, digest of the password hash."""


def find_device(request: HttpRequest | None, name: str) -> str | None:
    """Return the id of the device when this browser signed in to this account; None for any other browser."""
    mine = _digest("name", name)
    entry = next((one for one in _read(request) if constant_time_compare(one[0], mine)), None)
    if entry is None:
        return None
    # Only who holds a cookie of this account gets here: the look-up tells nobody else which accounts exist.
    model = get_user_model()
    user = model._default_manager.filter(**{model.USERNAME_FIELD: name}).first()
    if user is None or not constant_time_compare(entry[3], _digest("password", user.password)):
        return None
    return entry[1]


def remember(*, request: HttpRequest | None = None, user: Any = None, **_signal: Any) -> None:
    """Have the answer to this request carry a new cookie: handler of `user_logged_in`, and after a new password."""
    if request is not None and user is not None:
        setattr(request, _ATTRIBUTE, user)


def write(request: HttpRequest, response: HttpResponseBase) -> None:
    """Set the cookie when somebody signed in, or chose a new password, in this request."""
    user = getattr(request, _ATTRIBUTE, None)
    if user is None:
        return
    mine = _digest("name", user.get_username())
    entry = (mine, secrets.token_urlsafe(16), int(time.time()), _digest("password", user.password))
    entries = [entry, *(one for one in _read(request) if one[0] != mine)][:MAX_ACCOUNTS]
    response.set_cookie(
        COOKIE_NAME,
        signing.dumps(entries, salt=SALT, compress=True),
        max_age=MAX_AGE_DAYS * 86_400,
        httponly=True,
        samesite="Strict",
        secure=bool(settings.SESSION_COOKIE_SECURE) or request.is_secure(),
    )


def _read(request: HttpRequest | None) -> list[Entry]:
    """Return the entries of the browser's cookie that are not too old; none of a cookie that is not ours."""
    value = "" if request is None else request.COOKIES.get(COOKIE_NAME, "")
    if not value or len(value) > MAX_COOKIE_CHARACTERS:
        return []
    oldest = time.time() - MAX_AGE_DAYS * 86_400
    try:
        entries = signing.loads(value, salt=SALT, max_age=MAX_AGE_DAYS * 86_400)
    except signing.BadSignature:
        return []
    return [(name, device, made, proof) for name, device, made, proof in entries if made > oldest]


def _digest(kind: str, value: str) -> str:
    return salted_hmac(f"{SALT}.{kind}", value, algorithm="sha256").hexdigest()[:32]
