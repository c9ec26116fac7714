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
            _("The name of a secret is 1 to 64 lower-case letters, digits and underscores."), code="invalid_name"
        )


class Secret(models.Model):
    class Kind(models.TextChoices):
        SHARED = "shared", _("shared: one value, entered here, for every caller")
        PERSONAL = "personal", _("personal: each user enters their own")

    name = models.CharField(
        max_length=64,
        unique=True,
        validators=[check_secret_name],
        help_text=_('Settings of tools refer to it as {"secret": "name"}.'),
    )
    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.SHARED)
    description = models.TextField(
        blank=True, help_text=_("What it is and where to get one; users read this when they enter their own.")
    )
    value = models.TextField(blank=True, default="", editable=False)
    """Encrypted; "" where none was entered."""
    changed_at = models.DateTimeField(auto_now=True)

    objects = CatalogueQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def owner(self) -> str:
        return f"shared {self.name}"

    def enter(self, value: str) -> None:
        """Encrypt `value` as this secret's; save it afterwards."""
        self.value = encryption.encrypt(value, self.owner) if value else ""

    def clean(self) -> None:
        super().clean()
        if self.kind == self.Kind.PERSONAL and self.value:
            raise ValidationError({"kind": _("A personal secret has no value of its own: each user enters theirs.")})


class PersonalSecret(models.Model):
    """What one user entered for a personal secret."""

    secret = models.ForeignKey(Secret, models.CASCADE, related_name="entered")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="catalog_secrets")
    value = models.TextField(editable=False)
    changed_at = models.DateTimeField(auto_now=True)

    objects = CatalogueQuerySet.as_manager()

    class Meta:
        ordering = ["secret", "user"]
        constraints = [models.UniqueConstraint(fields=["secret", "user"], name="one_value_for_each_user")]

    def __str__(self) -> str:
        return f"{self.secret} of {self.user}"

    @property
    def owner(self) -> str:
        return f"personal {self.secret.name} of user {self.user_id}"

    def enter(self, value: str) -> None:
        self.value = encryption.encrypt(value, self.owner)
