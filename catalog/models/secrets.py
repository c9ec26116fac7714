"""Secrets that tools refer to by name: values are encrypted here and shown nowhere."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from catalog import encryption, host_patterns
from catalog.models.fields import JSONTextField, check_kinds
from catalog.querysets import CatalogueQuerySet
from catalog.runners.destinations import Destination
from catalog.runners.settings_errors import SettingsProblem

NAME = re.compile(r"[a-z0-9_]{1,64}")


def check_secret_name(value: str) -> None:
    if not NAME.fullmatch(value):
        raise ValidationError(
            _("The name of a secret has 1 to 64 lower-case letters, digits and underscores."), code="invalid_name"
        )


def check_hosts(value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValidationError(_("Enter hosts such as api.example.com, separated by commas."), code="invalid_hosts")
    if len(value) > host_patterns.MAX_PATTERNS:
        raise ValidationError(_("Enter at most %d hosts.") % host_patterns.MAX_PATTERNS, code="invalid_hosts")
    try:
        host_patterns.normalise(value)
    except SettingsProblem as problem:
        raise ValidationError(_("%(text)s.") % {"text": problem.localized_message}, code="invalid_hosts") from None


NEEDS_VALUE = _(
    "The stored value was entered for the hosts before. To add hosts or to empty the list, enter the value again."
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
    hosts = JSONTextField(
        _("hosts"),
        default=list,
        blank=True,
        validators=[check_hosts],
        help_text=_(
            "The secret is sent only to these. Examples: api.example.com (HTTPS), *.example.com, "
            "http://10.0.0.5:8080, program:git. Empty: wherever a tool or upstream server sends it."
        ),
    )
    value = models.TextField(_("value"), blank=True, default="", editable=False)
    """Encrypted; "" where none was entered."""
    changed_at = models.DateTimeField(_("changed at"), auto_now=True)

    objects = CatalogueQuerySet.as_manager()

    class Meta:
        verbose_name = _("secret")
        verbose_name_plural = _("secrets")
        ordering = ["name"]
        permissions = [("use_secret", gettext_noop("Can use secrets in tools and upstream servers"))]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **options: Any) -> None:
        """Save the row. Raises PermissionDenied when a stored value would become usable at further hosts."""
        if self._opens_stored_value():
            raise PermissionDenied(NEEDS_VALUE)
        super().save(*args, **options)

    @property
    def owner(self) -> str:
        return f"shared {self.name}"

    def enter(self, value: str) -> None:
        """Encrypt `value` as this secret's value; the caller saves it."""
        self.value = encryption.encrypt(value, self.owner) if value else ""

    def clean(self) -> None:
        super().clean()
        check_kinds(self)
        if self.kind == self.Kind.PERSONAL and self.value:
            raise ValidationError({"kind": _("A personal secret has no value here. Each user enters their own.")})
        with suppress(ValueError):  # the validator of the field says what is wrong
            self.hosts = host_patterns.normalise(self.hosts)
        if self._opens_stored_value():
            raise ValidationError({"hosts": NEEDS_VALUE})

    def allows(self, destination: Destination) -> bool:
        """Return whether the hosts that this secret is bound to include the destination."""
        return host_patterns.allow(self.hosts, destination)

    def _opens_stored_value(self) -> bool:
        """Return whether the stored value stays and may go to more destinations than before."""
        if not self.value or self.pk is None:
            return False
        stored = type(self)._base_manager.filter(pk=self.pk).values_list("value", "hosts").first()
        if stored is None or stored[0] != self.value:
            return False  # a new value: whoever entered it decides
        try:
            return host_patterns.is_widened(stored[1], self.hosts)
        except ValueError:
            return bool(stored[1] != self.hosts)


class PersonalSecret(models.Model):
    """The value that one user entered for a personal secret."""

    secret = models.ForeignKey(Secret, models.CASCADE, verbose_name=_("secret"), related_name="entered")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="catalog_secrets"
    )
    value = models.TextField(_("value"), editable=False)
    destinations = JSONTextField(_("destinations"), default=dict, blank=True, editable=False)
    """Where the user allowed it to be sent: {key of a `Destination`: its label at that time}."""
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
