from __future__ import annotations

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class AuditConfig(AppConfig):
    name = "audit"
    label = "audit"
    verbose_name = _("Audit log")

    def ready(self) -> None:
        from django.conf import settings
        from django.contrib.auth.models import Group, User

        from audit import checks  # noqa: F401 - registers the system checks
        from audit.actions import log
        from audit.actions.model_signals import watch
        from audit.auditors import make_group
        from audit.background import Traffic
        from audit.integrity.verifier import Verifier
        from audit.models import SavedView
        from audit.queries import text_index
        from audit.queries.rollups import RollupUpdate
        from audit.recorder import AuditLog
        from audit.redaction.rules import Redaction
        from toolhub.parts import parts

        redaction, audit_log = Redaction(), AuditLog(settings.CALL_LOG)
        for part in (redaction, audit_log, Traffic(audit_log.count_entries), Verifier(), RollupUpdate()):
            parts.put(part)
        setting_changed.connect(redaction.on_setting_changed, dispatch_uid="audit.redaction")
        log.connect_signals()
        watch(
            User,
            kind="user",
            ignore=("last_login",),
            secrets=("password",),
            many_to_many_names=("groups", "user_permissions"),
        )
        watch(Group, kind="group", many_to_many_names=("permissions",))
        watch(SavedView, kind="saved view")
        post_migrate.connect(make_group, sender=self, dispatch_uid="audit.auditors")
        post_migrate.connect(text_index.after_migrate, sender=self, dispatch_uid="audit.text_index")
