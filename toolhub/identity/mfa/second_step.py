"""The second step of a sign-in: what the session keeps of a password that was right, until a second factor is proved.

Nobody is signed in meanwhile. What is kept ends after five minutes, and with another password of the account.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.urls import reverse
from django.utils.crypto import constant_time_compare, salted_hmac

from toolhub import client_address
from toolhub.access import device_cookies, throttle
from toolhub.identity.mfa import factors

KEY = "second_step"
SECONDS = 300
SALT = "toolhub.identity.second_step"
RATE, ACCOUNT_RATE = "10/10m", "100/d"
"""Rates of wrong codes: of one account from one address or known browser, and of one account from everywhere.

Who guesses codes has the password: the second is slower than that for passwords, and locks out nobody else's browser.
"""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A person whose password was right, and the page that they wanted."""

    user: User
    target: str


def begin(request: HttpRequest, user: User, target: str) -> str | None:
    """Return the page of the second step, and keep who was right; None when the account has no second factor."""
    if not factors.has_any(user.pk):
        return None
    request.session.cycle_key()
    request.session[KEY] = {"user": user.pk, "proof": _digest(user), "at": int(time.time()), "target": target}
    return reverse("mfa:second-step")


def find(request: HttpRequest) -> Waiting | None:
    """Return who is at the second step in this browser, if the account is still the one whose password was right."""
    kept = request.session.get(KEY)
    if not isinstance(kept, dict) or time.time() - kept["at"] > SECONDS or request.user.is_authenticated:
        return None
    user = User.objects.filter(pk=kept["user"], is_active=True).first()
    if user is None or not constant_time_compare(kept["proof"], _digest(user)) or not factors.has_any(user.pk):
        return None
    return Waiting(user, kept["target"])


def forget(request: HttpRequest, **_signal: object) -> None:
    """Drop what is kept: handler of `user_logged_in`, whoever signed in."""
    request.session.pop(KEY, None)


def list_counters(request: HttpRequest, user: User) -> list[throttle.Counter]:
    """Return what a wrong code for this account counts for, from this browser."""
    account = str(user.pk)
    if device := device_cookies.find_device(request, user.get_username()):
        return [
            throttle.Counter("second-step-device", device, RATE),
            throttle.Counter("second-step-device-day", device, ACCOUNT_RATE),
        ]
    address = client_address.counted(str(request.META.get("REMOTE_ADDR", "")))
    return [
        throttle.Counter("second-step", f"{account}\n{address}", RATE),
        throttle.Counter("second-step-account", account, ACCOUNT_RATE),
    ]


def _digest(user: User) -> str:
    return salted_hmac(SALT, user.password, algorithm="sha256").hexdigest()
