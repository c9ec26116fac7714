"""What an administrator says about this installation, where the hub cannot see it."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop


class BackupConfirmation(models.Model):
    """One row while somebody vouches for the backups of this installation, none otherwise."""

    ONLY = 1
    """The primary key of the row."""

    # A name and no relation: it stays when the account is deleted.
    confirmed_by = models.CharField(_("confirmed by"), max_length=150)
    confirmed_at = models.DateTimeField(_("confirmed at"), default=timezone.now)

    class Meta:
        verbose_name = _("backup confirmation")
        verbose_name_plural = _("backup confirmations")
        default_permissions = ()
        permissions = (
            ("manage_backups", gettext_noop("Can see what to back up, and confirm backups")),
            ("view_settings", gettext_noop("Can see which environment settings are set")),
        )
        constraints = [models.CheckConstraint(condition=Q(id=1), name="one_backup_confirmation")]

    def __str__(self) -> str:
        return self.confirmed_by
