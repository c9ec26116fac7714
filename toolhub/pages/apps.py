from __future__ import annotations

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class PagesConfig(AppConfig):
    name = "toolhub.pages"
    label = "pages"
    verbose_name = _("Pages")

    def ready(self) -> None:
        from audit.actions.model_signals import watch
        from catalog import signals
        from toolhub.pages.access import bulk
        from toolhub.pages.models import BackupConfirmation
        from toolhub.pages.tool_tests import views as tests

        watch(BackupConfirmation, kind="backup confirmation")
        signals.tool_saved.connect(tests.on_tool_saved, dispatch_uid="toolhub.pages.tool_tests")
        # The admin has now imported every app's admin module.
        bulk.connect()
