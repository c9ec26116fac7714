"""Accounts that people connected at other services: their tokens are encrypted here, and shown nowhere."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db import models
from django.utils.translation import gettext_lazy as _

from catalog import encryption
from catalog.models.secrets import PersonalSecret
from catalog.querysets import CatalogueQuerySet


@dataclass(frozen=True, slots=True)
class Client:
    """The client that this server is for an authorization server."""

    client_id: str
    client_secret: str = field(default="", repr=False)
    method: str = "none"
    """How it authenticates at the token endpoint: none, client_secret_basic or client_secret_post."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one account, the client that they were issued to, and where they are refreshed and revoked.

    The addresses are part of what is encrypted: whoever can write to the table cannot have the tokens sent elsewhere.
    """

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    """ "" where the service issued none."""
    client: Client
    token_endpoint: str
    revocation_endpoint: str = ""


class ConnectedAccount(models.Model):
    """The tokens of a connected account, and where they came from."""

    entry = models.OneToOneField(
        PersonalSecret, models.CASCADE, primary_key=True, related_name="account", verbose_name=_("personal secret")
    )
    issuer = models.CharField(_("issuer"), max_length=2000)
    """The authorization server for people; its token endpoint where it has no metadata."""
    resource = models.CharField(_("resource"), max_length=2000, blank=True)
    client_id = models.CharField(_("client ID"), max_length=2000)
    scope = models.TextField(_("scope"), blank=True)
    addresses = models.CharField(_("addresses"), max_length=64, editable=False)
    """Digest of the addresses of the secret at that time: with others, the account has to be connected again."""
    connected_at = models.DateTimeField(_("connected"))
    tokens = models.TextField(_("tokens"), editable=False, blank=True)
    """Encrypted; "" when the service no longer accepts them."""
    expires_at = models.DateTimeField(_("access token expires"), null=True, editable=False)
    """None: the service did not say."""
    version = models.PositiveIntegerField(default=1, editable=False)
    """Raised with every change of the tokens: nobody overwrites what another process stored meanwhile."""
    refreshing_until = models.DateTimeField(null=True, editable=False)
    """The lease of the process that refreshes the tokens: services revoke a refresh token that comes twice."""

    objects = CatalogueQuerySet.as_manager()

    class Meta:
        verbose_name = _("connected account")
        verbose_name_plural = _("connected accounts")
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.entry)

    @property
    def owner(self) -> str:
        return f"account {self.entry.secret.name} of user {self.entry.user_id}"

    @property
    def is_usable(self) -> bool:
        """Whether there are tokens, of the service that the secret is for now: another one must not get them."""
        return bool(self.tokens) and self.addresses == self.entry.secret.addresses_digest

    def store(self, tokens: Tokens) -> None:
        """Encrypt the tokens; the caller saves them."""
        self.tokens = encryption.encrypt(json.dumps(asdict(tokens)), self.owner)

    def read(self) -> Tokens:
        """Return the tokens. Raises DecryptionError, KeysError."""
        found: dict[str, Any] = json.loads(encryption.decrypt(self.tokens, self.owner))
        return Tokens(**{**found, "client": Client(**found["client"])})
