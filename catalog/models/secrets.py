"""Secrets that tools refer to by name: values are encrypted here and shown nowhere."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import models
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from audit.actions import actor
from catalog import encryption, host_patterns
from catalog.models.fields import JSONTextField, check_kinds
from catalog.querysets import CatalogueQuerySet
from catalog.runners import destinations
from catalog.runners.destinations import Destination
from catalog.runners.settings_errors import SettingsProblem
from toolhub import egress

NAME = re.compile(r"[a-z0-9_]{1,64}")
PERMISSION = "catalog.use_secret"
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
"""One scope (RFC 6749, section 3.3)."""
ACCOUNT_ADDRESSES = ("url", "issuer", "authorization_endpoint", "token_endpoint", "revocation_endpoint")


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


NEEDS_CLIENT_SECRET = _(
    "The stored client secret was entered for the addresses before. To change them, enter the client secret again."
)


NEEDS_PERMISSION = _(
    'You need the permission "Can use secrets in tools and upstream servers" to decide where people sign in.'
)


def may_use_secrets() -> bool:
    """Return whether the signed-in user of the current request may decide where secrets are sent.

    Outside of a request, as in a command, the answer is always yes.
    """
    user = actor.current_user()
    return user is None or bool(user.has_perm(PERMISSION))


class Secret(models.Model):
    class Kind(models.TextChoices):
        SHARED = "shared", _("shared: one value for all users, entered here")
        PERSONAL = "personal", _("personal: each user enters their own")
        ACCOUNT = "account", _("account: each user connects their own account with OAuth")

    OWN_KINDS = (Kind.PERSONAL.value, Kind.ACCOUNT.value)
    """The kinds of which every user has their own: it is used for nobody else, and sent only where they allow it."""

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
    url = models.CharField(
        _("URL of the service"),
        max_length=2000,
        blank=True,
        help_text=_(
            "For an account: the address that needs it, such as https://mcp.example.com/mcp. Where to sign in is found "
            "from there."
        ),
    )
    issuer = models.CharField(
        _("issuer"),
        max_length=500,
        blank=True,
        help_text=_(
            "The authorization server, such as https://login.example.com. Needed if the service does not name it, or "
            "if it is in a private network."
        ),
    )
    authorization_endpoint = models.CharField(
        _("authorization endpoint"),
        max_length=2000,
        blank=True,
        help_text=_("Only for a service without metadata: the page where people sign in."),
    )
    token_endpoint = models.CharField(
        _("token endpoint"),
        max_length=2000,
        blank=True,
        help_text=_("Only for a service without metadata: where its tokens come from."),
    )
    revocation_endpoint = models.CharField(
        _("revocation endpoint"),
        max_length=2000,
        blank=True,
        help_text=_("Only for a service without metadata: where tokens are revoked, if it can do that."),
    )
    scopes = models.CharField(
        _("scopes"),
        max_length=2000,
        blank=True,
        help_text=_("Separated by spaces. Empty: what the service asks for."),
    )
    client_id = models.CharField(
        _("client ID"),
        max_length=2000,
        blank=True,
        help_text=_("Only if the service does not let clients register themselves."),
    )
    client_secret = models.TextField(_("client secret"), blank=True, default="", editable=False)
    """Encrypted; "" where none was entered."""
    registration = models.TextField(_("registration"), blank=True, default="", editable=False)
    """The client that this server registered itself, as encrypted JSON: {"issuer": ..., "client": {...}}."""
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
        if self._moves_client_secret():
            raise PermissionDenied(NEEDS_CLIENT_SECRET)
        if self._moves_sign_in():
            raise PermissionDenied(NEEDS_PERMISSION)
        if self.registration and self._has_other_addresses():
            self.registration = ""  # made at another server
        super().save(*args, **options)

    @property
    def owner(self) -> str:
        return f"shared {self.name}"

    @property
    def client_owner(self) -> str:
        """The owner of the encrypted client: with other addresses, it cannot be read."""
        return f"client of {self.name} at {self.addresses_digest}"

    @property
    def registration_owner(self) -> str:
        """The owner of the encrypted registration, in the same way."""
        return f"registration of {self.name} at {self.addresses_digest}"

    @property
    def is_own(self) -> bool:
        """Whether every user has their own."""
        return self.kind in self.OWN_KINDS

    @property
    def account_addresses(self) -> tuple[str, ...]:
        """The addresses that decide where people sign in, and where their tokens come from."""
        return tuple(getattr(self, name) for name in ACCOUNT_ADDRESSES)

    @property
    def addresses_digest(self) -> str:
        """The digest of these addresses, to which connected accounts are bound."""
        return hashlib.sha256(json.dumps(self.account_addresses).encode()).hexdigest()

    def enter(self, value: str) -> None:
        """Encrypt `value` as this secret's value; the caller saves it."""
        self.value = encryption.encrypt(value, self.owner) if value else ""

    def enter_client_secret(self, value: str) -> None:
        """Encrypt the secret of the client that is registered by hand; the caller saves it."""
        self.client_secret = encryption.encrypt(value, self.client_owner) if value else ""

    def clean(self) -> None:
        super().clean()
        check_kinds(self)
        if self.kind == self.Kind.PERSONAL and self.value:
            raise ValidationError({"kind": _("A personal secret has no value here. Each user enters their own.")})
        self._check_account()
        with suppress(ValueError):  # the validator of the field says what is wrong
            self.hosts = host_patterns.normalise(self.hosts)
        if self._opens_stored_value():
            raise ValidationError({"hosts": NEEDS_VALUE})
        if self._moves_client_secret():
            raise ValidationError(NEEDS_CLIENT_SECRET, code="client_secret")

    def _check_account(self) -> None:
        """Raise ValidationError for addresses that no account can be connected with, or that belong to no account."""
        if self.kind != self.Kind.ACCOUNT:
            named = [name for name in (*ACCOUNT_ADDRESSES, "scopes", "client_id") if getattr(self, name)]
            if named or self.client_secret:
                only = _("Only an account has this. Empty the field, or choose the kind account.")
                raise ValidationError(dict.fromkeys(named, only) or {"kind": only})
            return
        if self.value:
            raise ValidationError({"kind": _("An account has no value here. Each user connects their own.")})
        problems: dict[str, Any] = {}
        for name in ACCOUNT_ADDRESSES:
            if address := getattr(self, name):
                try:
                    destinations.check_https(address)
                except (SettingsProblem, egress.DeniedAddress) as error:
                    problems[name] = _("%(text)s.") % {"text": capfirst(error.localized_message)}
        if not all(SCOPE.fullmatch(word) for word in self.scopes.split()):
            problems["scopes"] = _("Enter scopes separated by spaces, without quotes and backslashes.")
        if bool(self.authorization_endpoint) != bool(self.token_endpoint):
            missing = "token_endpoint" if self.authorization_endpoint else "authorization_endpoint"
            problems[missing] = _("Enter both the authorization endpoint and the token endpoint, or neither.")
        elif self.client_id and not (self.issuer or self.token_endpoint):
            # Otherwise the service decides which server gets our client secret (client-registration, "Authorization
            # Server Binding").
            problems["issuer"] = _("Enter the issuer, or the endpoints, where this client is registered.")
        elif self.client_id.startswith(settings.PUBLIC_URL):
            problems["client_id"] = _("This server uses its client document by itself. Leave the client ID empty.")
        elif self.token_endpoint and not self.client_id:
            problems["client_id"] = _("A service without metadata needs the ID of a client that is registered there.")
        elif self.revocation_endpoint and not self.token_endpoint:
            problems["revocation_endpoint"] = _("Enter it only together with the other endpoints.")
        elif not (self.url or self.issuer or self.token_endpoint):
            problems["url"] = _("Enter the URL of the service, its issuer, or its endpoints.")
        if problems:
            raise ValidationError(problems)
        if self._moves_sign_in():
            raise ValidationError(NEEDS_PERMISSION, code="permission")

    def _moves_client_secret(self) -> bool:
        """Return whether the stored client secret stays and would be sent to other addresses than before."""
        if not self.client_secret or self.pk is None:
            return False
        stored = type(self)._base_manager.filter(pk=self.pk, client_secret=self.client_secret)
        return stored.exists() and self._has_other_addresses()  # a new one: whoever entered it decides

    def _moves_sign_in(self) -> bool:
        """Return whether the signed-in user decides anew where tokens of people come from, and may not."""
        if self.kind != self.Kind.ACCOUNT or may_use_secrets():
            return False
        stored = type(self)._base_manager.filter(pk=self.pk).first()
        before = None if stored is None else (stored.account_addresses, stored.client_id)
        return before != (self.account_addresses, self.client_id)

    def _has_other_addresses(self) -> bool:
        stored = type(self)._base_manager.filter(pk=self.pk).first()
        return stored is not None and stored.account_addresses != self.account_addresses

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
    """What one user has of a secret of their own: the value that they entered, or the account that they connected."""

    secret = models.ForeignKey(Secret, models.CASCADE, verbose_name=_("secret"), related_name="entered")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="catalog_secrets"
    )
    value = models.TextField(_("value"), editable=False, blank=True)
    """Encrypted; "" for an account, whose tokens are in its `ConnectedAccount`."""
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
