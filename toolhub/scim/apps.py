from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ScimConfig(AppConfig):
    name = "toolhub.scim"
    label = "scim"
    verbose_name = _("Provisioning")

    def ready(self) -> None:
        from audit.actions.model_signals import watch
        from toolhub.scim.models import ScimGroup, ScimToken, ScimUser

        watch(ScimToken, kind="provisioning token", ignore=("digest", "last_used", "last_address"))
        watch(ScimUser, kind="provisioned user", ignore=("user_name_key",))
        watch(ScimGroup, kind="provisioned group", ignore=("display_name_key",))
