from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class PagesConfig(AppConfig):
    name = "toolhub.pages"
    label = "pages"
    verbose_name = _("Pages")

    def ready(self) -> None:
        from toolhub.pages.access import bulk

        # The admin has now imported every app's admin module.
        bulk.connect()
