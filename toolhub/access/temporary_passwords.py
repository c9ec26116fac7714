"""Passwords that somebody else set: good for one sign-in, which must begin with a password of one's own.

Otherwise a manager of accounts could sign in as an account that owns nothing yet, create a token, and keep it when the
account gets access later. So nothing else can be done with such a password, and the owner's own password revokes the
tokens and connected apps from before. Passwords that a command sets are the operator's own business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.db.models.signals import post_save, pre_save
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import resolve, reverse
from django.urls.exceptions import Resolver404

from audit.actions import actor as actors
from toolhub.access import hooks
from toolhub.access.models import AccessToken, TemporaryPassword
from toolhub.access.privileges import list_changes

SESSION_KEY = "temporary_password"
ALLOWED = frozenset({"access:password", "access:logout", "access:language", "admin:logout"})
"""What a session can do that began with such a password."""
_NEW = "_toolhub_new_password"


def connect() -> None:
    pre_save.connect(on_saving, sender=User, dispatch_uid="access.temporary_passwords.saving")
    post_save.connect(on_saved, sender=User, dispatch_uid="access.temporary_passwords.saved")
    user_logged_in.connect(on_signed_in, dispatch_uid="access.temporary_passwords.signed_in")


def find(user: Any) -> TemporaryPassword | None:
    """Return who set this person's password, and when; None when it is their own."""
    return TemporaryPassword.objects.filter(user_id=user.pk).first()


def on_saving(instance: User, update_fields: frozenset[str] | None, **_rest: Any) -> None:
    setattr(instance, _NEW, _has_new_password(instance, update_fields))


def on_saved(instance: User, **_rest: Any) -> None:
    """Remember a password that another person set; forget it, with the tokens, once its owner chose another one."""
    if not instance.__dict__.pop(_NEW, False):
        return
    person = actors.current_user()
    if person is None or not person.is_authenticated:
        return
    if person.pk != instance.pk:
        TemporaryPassword.objects.update_or_create(user=instance, defaults={"by": person.get_username()})
    elif forget(instance):
        revoke_credentials(instance)


def forget(user: User) -> bool:
    """Forget that another person set the password, because its owner chose one. Return whether one had."""
    return bool(TemporaryPassword.objects.filter(user=user).delete()[0])


def revoke_credentials(user: User) -> None:
    """Revoke whatever a person who managed the account may have created or kept: access tokens and connected apps."""
    for token in AccessToken.objects.filter(user=user, revoked=None):
        token.revoke()
    hooks.installed().revoke_apps(user.pk)


def _has_new_password(user: User, update_fields: frozenset[str] | None) -> bool:
    if update_fields is not None and "password" not in update_fields:
        return False
    stored = User._base_manager.filter(pk=user.pk).first() if user.pk else None
    return "password" in list_changes(user, stored, update_fields) and user.has_usable_password()


def on_signed_in(request: HttpRequest, user: User, **_rest: Any) -> None:
    # In the session, so that other sessions cost no query: setting a password ends every older one.
    if find(user) is not None:
        request.session[SESSION_KEY] = True


class OwnPasswordFirst:
    """Middleware that leads a session with a temporary password to the form for one's own, and nowhere else."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.session.get(SESSION_KEY) and request.user.is_authenticated:
            if find(request.user) is None:
                del request.session[SESSION_KEY]
            elif not _is_allowed(request):
                return redirect(reverse("access:password"))
        return self.get_response(request)


def _is_allowed(request: HttpRequest) -> bool:
    try:
        return resolve(request.path_info).view_name in ALLOWED
    except Resolver404:
        return False
