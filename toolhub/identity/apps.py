from __future__ import annotations

from typing import Any

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _

LIBRARY_LABELS = ("account", "socialaccount", "mfa")


class IdentityConfig(AppConfig):
    name = "toolhub.identity"
    label = "identity"
    verbose_name = _("Sign-in")

    def ready(self) -> None:
        from allauth.mfa.models import Authenticator
        from django.contrib import admin
        from django.contrib.auth.signals import user_logged_in
        from django.db.models.fields.json import KeyTextTransform

        from audit.actions.model_signals import watch
        from catalog import encryption
        from toolhub.identity import changes, rotation
        from toolhub.identity.mfa import codes, second_step
        from toolhub.identity.models import Deactivation, GroupMapping, Identity, Provider

        changes.connect()
        encryption.register(rotation.move)
        encryption.register(codes.move_seeds)
        user_logged_in.connect(second_step.forget, dispatch_uid="identity.second_step.forget")
        for model in [model for model in admin.site._registry if model._meta.app_label in LIBRARY_LABELS]:
            admin.site.unregister(model)
        for label in LIBRARY_LABELS:
            library = apps.get_app_config(label)
            post_migrate.connect(_remove_permissions, sender=library, dispatch_uid=f"identity.{label}.permissions")
        named = {"name": KeyTextTransform("name", "data")}
        watch(Authenticator, ("user", "type", "created_at"), kind="second factor", expressions=named)
        watch(Provider, kind="identity provider", secrets=("client_secret",))
        watch(GroupMapping, kind="group mapping")
        watch(Identity, kind="identity", ignore=("refresh_token", "last_sign_in", "checked", "valid_until", "given"))
        watch(Deactivation, kind="deactivation")


def _remove_permissions(app_config: Any, using: str, apps: Any = apps, **_: Any) -> None:
    """Remove the permissions for the library's tables, which no page has."""
    permission = apps.get_model("auth", "Permission")
    permission.objects.using(using).filter(content_type__app_label=app_config.label).delete()
