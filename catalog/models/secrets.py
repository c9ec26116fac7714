"""Secrets that tools refer to by name: values are encrypted here and shown nowhere."""

from __future__ import annotations

import re

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from catalog import encryption
from catalog.querysets import CatalogueQuerySet

NAME = re.compile(r"[a-z0-9_]{1,64}")


def check_secret_name(value: str) -> None:
    if not NAME.fullmatch(value):
        raise ValidationError(
            _("The name of a secret has 1 to 64 lower-case letters, digits and underscores."), code="invalid_name"
        )


class Secret(models.Model):
    class Kind(models.TextChoices):
        SHARED = "shared", _("shared: one value for all users, entered here")
        PERSONAL = "personal", _("personal: each user enters their own")

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        validators=[check_secret_name],
        help_text=_('Tool settings refer to it as {"secret": "name"}.'),
    )
    kind = models.CharField(_("kind"), max_length=10, choices=Kind.choices, default=Kind.SHARED)
    description = models.TextField(
        _("description"),
        blank=True,
        help_text=_("Say what the secret is and where to get one. Users see this when they enter their own."),
    )
    value = models.TextField(_("value"), blank=True, default="", editable=False)
    """Encrypted; "" where none was entered."""
    changed_at = models.DateTimeField(_("changed at"), auto_now=True)

    objects = CatalogueQuerySet.as_manager()

    class Meta:
        verbose_name = _("secret")
        verbose_name_plural = _("secrets")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def owner(self) -> str:
        return f"shared {self.name}"

    def enter(self, value: str) -> None:
        """Encrypt `value` as this secret's value; the caller saves it."""
        self.value = encryption.encrypt(value, self.owner) if value else ""

    def clean(self) -> None:
        super().clean()
        if self.kind == self.Kind.PERSONAL and self.value:
            raise ValidationError({"kind": _("A personal secret has no value here. Each user enters their own.")})


class PersonalSecret(models.Model):
    """The value that one user entered for a personal secret."""

    secret = models.ForeignKey(Secret, models.CASCADE, verbose_name=_("secret"), related_name="entered")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="catalog_secrets"
    )
    value = models.TextField(_("value"), editable=False)
    changed_at = models.DateTimeField(_("changed at"), auto_now=True)

    objects = CatalogueQuerySet.as_manager()

    class Meta:
        verbose_name = _("personal secret")
        verbose_name_plural = _("personal secrets")
        ordering = ["secret", "user"]
        constraints = [models.UniqueConstraint(fields=["secret", "user"], name="one_value_for_each_user")]

    def __str__(self) -> str:
        return f"{self.secret} of {self.user}"

    @property
    def owner(self) -> str:
        return f"personal {self.secret.name} of user {self.user_id}"

    def enter(self, value: str) -> None:
        self.value = encryption.encrypt(value, self.owner)
