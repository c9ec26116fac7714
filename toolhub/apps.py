"""The application that composes the others: commands and system checks."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.db.models.signals import pre_migrate


class ToolhubConfig(AppConfig):
    name = "toolhub"
    label = "toolhub"
    verbose_name = "toolhub"

    def ready(self) -> None:
        from toolhub import checks, composition  # noqa: F401  (the checks register themselves)
        from toolhub.management import database

        # Django sends the signal only for applications that have models.
        access = apps.get_app_config("access")
        pre_migrate.connect(database.before_migrate, sender=access, dispatch_uid="toolhub.management.database")
        composition.connect()
