from __future__ import annotations

from django.apps import AppConfig
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
        ignored = ("code_digest", "previous_digest", "successor", "rotated", "activated", "last_used", "last_address")
        watch(ConnectedApp, kind="connected app", ignore=ignored, many_to_many_names=("toolsets",))
