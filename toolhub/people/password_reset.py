"""Forgotten passwords: the request for a mail, its link, and the form for a new password.

The answer to a request is the same whether or not there is such an account, and takes the same time: the mail is
written and sent afterwards (`outbox`).
"""

from __future__ import annotations

import unicodedata

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import translation
from django.utils.http import urlsafe_base64_decode
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from audit.actions import actor as actors
from audit.actions import log
from audit.redaction import redactor
from toolhub.access import temporary_passwords, throttle
from toolhub.people import entered_emails, outbox
from toolhub.people.guesses import Guesses, TooManyGuesses
from toolhub.people.link_cookies import LinkCookie
from toolhub.people.models import OutgoingMail

COOKIE = LinkCookie("toolhub_new_password", "/password/new/", settings.PASSWORD_RESET_TIMEOUT)
GUESSES = Guesses("new-password", "5/10m", "30/10m")
"""Rates of requests for one account from one address, and of one address for all accounts."""
ACCOUNT_RATE = "10/h"
"""Rate of mails to one account, from everywhere; further requests are answered alike, and send none."""
MAX_ACCOUNTS = 10
"""Maximum accounts with one address that get a mail."""
MAX_KEY_CHARACTERS = 18


class RequestForm(forms.Form):
    account = forms.CharField(
        label=gettext_lazy("Username or email address"),
        max_length=254,
        widget=forms.TextInput(attrs={"autofocus": True, "autocomplete": "username", "autocapitalize": "none"}),
    )


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def forgotten(request: HttpRequest) -> HttpResponse:
    """Show the form, and take a request for a mail."""
    if not settings.LOCAL_PASSWORDS:
        raise Http404
    context: dict[str, object] = {"configured": outbox.is_configured()}
    form = RequestForm(request.POST if request.method == "POST" else None)
    if request.method == "POST" and outbox.is_configured() and form.is_valid():
        name = str(form.cleaned_data["account"])
        try:
            GUESSES.reserve(request, name.casefold())
        except TooManyGuesses as refusal:
            context["refusal"] = str(refusal)
        else:
            _take_request(name)
            context["sent"] = True
    return render(request, "access/forgotten_password.html", {**context, "form": form})


def _take_request(name: str) -> None:
    """Leave a mail for each account of this name or address; log the request."""
    accounts = _find_accounts(name)
    allowed = not throttle.reserve([throttle.Counter("new-password-account", name.casefold(), ACCOUNT_RATE)]).seconds
    language = translation.get_language() or ""
    mails = [OutgoingMail(user=user, language=language) for user in accounts if allowed]
    # A mistyped password must not be readable in the log: of an unknown name it keeps a digest.
    targets = [user.get_username() for user in accounts] or [redactor.rules().inline(name)]
    with transaction.atomic():
        OutgoingMail.objects.bulk_create(mails or [OutgoingMail(language=language)])
        for target in targets:
            given = {"address": actors.client_address()} | ({} if allowed else {"mail": "none: too many"})
            log.record("requested", "password", target, None, given, actor="nobody signed in")


def _find_accounts(name: str) -> list[User]:
    """Return the active accounts with a usable password and an address that this is the name or address of."""
    found = User.objects.filter(Q(username=name) | Q(email__iexact=name), is_active=True).exclude(email="")
    # Some databases find addresses that only look alike: nobody gets the mail of somebody else.
    wanted = _fold(name)
    mine = (user for user in found[: 2 * MAX_ACCOUNTS] if user.username == name or _fold(user.email) == wanted)
    return [user for user in mine if user.has_usable_password()][:MAX_ACCOUNTS]


def _fold(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


@require_safe
@never_cache
def open_link(request: HttpRequest, key: str, token: str) -> HttpResponse:
    """Take the token out of the address. Nothing is used up: programs that preview links come here as well."""
    return COOKIE.move(f"{key}:{token}")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters("new_password1", "new_password2")
def choose(request: HttpRequest) -> HttpResponse:
    """Show the form for a new password, and save it."""
    if not settings.LOCAL_PASSWORDS:
        raise Http404
    value = COOKIE.read(request)
    user = _find_user(value)
    if user is None:
        return _reject(request)
    form = SetPasswordForm(user, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        return _save(request, value, form)
    return render(request, "access/new_password.html", {"form": form, "account": user})


def _save(request: HttpRequest, value: str, form: SetPasswordForm[User]) -> HttpResponse:
    if request.user.is_authenticated:
        logout(request)  # what follows is done by the owner of the link, whoever is signed in
    user = form.user
    name = user.get_username()
    with transaction.atomic(), actors.override(name, user.pk):
        # Locked, so that of two at the same time one finds its link used.
        locked = User.objects.select_for_update().get(pk=user.pk)
        if _find_user(value) is None:
            return _reject(request)
        locked.set_password(form.cleaned_data["new_password1"])
        locked.save(update_fields=["password"])
        was_temporary, was_entered = temporary_passwords.forget(locked), entered_emails.forget(locked)
        revoked = was_temporary or was_entered
        if revoked:
            temporary_passwords.revoke_credentials(locked)
        log.record("reset", "password", name, None, {"address": actors.client_address()})
    if revoked:
        text = _(
            "Your password was changed. Sign in with it. Your access tokens were revoked and your apps disconnected, "
            "because somebody else managed your account before."
        )
    else:
        text = _(
            "Your password was changed. Sign in with it. Your access tokens keep working. If someone may have seen "
            "them, revoke them on the Tokens page."
        )
    messages.success(request, text)
    response = redirect("access:login")
    COOKIE.remove(response)
    return response


def _find_user(value: str) -> User | None:
    """Return the account of a link that can be used now."""
    key, _colon, token = value.partition(":")
    try:
        number = urlsafe_base64_decode(key).decode("ascii")
    except (ValueError, UnicodeDecodeError):
        return None
    if not number.isdecimal() or len(number) > MAX_KEY_CHARACTERS:
        return None
    user = User.objects.filter(pk=int(number), is_active=True).first()
    if user is None or not user.has_usable_password() or not default_token_generator.check_token(user, token):
        return None
    return user


def _reject(request: HttpRequest) -> HttpResponse:
    return render(request, "access/new_password_dead.html", status=404)
