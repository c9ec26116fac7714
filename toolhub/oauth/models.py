"""Clients that sign in with OAuth, and the connections that people gave them.

django-oauth-toolkit keeps codes, access tokens and refresh tokens, all as SHA-256. A `ConnectedApp` is what a person
decided: which client, which toolsets, for how long. It has one id for as long as it lasts, whatever tokens come and go;
revoking it revokes them.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop
from oauth2_provider.models import (
    AbstractApplication,
    ApplicationManager,
    get_access_token_model,
    get_refresh_token_model,
)

from audit.actions import actor
from toolhub.access.credential_changes import notify
from toolhub.oauth import redirects

LIBRARY_TEXTS = (
    *(gettext_noop("Client ID Metadata Document"), gettext_noop("Dynamic Client Registration"), gettext_noop("Manual")),
    *(gettext_noop("CIMD expires at"), gettext_noop("algorithm"), gettext_noop("allowed origins")),
    *(gettext_noop("authorization grant type"), gettext_noop("client ID"), gettext_noop("client secret")),
    *(gettext_noop("client type"),),
    *(gettext_noop("hash client secret"), gettext_noop("post logout redirect URIs"), gettext_noop("redirect URIs")),
    *(gettext_noop("registration source"), gettext_noop("skip authorization"), gettext_noop("updated")),
    *(gettext_noop("Allowed URIs list, space separated"), gettext_noop("Confidential"), gettext_noop("Public")),
)
"""Texts of the library's own client, which it has in few languages."""


class Client(AbstractApplication):  # type: ignore[misc]
    """An AI client that people can connect: it registered itself, has a document at its own address, or was added."""

    trusted = models.BooleanField(
        _("trusted"), default=False, help_text=_("People see that you know this client when they connect it.")
    )
    blocked = models.BooleanField(
        _("blocked"), default=False, help_text=_("When on, nobody can connect it, and its connections are rejected.")
    )
    auth_method = models.CharField(_("authentication"), max_length=32, default="none", editable=False)
    """How it authenticates at the token endpoint, as registered."""
    for_devices = models.BooleanField(
        _("for devices"), default=False, help_text=_("It can also be connected with a code that a terminal shows.")
    )
    registered_from = models.CharField(_("registered from"), max_length=64, blank=True, editable=False)
    last_used = models.DateTimeField(_("last used"), null=True, editable=False)

    objects = ApplicationManager()

    class Meta(AbstractApplication.Meta):  # type: ignore[misc]
        verbose_name = _("client")
        verbose_name_plural = _("clients")

    def __str__(self) -> str:
        return self.name or self.document_host or str(self.client_id)

    @property
    def document_host(self) -> str:
        """The host of the client's own document, which proves who it is; "" for a client that only says so."""
        if self.registration_source != self.RegistrationSource.CIMD:
            return ""
        return urlsplit(self.client_id).netloc

    @property
    def redirects(self) -> list[str]:
        return str(self.redirect_uris).split()

    @property
    def may_bring_assertions(self) -> bool:
        """Whether it can be listed at an identity provider: nobody can register such a client by themselves."""
        kind = (self.registration_source, self.client_type)
        return kind == (self.RegistrationSource.MANUAL, self.CLIENT_CONFIDENTIAL)

    def get_absolute_url(self) -> str:
        return ""

    def is_usable(self, request: Any) -> bool:
        return not self.blocked

    def allows_grant_type(self, *grant_types: str) -> bool:
        own = {self.authorization_grant_type} | ({self.GRANT_DEVICE_CODE} if self.for_devices else set())
        return bool(own & set(grant_types))

    def redirect_uri_allowed(self, uri: str) -> bool:
        """Return whether an answer may be sent there: as registered, and a port of the own computer may differ."""
        return not redirects.find_problem(uri) and bool(super().redirect_uri_allowed(uri))


class ConnectedAppQuerySet(models.QuerySet["ConnectedApp"]):
    def usable(self, now: datetime | None = None) -> ConnectedAppQuerySet:
        return self.filter(
            activated__isnull=False,
            revoked=None,
            expires__gt=now or timezone.now(),
            user__is_active=True,
            client__blocked=False,
        )


def lock_connections(app: ConnectedApp) -> ConnectedApp | None:
    """Lock all connections of the same person and client, in one order, and return this one as it is now.

    In a transaction; None when it is gone. Only these rows: the client has those of other people, too.
    """
    both = ConnectedApp.objects.filter(user=app.user_id, client=app.client_id).order_by("pk")
    rows = both.select_related("client", "user").select_for_update(of=("self",))
    return next((row for row in rows if row.pk == app.pk), None)


class ConnectedApp(models.Model):
    """A client that a person connected; pending until the client has exchanged its code for tokens."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="connected_apps", verbose_name=_("user")
    )
    client = models.ForeignKey(Client, on_delete=models.CASCADE, related_name="connections", verbose_name=_("client"))
    family = models.UUIDField(_("token family"), unique=True, default=uuid.uuid4, editable=False)
    """The `token_family` of all its refresh tokens."""
    scope = models.CharField(_("scope"), max_length=200, editable=False)
    restricted = models.BooleanField(_("only some toolsets"), default=False)
    toolsets = models.ManyToManyField("catalog.Toolset", blank=True, related_name="+", verbose_name=_("toolsets"))
    destination = models.CharField(_("answers go to"), max_length=300, editable=False)
    """Host or scheme of the redirect address."""
    created = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    activated = models.DateTimeField(_("connected"), null=True, editable=False)
    expires = models.DateTimeField(_("expires"))
    last_used = models.DateTimeField(_("last used"), null=True, editable=False)
    last_address = models.CharField(_("last used from"), max_length=64, blank=True, editable=False)
    revoked = models.DateTimeField(_("revoked"), null=True, editable=False)

    identity = models.BigIntegerField(_("identity"), null=True, editable=False)
    """Primary key of the identity whose provider asserted the person to the client; None: the person decided."""
    by_device = models.BooleanField(_("by a device code"), default=False, editable=False)
    question = models.CharField(_("digest of the page"), max_length=64, unique=True, editable=False)
    """SHA-256 of the nonce of the page on which the person decided: two answers are one decision."""
    code_digest = models.CharField(_("digest of the code"), max_length=64, unique=True, editable=False)
    """SHA-256 of its code: who sends that again shows that it was stolen."""
    rotated = models.DateTimeField(_("refreshed"), null=True, editable=False)
    previous_digest = models.CharField(
        _("digest of the previous refresh token"), max_length=64, blank=True, editable=False
    )
    """SHA-256 of the refresh token that was exchanged last."""
    successor = models.TextField(_("encrypted answer"), blank=True, editable=False)
    """The answer to that exchange, readable only with that token: see `toolhub.oauth.rotation`."""

    objects = ConnectedAppQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        verbose_name = _("connected app")
        verbose_name_plural = _("connected apps")
        indexes = [models.Index(fields=["user", "-id"], name="connected_app_user")]

    def __str__(self) -> str:
        return str(self.client)

    @property
    def credential_id(self) -> str:
        return f"app:{self.pk}"

    @property
    def is_expired(self) -> bool:
        return self.expires <= timezone.now()

    @property
    def is_usable(self) -> bool:
        return self.activated is not None and self.revoked is None and not self.is_expired

    @property
    def fetched(self) -> datetime:
        """When its client exchanged the code; a connection that another one took over has the time of that."""
        return self.activated or self.created

    def find_earlier(self) -> ConnectedApp | None:
        """Return the usable connection that this one replaces.

        A client that registered itself is one installation, which asks again for more scopes, or because it lost its
        tokens. A client with a document, or one that an administrator added, has the same id on every computer, so its
        connections stay side by side. So do those by a device code, which somebody else may have started.
        """
        if self.by_device or self.client.registration_source != Client.RegistrationSource.DCR:
            return None
        return ConnectedApp.objects.usable().filter(user=self.user, client=self.client).exclude(pk=self.pk).first()

    def activate(self) -> ConnectedApp:
        """Make it usable, now that its client has fetched it; the caller holds `lock_connections` for it.

        An earlier connection of the same installation takes over what the person decided now, and keeps its id: its
        sessions go on. Its tokens from before are no longer valid, and its streams have to connect again.
        """
        earlier = self.find_earlier()
        if earlier is None:
            self.activated = timezone.now()
            self.save(update_fields=["activated"])
            return self
        toolsets = list(self.toolsets.all())
        earlier.delete_tokens()
        for name in ("family", "scope", "restricted", "destination", "expires", "code_digest", "question", "created"):
            setattr(earlier, name, getattr(self, name))
        earlier.activated = timezone.now()
        earlier.rotated, earlier.previous_digest, earlier.successor = None, "", ""
        # It is the person's decision, although a client without one fetches it.
        with actor.override(self.user.get_username(), self.user_id):
            self.delete()
            earlier.save()
            earlier.toolsets.set(toolsets)
        notify(credentials=(earlier.credential_id,), superseded=True)
        return earlier

    def delete_tokens(self) -> None:
        refresh_tokens = get_refresh_token_model().objects.filter(token_family=self.family)
        get_access_token_model().objects.filter(refresh_token__in=refresh_tokens).delete()
        refresh_tokens.delete()

    def revoke(self) -> bool:
        """Revoke it with all its tokens; return False if it was revoked before. Caches forget it after the commit."""
        with transaction.atomic():
            locked = lock_connections(self)
            if locked is None or locked.revoked is not None:
                return False
            self.family = locked.family
            self.revoked = timezone.now()
            self.successor = ""
            self.save(update_fields=["revoked", "successor"])
            refresh_tokens = get_refresh_token_model().objects.filter(token_family=self.family)
            get_access_token_model().objects.filter(refresh_token__in=refresh_tokens).delete()
            refresh_tokens.filter(revoked=None).update(revoked=self.revoked)
        return True

    def reconnect(self) -> bool:
        """Let assertions of its identity provider connect it again; return False if that was not forbidden."""
        with transaction.atomic():
            locked = lock_connections(self)
            if locked is None or locked.revoked is None or locked.identity is None:
                return False
            self.revoked = None
            self.save(update_fields=["revoked"])
        return True


class DeviceRequest(models.Model):
    """A program without a browser that waits for a person to enter its code elsewhere (RFC 8628)."""

    client = models.ForeignKey(Client, on_delete=models.CASCADE, related_name="+", verbose_name=_("client"))
    device_digest = models.CharField(max_length=64, unique=True, editable=False)
    user_code = models.CharField(max_length=16, unique=True, editable=False)
    """As stored: without the hyphen that people see."""
    scope = models.CharField(max_length=200, editable=False)
    address = models.CharField(max_length=64, editable=False)
    """Where the program is, for the person who decides."""
    expires = models.DateTimeField()
    interval = models.PositiveSmallIntegerField(default=5)
    """Seconds between two of its questions."""
    polled = models.DateTimeField(null=True)
    denied = models.BooleanField(default=False)
    connection = models.OneToOneField(ConnectedApp, on_delete=models.CASCADE, null=True, related_name="+")
    """What the person decided, once they have."""

    class Meta:
        verbose_name = _("device request")
        verbose_name_plural = _("device requests")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.client} ({self.address})"


class UsedAssertion(models.Model):
    """An assertion of an identity provider that a client has exchanged: it is good for one token."""

    digest = models.CharField(max_length=64, unique=True, editable=False)
    """SHA-256 of its issuer and its `jti`."""
    expires = models.DateTimeField(db_index=True, editable=False)
    """When it is refused for its age."""

    class Meta:
        verbose_name = _("used assertion")
        verbose_name_plural = _("used assertions")
        default_permissions = ()

    def __str__(self) -> str:
        return self.digest
