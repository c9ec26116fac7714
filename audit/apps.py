from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class AuditConfig(AppConfig):
    name = "audit"
    label = "audit"
    verbose_name = _("Record")

    def ready(self) -> None:
        from django.contrib.auth.models import Group, User

        from audit import actions, checks, recorder, shipper  # noqa: F401 - registers the system checks
        from audit.auditors import make_group
        from audit.models import SavedView
        from audit.watching import watch

        actions.connect()
        if shipper.wanted():
            recorder.on_finished(shipper.ship)
        watch(User, kind="user", ignore=("last_login",), secrets=("password",), many=("groups", "user_permissions"))
        watch(Group, kind="group", many=("permissions",))
        watch(SavedView, kind="saved view")
        post_migrate.connect(make_group, sender=self, dispatch_uid="audit.auditors")
