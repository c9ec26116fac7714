"""The application that composes the others: commands and system checks."""

from __future__ import annotations

from django.apps import AppConfig


class ToolhubConfig(AppConfig):
    name = "toolhub"
    label = "toolhub"
    verbose_name = "toolhub"

    def ready(self) -> None:
        from toolhub import checks, composition  # noqa: F401  (the checks register themselves)

        composition.connect()
