"""Who may sign in with a password."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.http import HttpRequest


class Passwords(ModelBackend):
    """Django's backend; with TOOLHUB_LOCAL_PASSWORDS off, it knows the passwords of superusers only."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **options: Any
    ) -> Any:
        # The password is hashed in any case: the time must not tell who is a superuser.
        user = super().authenticate(request, username=username, password=password, **options)
        if user is None or may_use_password(user):
            return user
        return None


def may_use_password(user: User) -> bool:
    """Return whether this person may sign in with a password of this server."""
    return bool(settings.LOCAL_PASSWORDS or user.is_superuser)
