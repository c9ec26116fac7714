from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class OAuthConfig(AppConfig):
    name = "toolhub.oauth"
    label = "oauth"
    verbose_name = _("Connected apps")

    def ready(self) -> None:
        from audit.actions.model_signals import watch
        from toolhub.oauth import changes
        from toolhub.oauth.models import ConnectedApp

        changes.connect()
        library = apps.get_app_config("oauth2_provider")
        post_migrate.connect(_remove_permissions, sender=library, dispatch_uid="oauth.remove_permissions")
        ignored = (
            *("family", "question", "code_digest", "previous_digest", "successor"),
            *("rotated", "activated", "last_used", "last_address"),
        )
        watch(ConnectedApp, kind="connected app", ignore=ignored, many_to_many_names=("toolsets",))


def _remove_permissions(using: str, apps: Any = apps, **_: Any) -> None:
    """Remove the permissions for the library's tables, which no page has.

    Their names are those of ours ("Can add access token", "Can add grant"): whoever gives permissions would meet both.
    """
    permission = apps.get_model("auth", "Permission")
    permission.objects.using(using).filter(content_type__app_label="oauth2_provider").delete()
