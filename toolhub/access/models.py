"""Personal access tokens: only the SHA-256 of a token is stored, and its text is shown once, when it is created.

Rotating a token creates another one, which replaces it: see `toolhub.access.rotation`.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from toolhub import invisible

SCHEME = "thp_"
DEFAULT_DAYS, MAX_DAYS = 90, 3650
VISIBLE_PREFIX_CHARACTERS = len(SCHEME) + 4
"""Number of readable characters of a token, so that its owner can tell which one a client holds."""
MAX_NAME_CHARACTERS, MAX_ADDRESS_CHARACTERS = 100, 64
_MISLEADING = re.compile(f"[\t\n\ud800-\udfff{invisible.MISLEADING_CHARACTERS}]")


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def check_name(name: str) -> None:
    """Raise ValidationError for the name of a token that cannot be read, or that reads like another one."""
    if _MISLEADING.search(name) or not invisible.remove(name).strip():
        raise ValidationError(_("Use visible characters in the name, and no control characters."), code="invisible")


class AccessTokenQuerySet(models.QuerySet["AccessToken"]):
    def usable(self, now: datetime | None = None) -> AccessTokenQuerySet:
        return self.filter(revoked=None, expires__gt=now or timezone.now(), user__is_active=True)

    def issue(
        self,
        user: Any,
        name: str,
        *,
        days: int = DEFAULT_DAYS,
        lifetime: timedelta | None = None,
        toolsets: Iterable[Any] | None = None,
        made_by_owner: bool = True,
        maker_id: int | None = None,
        client_key: str = "",
        replaces: AccessToken | None = None,
    ) -> tuple[AccessToken, str]:
        """Create a token and return it with its text, which is available only here.

        It is valid for `lifetime`, or without one for so many `days`. `toolsets` restricts the token; with None it
        reaches everything that the user may use. With `made_by_owner` False it never uses the user's personal secrets.
        `maker_id` is the other user who made it, and cannot approve its calls under "four eyes".
        """
        text = SCHEME + secrets.token_urlsafe(32)
        now = timezone.now()
        with transaction.atomic():
            token = self.create(
                user=user,
                name=name,
                digest=digest_of(text),
                prefix=text[:VISIBLE_PREFIX_CHARACTERS],
                created=now,
                expires=now + (timedelta(days=days) if lifetime is None else lifetime),
                restricted=toolsets is not None,
                made_by_owner=made_by_owner,
                maker_id=None if made_by_owner else maker_id,
                client_key=client_key,
                replaces=replaces,
            )
            if toolsets is not None:
                token.toolsets.set(toolsets)
        return token, text


class AccessToken(models.Model):
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="access_tokens", verbose_name=_("user")
    )
    name = models.CharField(
        _("name"),
        max_length=MAX_NAME_CHARACTERS,
        validators=[check_name],
        help_text=_("The client or machine that uses the token."),
    )
    digest = models.CharField(_("digest"), max_length=64, unique=True, editable=False)
    prefix = models.CharField(_("starts with"), max_length=16, editable=False)
    created = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires = models.DateTimeField(_("expires"))
    last_used = models.DateTimeField(_("last used"), null=True, editable=False)
    last_address = models.CharField(_("last used from"), max_length=MAX_ADDRESS_CHARACTERS, blank=True, editable=False)
    revoked = models.DateTimeField(_("revoked"), null=True, editable=False)
    restricted = models.BooleanField(
        _("only some toolsets"),
        default=False,
        help_text=_("When on, the token can use only the toolsets below. With no toolset, it has no access."),
    )
    made_by_owner = models.BooleanField(
        _("created by its owner"),
        default=True,
        editable=False,
        help_text=_("A token that somebody else created never uses the personal secrets of its owner."),
    )
    maker = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        verbose_name=_("created by"),
    )
    """The other user who created it; None for its owner, and for a token that a command created."""
    client_key = models.CharField(_("created for"), max_length=32, blank=True, editable=False)
    """The client of the Connect page that it was created for, whatever its name is now; empty: for none of them."""
    replaces = models.OneToOneField(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="successor",
        verbose_name=_("replaces"),
    )
    """The token that this one was created for by rotating it: a token has one successor at most."""
    # `restricted` decides, not the presence of toolsets: deleting the last one must not open a token to everything.
    toolsets = models.ManyToManyField("catalog.Toolset", blank=True, related_name="+", verbose_name=_("toolsets"))

    objects = AccessTokenQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        verbose_name = _("access token")
        verbose_name_plural = _("access tokens")
        indexes = [models.Index(fields=["user", "-id"], name="access_token_user")]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def credential_id(self) -> str:
        return f"token:{self.pk}"

    @property
    def is_expired(self) -> bool:
        return self.expires <= timezone.now()

    @property
    def is_usable(self) -> bool:
        return self.revoked is None and not self.is_expired

    @property
    def is_replaced(self) -> bool:
        """Whether it was rotated; asks the database unless the successor was selected with it."""
        return hasattr(self, "successor")

    def revoke(self) -> bool:
        """Revoke the token; return False if it was revoked before. Caches forget it after the commit."""
        if self.revoked is not None:
            return False
        self.revoked = timezone.now()
        self.save(update_fields=["revoked"])
        return True


class TemporaryPassword(models.Model):
    """A password that another person set for this account: its owner has to choose one at the next sign-in."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="+",
        verbose_name=_("user"),
    )
    by = models.CharField(_("set by"), max_length=150)
    at = models.DateTimeField(_("set at"), auto_now=True)

    class Meta:
        verbose_name = _("temporary password")
        verbose_name_plural = _("temporary passwords")

    def __str__(self) -> str:
        return str(self.user)


class ServingProcess(models.Model):
    """A process that serves clients, with the clients connected to it, as reported by itself a few seconds ago."""

    id = models.CharField(_("id"), primary_key=True, max_length=32)
    """The name of the process among the workers; a new one with every start."""
    host = models.CharField(_("host"), max_length=200)
    pid = models.BigIntegerField(_("pid"))
    started = models.DateTimeField(_("started"))
    beat = models.DateTimeField(_("beat"))
    """The time of the last report. A process without recent reports is gone, and so are its connections."""
    peers = models.TextField(_("peers"))
    """JSON: see `toolhub.server.presence`."""
    left_out = models.PositiveIntegerField(_("left out"), default=0)
    """Number of connected clients that `peers` does not list."""
    jobs = models.TextField(_("background jobs"), default="", blank=True)
    """JSON: see `toolhub.server.presence`."""
    edge = models.TextField(_("edge"), default="", blank=True)
    """JSON: its connections and what its bounds refused; see `toolhub.server.presence`."""
    orders = models.TextField(_("orders"), default="", blank=True)
    """JSON: the keys of the clients to disconnect, for a process that notifications do not reach."""

    class Meta:
        verbose_name = _("serving process")
        verbose_name_plural = _("serving processes")
        ordering = ("started", "id")
        default_permissions = ()
        permissions = (
            ("view_connections", gettext_noop("Can see who is connected")),
            ("disconnect_client", gettext_noop("Can disconnect clients")),
        )

    def __str__(self) -> str:
        return f"{self.id} ({self.host}, {self.pid})"


class Preference(models.Model):
    """The page settings of a user; an empty one means the browser's own."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="preference",
        verbose_name=_("user"),
    )
    language = models.CharField(_("language"), max_length=16, blank=True)
    time_zone = models.CharField(_("time zone"), max_length=64, blank=True)
    checklist_hidden = models.BooleanField(_("checklist hidden"), default=False)
    """Whether the person hid the next steps on Overview."""

    class Meta:
        verbose_name = _("preference")
        verbose_name_plural = _("preferences")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.user_id}: {self.language} {self.time_zone}".rstrip()
