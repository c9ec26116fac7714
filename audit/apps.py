from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class AuditConfig(AppConfig):
    name = "audit"
    label = "audit"
    verbose_name = _("Audit log")

    def ready(self) -> None:
        from django.contrib.auth.models import Group, User

        from audit import checks, recorder  # noqa: F401 - registers the system checks
        from audit.actions import log
        from audit.actions.model_signals import watch
        from audit.auditors import make_group
        from audit.export import log_shipper
        from audit.models import SavedView

        log.connect()
        if log_shipper.wanted():
            recorder.on_finished(log_shipper.ship)
        watch(User, kind="user", ignore=("last_login",), secrets=("password",), many=("groups", "user_permissions"))
        watch(Group, kind="group", many=("permissions",))
        watch(SavedView, kind="saved view")
        post_migrate.connect(make_group, sender=self, dispatch_uid="audit.auditors")
