"""The pages of an invited person: the link, and the form for a username and a password."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from toolhub.access.sign_in import complete, find_first_page
from toolhub.people import invitations
from toolhub.people.guesses import Guesses, TooManyGuesses
from toolhub.people.link_cookies import LinkCookie
from toolhub.people.models import MAX_DAYS, Invitation

COOKIE = LinkCookie("toolhub_invitation", "/invitation/", MAX_DAYS * 86_400)
GUESSES = Guesses("invitation", "30/10m", "60/10m")
"""Rates of forms with an error, of one invitation and of one address: each says whether a username is taken."""


class AcceptanceForm(UserCreationForm):  # type: ignore[type-arg]
    """The account of an invited person, who chooses all of it but the email address."""

    class Meta(UserCreationForm.Meta):
        model = User
        fields = ("username", "first_name", "last_name")

    def __init__(self, invitation: Invitation, *args: Any, **kwargs: Any) -> None:
        proposed = User(email=invitation.email, first_name=invitation.first_name, last_name=invitation.last_name)
        initial = {"username": invitations.suggest_username(invitation)}
        super().__init__(*args, instance=proposed, initial=initial, **kwargs)
        self.fields["username"].widget.attrs["autocomplete"] = "username"
        for name in ("first_name", "last_name"):
            self.fields[name].required = False


@require_safe
@never_cache
def open_link(request: HttpRequest, token: str) -> HttpResponse:
    """Take the token out of the address. Nothing is used up: programs that preview links come here as well."""
    return COOKIE.move(token)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters("password1", "password2")
def accept(request: HttpRequest) -> HttpResponse:
    """Show the form of an invitation, and make the account."""
    if not settings.LOCAL_PASSWORDS:
        return render(request, "people/invitation_off.html")
    token = COOKIE.read(request)
    invitation = invitations.find_by_token(token)
    if invitation is None:
        return _reject(request)
    if request.user.is_authenticated:
        return render(request, "people/invitation_signed_in.html", {"invitation": invitation})
    form = AcceptanceForm(invitation, request.POST if request.method == "POST" else None)
    context: dict[str, Any] = {"invitation": invitation, "groups": invitation.groups.order_by("name")}
    if request.method == "POST":
        try:
            with GUESSES.counted(request, str(invitation.pk), form):
                if form.is_valid() and (response := _make_account(request, token, form)) is not None:
                    return response
        except TooManyGuesses as refusal:
            # Without a look at the form, whose errors say which usernames are taken.
            form, context["refusal"] = AcceptanceForm(invitation), str(refusal)
    return render(request, "people/invitation.html", {**context, "form": form})


def _make_account(request: HttpRequest, token: str, form: AcceptanceForm) -> HttpResponse | None:
    """Make the account and sign its owner in; None, and an error of the form, when the username was taken meanwhile."""
    user = form.save(commit=False)
    try:
        accepted = invitations.accept(token, user)
    except IntegrityError:
        form.add_error("username", _("A user with that username already exists."))
        return None
    if not accepted:
        return _reject(request)
    complete(request, user, "invitation")
    response = redirect(find_first_page(user))
    COOKIE.remove(response)
    return response


def _reject(request: HttpRequest) -> HttpResponse:
    """Answer alike for a link that was used, revoked or replaced, that expired, and that never was."""
    return render(request, "people/invitation_dead.html", status=404)
