"""What an identity provider keeps here by provisioning (SCIM 2.0): its tokens, its users and its groups."""

from __future__ import annotations

import secrets
import uuid
from datetime import datetime, timedelta

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from toolhub import invisible
from toolhub.access.models import digest_of
from toolhub.identity.models import Identity, Provider

SCHEME = "thi_"
VISIBLE_PREFIX_CHARACTERS = len(SCHEME) + 4
ROTATION_HOURS = 24
"""Hours for which a token that was rotated still works, so that provisioning goes on meanwhile."""
MAX_TEXT_CHARACTERS = 255
MAX_KEY_CHARACTERS = 3 * MAX_TEXT_CHARACTERS
"""Folding the case of a letter makes up to three of it."""


def base_url() -> str:
    return f"{settings.PUBLIC_URL}/scim/v2"


def key_of(name: str) -> str:
    """Return what two spellings of a name that differ by case have in common, on every database."""
    return name.casefold()


class ScimTokenQuerySet(models.QuerySet["ScimToken"]):
    def usable(self, now: datetime | None = None) -> ScimTokenQuerySet:
        return self.filter(Q(expires=None) | Q(expires__gt=now or timezone.now()), revoked=None)

    def issue(self, provider: Provider) -> tuple[ScimToken, str]:
        """Create a token and return it with its text, which is available only here."""
        text = SCHEME + secrets.token_urlsafe(32)
        token = self.create(provider=provider, digest=digest_of(text), prefix=text[:VISIBLE_PREFIX_CHARACTERS])
        return token, text


class ScimToken(models.Model):
    """The credential with which an identity provider changes its users and groups here; only its SHA-256 is stored."""

    provider = models.ForeignKey(
        Provider, on_delete=models.CASCADE, related_name="scim_tokens", verbose_name=_("identity provider")
    )
    digest = models.CharField(_("digest"), max_length=64, unique=True, editable=False)
    prefix = models.CharField(_("starts with"), max_length=16, editable=False)
    created = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires = models.DateTimeField(_("expires"), null=True, editable=False)
    """None, unless it was rotated."""
    last_used = models.DateTimeField(_("last used"), null=True, editable=False)
    last_address = models.CharField(_("last used from"), max_length=64, blank=True, editable=False)
    revoked = models.DateTimeField(_("revoked"), null=True, editable=False)

    objects = ScimTokenQuerySet.as_manager()

    class Meta:
        ordering = ("-id",)
        verbose_name = _("provisioning token")
        verbose_name_plural = _("provisioning tokens")
        # Nobody but superusers: no permission that staff could hold opens the pages.
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.provider} ({self.prefix}…)"

    @property
    def is_expired(self) -> bool:
        return self.expires is not None and self.expires <= timezone.now()

    @property
    def is_usable(self) -> bool:
        return self.revoked is None and not self.is_expired

    def revoke(self) -> bool:
        """Revoke the token; return False if it was revoked before."""
        if self.revoked is not None:
            return False
        self.revoked = timezone.now()
        self.save(update_fields=["revoked"])
        return True

    def rotate(self) -> tuple[ScimToken, str]:
        """Create the next token, with its text; this one works for ROTATION_HOURS more, unless it ends earlier."""
        with transaction.atomic():
            ends = timezone.now() + timedelta(hours=ROTATION_HOURS)
            if self.expires is None or self.expires > ends:
                self.expires = ends
                self.save(update_fields=["expires"])
            return ScimToken.objects.issue(self.provider)


class ScimUser(models.Model):
    """A person as the identity provider describes them; the account here is that of the identity."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    provider = models.ForeignKey(
        Provider, on_delete=models.CASCADE, related_name="scim_users", verbose_name=_("identity provider")
    )
    identity = models.OneToOneField(
        Identity, on_delete=models.CASCADE, related_name="scim_user", verbose_name=_("identity")
    )
    user_name = models.CharField(_("user name there"), max_length=MAX_TEXT_CHARACTERS)
    user_name_key = models.CharField(max_length=MAX_KEY_CHARACTERS, editable=False)
    given_name = models.CharField(_("first name"), max_length=MAX_TEXT_CHARACTERS, blank=True)
    family_name = models.CharField(_("last name"), max_length=MAX_TEXT_CHARACTERS, blank=True)
    display_name = models.CharField(_("display name"), max_length=MAX_TEXT_CHARACTERS, blank=True)
    email = models.CharField(_("email address"), max_length=MAX_TEXT_CHARACTERS, blank=True)
    created = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    modified = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("provisioned user")
        verbose_name_plural = _("provisioned users")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["provider", "user_name_key"], name="scim_user_name"),
        ]
        indexes = [models.Index(fields=["provider", "created", "id"], name="scim_user_order")]

    def __str__(self) -> str:
        return self.user_name


class ScimGroup(models.Model):
    """A group of the identity provider. It gives nothing here until an administrator maps it (GroupMapping)."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    provider = models.ForeignKey(
        Provider, on_delete=models.CASCADE, related_name="scim_groups", verbose_name=_("identity provider")
    )
    external_id = models.CharField(_("ID there"), max_length=MAX_TEXT_CHARACTERS, blank=True)
    display_name = models.CharField(_("name there"), max_length=MAX_TEXT_CHARACTERS)
    display_name_key = models.CharField(_("name for comparison"), max_length=MAX_KEY_CHARACTERS, editable=False)
    members = models.ManyToManyField(ScimUser, blank=True, related_name="groups", verbose_name=_("members"))
    created = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    modified = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("provisioned group")
        verbose_name_plural = _("provisioned groups")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(fields=["provider", "display_name_key"], name="scim_group_name"),
            models.UniqueConstraint(
                fields=["provider", "external_id"], name="scim_group_external_id", condition=~Q(external_id="")
            ),
        ]
        indexes = [models.Index(fields=["provider", "created", "id"], name="scim_group_order")]

    def __str__(self) -> str:
        return invisible.show(self.display_name)
