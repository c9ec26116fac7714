"""Identity providers, the identities of people at them, and the groups that a provider gives here.

An identity is the pair of an issuer and a subject, which the issuer never gives to another person. Mail addresses and
names identify nobody: they change hands.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog import encryption


class Provider(models.Model):
    """Where people sign in: an OpenID Connect or SAML provider, or GitHub."""

    class Kind(models.TextChoices):
        OPENID = "openid_connect", "OpenID Connect"
        GITHUB = "github", "GitHub"
        SAML = "saml", "SAML"

    class NewPeople(models.TextChoices):
        EVERYONE = "everyone", _("Everyone who can sign in there gets an account")
        MAPPED = "mapped", _("People in a mapped group get an account")
        NOBODY = "nobody", _("Nobody gets an account by signing in")

    slug = models.SlugField(
        _("short name"), max_length=40, unique=True, help_text=_("Part of the redirect address. It cannot change.")
    )
    name = models.CharField(_("name"), max_length=100, help_text=_("People see it on the sign-in page."))
    kind = models.CharField(_("type"), max_length=20, choices=Kind, default=Kind.OPENID)
    enabled = models.BooleanField(
        _("on"), default=False, help_text=_("When off, nobody can sign in with it, and sign-ins lapse.")
    )
    issuer = models.CharField(
        _("issuer"),
        max_length=500,
        blank=True,
        help_text=_("OpenID Connect: its address, for example https://login.example.com. SAML: its entity ID."),
    )
    client_id = models.CharField(_("client ID"), max_length=255, blank=True)
    client_secret = models.TextField(_("client secret"), blank=True, editable=False)
    scopes = models.CharField(
        _("scopes"),
        max_length=500,
        blank=True,
        help_text=_("Separated by spaces. Add offline_access if your provider issues refresh tokens only for it."),
    )
    subject_claim = models.CharField(
        _("subject claim"),
        max_length=200,
        default="sub",
        help_text=_("The claim that identifies a person for ever: sub, or oid with Entra. Never a mail address."),
    )
    groups_claim = models.CharField(
        _("groups claim"), max_length=200, default="groups", blank=True, help_text=_("The claim that lists groups.")
    )
    new_people = models.CharField(_("new people"), max_length=10, choices=NewPeople, default=NewPeople.MAPPED)
    check_minutes = models.PositiveIntegerField(
        _("check every (minutes)"),
        default=15,
        validators=[MinValueValidator(1), MaxValueValidator(10_080)],
        help_text=_("How often the provider is asked whether a person may still sign in, and for their groups."),
    )
    lapse_hours = models.PositiveIntegerField(
        _("lapses after (hours)"),
        default=24,
        validators=[MinValueValidator(1), MaxValueValidator(8_760)],
        help_text=_("A person whom the provider did not confirm for so long has to sign in again."),
    )
    accepts_assertions = models.BooleanField(
        _("accepts assertions"),
        default=False,
        help_text=_(
            "When on, this provider connects people to the clients below, with signed assertions (ID-JAG)."
            " Nobody is asked."
        ),
    )
    assertion_clients: models.ManyToManyField[Any, Any] = models.ManyToManyField(
        settings.OAUTH2_PROVIDER_APPLICATION_MODEL,
        blank=True,
        related_name="+",
        limit_choices_to={"registration_source": "manual", "client_type": "confidential"},
        verbose_name=_("clients"),
        help_text=_("Confidential clients that an administrator added. No others are accepted."),
    )
    metadata = models.TextField(_("SAML metadata"), blank=True, help_text=_("The XML document of your provider."))
    from_environment = models.BooleanField(_("from the environment"), default=False, editable=False)
    created = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        default_permissions = ("view",)
        verbose_name = _("identity provider")
        verbose_name_plural = _("identity providers")
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def actor_name(self) -> str:
        """The name under which the audit log has what follows from this provider."""
        return f"identity provider {self.name}"

    @property
    def secret_owner(self) -> str:
        return f"provider:{self.slug}"

    def set_secret(self, secret: str) -> None:
        self.client_secret = encryption.encrypt(secret, self.secret_owner) if secret else ""

    def read_secret(self) -> str:
        """Return the secret of our client. Raises DecryptionError, KeysError."""
        if self.from_environment:
            return str(settings.OIDC_CLIENT_SECRET)
        return encryption.decrypt(self.client_secret, self.secret_owner) if self.client_secret else ""


class GroupMapping(models.Model):
    """A group at a provider whose members are in a group here, while they are in that one."""

    provider = models.ForeignKey(
        Provider, on_delete=models.CASCADE, related_name="mappings", verbose_name=_("identity provider")
    )
    value = models.CharField(
        _("group there"), max_length=255, help_text=_("As the groups claim spells it: a name, or an ID with Entra.")
    )
    group = models.ForeignKey("auth.Group", on_delete=models.CASCADE, related_name="+", verbose_name=_("group here"))
    staff = models.BooleanField(
        _("staff"), default=False, help_text=_("Its members can open the administration, with the group's permissions.")
    )

    class Meta:
        default_permissions = ("view",)
        verbose_name = _("group mapping")
        verbose_name_plural = _("group mappings")
        constraints = [
            models.UniqueConstraint(fields=["provider", "value", "group"], name="identity_mapping_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.value} → {self.group}"


class Identity(models.Model):
    """A person's account at a provider; `user` signs in with it."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities", verbose_name=_("user")
    )
    provider = models.ForeignKey(
        Provider, on_delete=models.PROTECT, related_name="identities", verbose_name=_("identity provider")
    )
    issuer = models.CharField(_("issuer"), max_length=500)
    subject = models.CharField(_("subject"), max_length=255)
    label = models.CharField(_("name there"), max_length=255, blank=True)
    linked_by_owner = models.BooleanField(_("linked by its owner"), default=False)
    """Whether the person added it to an account that they had before; nobody else decided it, so they may remove it."""
    claimed_groups = models.JSONField(_("groups of the last sign-in"), default=list)
    """The groups that the provider named at the last sign-in or check: strings."""
    provisioned_groups = models.JSONField(_("provisioned groups"), default=list)
    """The groups in which the provider put the person by provisioning: strings, ids and names."""
    provisioned = models.BooleanField(_("provisioned"), null=True, default=None)
    """Whether provisioning says that the person may sign in; None: it says nothing."""
    given = models.JSONField(_("groups given"), default=list)
    """What this identity gives its user now: primary keys of groups, and "staff"."""
    refresh_token = models.TextField(_("refresh token"), blank=True, editable=False)
    created = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    last_sign_in = models.DateTimeField(_("last sign-in"), null=True)
    checked = models.DateTimeField(_("last check"), null=True)
    """When the provider was last asked, or is being asked: one process at a time."""
    valid_until = models.DateTimeField(_("lapses"), null=True)
    """When the sign-in lapses unless the provider confirms it; None: the person has not signed in yet."""

    class Meta:
        default_permissions = ("view",)
        verbose_name = _("identity")
        verbose_name_plural = _("identities")
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="identity_issuer_subject"),
        ]
        indexes = [models.Index(fields=["valid_until"], name="identity_valid_until")]

    def __str__(self) -> str:
        return f"{self.label or self.subject} ({self.provider})"

    @property
    def groups(self) -> set[str]:
        """The groups at the provider, if this is still the provider that named them."""
        if self.issuer != self.provider.issuer:
            return set()
        return {*_texts(self.claimed_groups), *_texts(self.provisioned_groups)}

    @property
    def token_owner(self) -> str:
        return f"identity:{self.pk}"

    def set_refresh_token(self, token: str) -> None:
        """Keep the provider's token encrypted for this identity, which must have been saved."""
        self.refresh_token = encryption.encrypt(token, self.token_owner) if token else ""

    def read_refresh_token(self) -> str:
        """Return the provider's token, or "". Raises DecryptionError, KeysError."""
        return encryption.decrypt(self.refresh_token, self.token_owner) if self.refresh_token else ""


class Deactivation(models.Model):
    """Why an account is not active: its identity ended. A deactivation by an administrator has no such row."""

    class Reason(models.TextChoices):
        REFUSED = "refused", _("The identity provider no longer lets this person sign in")
        LAPSED = "lapsed", _("The sign-in lapsed")
        REMOVED = "removed", _("Provisioning deactivated this person")

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="deactivation",
        verbose_name=_("user"),
    )
    reason = models.CharField(_("reason"), max_length=10, choices=Reason)
    at = models.DateTimeField(_("at"), default=timezone.now)

    class Meta:
        verbose_name = _("deactivation")
        verbose_name_plural = _("deactivations")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.user}: {self.get_reason_display()}"


def _texts(values: object) -> Iterable[str]:
    return [one for one in values if isinstance(one, str)] if isinstance(values, list) else []
