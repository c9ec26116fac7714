"""Proofs that pages ask for: a second factor, and that the signed-in person is who they were ten minutes ago."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, cast
from urllib.parse import urlencode

from django import forms
from django.contrib.auth import user_login_failed
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from toolhub.access import sign_in
from toolhub.access.forms import bound_guesses
from toolhub.identity.mfa import codes, factors, passkeys, second_step

View = Callable[..., HttpResponse]


class WrongPasskey(ValidationError):
    """An error for a passkey that was not accepted; `user` is the account that it names, if it names one."""

    def __init__(self, user: User | None) -> None:
        super().__init__(_("This passkey was not accepted. Try again, or choose another way to sign in."))
        self.user = user


ADVICE = gettext_lazy("If these were not your attempts, somebody else knows your password: change it.")


class CodeForm(forms.Form):
    """A code of the authenticator app, or a recovery code."""

    code = forms.CharField(
        label=gettext_lazy("Code"),
        max_length=codes.MAX_CODE_CHARACTERS,
        help_text=gettext_lazy("The six digits from your authenticator app, or one of your recovery codes."),
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false"}),
    )


def take(request: HttpRequest, user: User, purpose: str) -> str:
    """Return the kind of second factor that the form proves for this account: "totp", "passkey" or "recovery code".

    Raises ValidationError for a wrong one, and after too many wrong ones.
    """
    with bound_guesses(request, second_step.list_counters(request, user), ADVICE):
        answer = request.POST.get("credential", "")
        if answer:
            return take_passkey(request, purpose, answer, user)[1]
        kind = codes.check(user, request.POST.get("code", ""))
        if kind is None:
            raise ValidationError(
                _("This code is wrong, was used before, or is too old. Enter the one that your app shows now.")
            )
        return "recovery code" if kind == factors.CODES else kind


def take_passkey(request: HttpRequest, purpose: str, answer: str, user: User | None = None) -> tuple[User, str]:
    """Return the account whose passkey the form proves, and the kind. Raises ValidationError."""
    try:
        return passkeys.prove(request, purpose, answer, user), "passkey"
    except passkeys.Refused as refused:
        raise WrongPasskey(refused.user) from refused


def report_failure(request: HttpRequest, user: User | None, method: str) -> None:
    """Log a failed sign-in to this account, or to none that is known; not one that was throttled."""
    if getattr(request, "throttled_seconds", 0):
        return
    request.sign_in_method = method  # type: ignore[attr-defined]
    name = "" if user is None else user.get_username()
    user_login_failed.send(sender=__name__, credentials={"username": name}, request=request)


def fresh(view: View) -> View:
    """Ask whoever did not sign in within the last minutes to confirm who they are first."""

    @wraps(view)
    def asked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if sign_in.is_fresh(request):
            return view(request, *args, **kwargs)
        here = request.path if request.method in {"GET", "HEAD"} else reverse("mfa:security")
        address = f"{reverse('mfa:confirm')}?{urlencode({'next': here})}"
        if request.headers.get("Accept") == "application/json":
            return JsonResponse({"location": address}, status=403)
        return HttpResponseRedirect(address)

    return asked


def person(request: HttpRequest) -> User:
    return cast(User, request.user)
