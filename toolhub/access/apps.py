from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AccessConfig(AppConfig):
    name = "toolhub.access"
    label = "access"
    verbose_name = _("Access")

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in

        from toolhub.access import (
            credential_changes,
            device_cookies,
            preferences,
            privileges,
            sign_in,
            temporary_passwords,
        )

        credential_changes.connect()
        preferences.connect()
        privileges.connect()
        temporary_passwords.connect()
        user_logged_in.connect(sign_in.on_signed_in, dispatch_uid="access.sign_in.on_signed_in")
        user_logged_in.connect(device_cookies.remember, dispatch_uid="access.device_cookies.remember")
        _watch()


def _watch() -> None:
    """Log every change of a token as admin activity; `audit` watches accounts and groups itself."""
    from audit.actions.model_signals import watch
    from toolhub.access.models import AccessToken

    watch(
        AccessToken,
        kind="access token",
        ignore=("digest", "last_used", "last_address"),
        many_to_many_names=("toolsets",),
    )
