"""Completion of a sign-in, the same for every way in: how and when it happened, and where the person goes next."""

from __future__ import annotations

import time

from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from toolhub.access import hooks
from toolhub.access.models import AccessToken

BACKEND = "toolhub.access.backends.Passwords"
AUTHORIZE_PATH = "/oauth/authorize?"
METHOD_KEY = "signed_in_with"
"""In the session: how the person signed in, such as "password", "password+totp", "passkey" or "provider:okta"."""
PROOF_KEY = "proved_at"
"""In the session: the Unix time at which the person last proved who they are."""
FRESH_SECONDS = 600


def complete(request: HttpRequest, user: User, method: str) -> None:
    """Sign this person in, with the method in the session and in the audit log."""
    request.sign_in_method = method  # type: ignore[attr-defined]
    login(request, user, backend=BACKEND)


def on_signed_in(request: HttpRequest, **_signal: object) -> None:
    request.session[METHOD_KEY] = getattr(request, "sign_in_method", "")
    confirm(request)


def confirm(request: HttpRequest) -> None:
    """Remember that the signed-in person proved who they are just now."""
    request.session[PROOF_KEY] = int(time.time())


def is_fresh(request: HttpRequest) -> bool:
    """Return whether the person signed in, or confirmed who they are, within the last minutes."""
    proved = request.session.get(PROOF_KEY)
    return isinstance(proved, int) and 0 <= time.time() - proved < FRESH_SECONDS


def find_target(request: HttpRequest, user: User, wanted: str) -> str:
    """Return the page that was wanted, if it is one of ours, or the first page of this person."""
    hosts = {request.get_host()}
    if wanted and url_has_allowed_host_and_scheme(wanted, allowed_hosts=hosts, require_https=request.is_secure()):
        return wanted
    return find_first_page(user)


def find_first_page(user: User) -> str:
    """Return the page after a sign-in that did not ask for a certain page.

    A user without a token or a connected app is led to the next step: connecting a client. If a client could use
    nothing, the home page follows instead, which leads to Overview or to the tools page: see `find_home`.
    """
    questions = hooks.installed()
    if (
        questions.has_any_access(user.pk)
        and not AccessToken.objects.filter(user=user).usable().exists()
        and not questions.has_connected_app(user.pk)
    ):
        return reverse("access:connect")
    return reverse("access:home")


def find_home(user: User) -> str:
    """Return what `/` shows a signed-in person: their tools, or Overview to who administers and has no tools.

    Staff without any permission would find an empty Overview. Whoever has tools of their own works with them first, and
    finds the administration in the menu.
    """
    administers = user.is_staff and (user.is_superuser or bool(user.get_all_permissions()))
    if administers and not hooks.installed().has_any_access(user.pk):
        return reverse("admin:index")
    return reverse("catalog:tools")


def keep_opener(response: HttpResponseBase, target: str) -> None:
    """Let the answer keep the window that opened this one, in a sign-in for a client that runs in a web page."""
    if target.startswith(AUTHORIZE_PATH):
        response.headers["Cross-Origin-Opener-Policy"] = "unsafe-none"
