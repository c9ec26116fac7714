"""Other MCP servers whose tools, resources and prompts are in the catalogue."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from audit.actions import actor
from catalog.models import private_networks, secret_flows
from catalog.models import validators as check
from catalog.models.fields import JSONTextField, check_kinds
from catalog.processes import allowlist
from catalog.querysets import CatalogueQuerySet
from catalog.runners.destinations import Flow
from catalog.runners.upstream_mcp import connection as reaching

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
PREFIX = re.compile(r"[A-Za-z0-9_.-]{0,40}")


def check_upstream_name(value: str) -> None:
    if not NAME.fullmatch(value):
        raise ValidationError(
            _(
                "A name has up to 40 lower-case letters, digits, underscores and hyphens. It starts with a "
                "letter or digit."
            ),
            code="invalid_name",
        )


def check_prefix(value: str) -> None:
    if not PREFIX.fullmatch(value):
        raise ValidationError(
            _("A prefix has up to 40 letters, digits, underscores, hyphens and dots."), code="invalid_prefix"
        )


OWN_SECRETS_ONLY = _("You can choose only your own personal secrets, or none.")


class Upstream(models.Model):
    class Transport(models.TextChoices):
        STREAMABLE_HTTP = "streamable_http", _("Streamable HTTP")
        SSE = "sse", _("SSE (older servers)")
        STDIO = "stdio", _("stdio: a program on this machine")

    class Separator(models.TextChoices):
        UNDERSCORE = "_", "_"
        DOUBLE = "__", "__"
        HYPHEN = "-", "-"
        DOT = ".", "."

    name = models.CharField(
        _("name"),
        max_length=40,
        unique=True,
        validators=[check_upstream_name],
        help_text=_("Tool settings refer to it by this name."),
    )
    transport = models.CharField(
        _("transport"), max_length=20, choices=Transport.choices, default=Transport.STREAMABLE_HTTP
    )
    url = models.CharField(
        _("URL"), max_length=2000, blank=True, help_text=_("For example https://mcp.example.com/mcp.")
    )
    command = models.CharField(
        _("command"),
        max_length=500,
        blank=True,
        help_text=_("For stdio: a program listed in TOOLHUB_COMMANDS. It runs as the server's own system user."),
    )
    args = JSONTextField(
        _("arguments"), default=list, blank=True, help_text=_('For stdio: a list such as ["server.js", "stdio"].')
    )
    env = JSONTextField(
        _("environment"),
        default=dict,
        blank=True,
        help_text=_(
            'For stdio: {"API_TOKEN": {"secret": "name"}}. The program gets no other variables from the '
            "server's environment."
        ),
    )
    headers = JSONTextField(
        _("headers"),
        default=dict,
        blank=True,
        help_text=_(
            'Headers sent with every request: {"Authorization": {"secret": "name", "prefix": "Bearer "}}. '
            "The caller's own token is never sent."
        ),
    )
    prefix = models.CharField(
        _("prefix"),
        max_length=40,
        blank=True,
        validators=[check_prefix],
        help_text=_("Added before the names of its tools and prompts."),
    )
    separator = models.CharField(_("separator"), max_length=2, choices=Separator.choices, default=Separator.UNDERSCORE)
    forward_meta = JSONTextField(
        _("forwarded metadata"),
        default=list,
        blank=True,
        help_text=_(
            'Keys of a caller\'s "_meta" that this server gets, such as ["tracestate", "baggage", "com.example/*"]. '
            '"traceparent" is always forwarded, and keys of the protocol never are.'
        ),
    )
    icons = models.BooleanField(
        _("icons"),
        default=False,
        help_text=_(
            "Keep the icons of its tools, resources and prompts. The icons that it lists when you turn this on are "
            "approved as they are; later changes need a review. Clients load icons from the addresses in them."
        ),
    )
    apps = models.BooleanField(
        _("apps"),
        default=False,
        help_text=_(
            "Keep its pages for MCP Apps (ui:// resources, and the links of tools to them). A client runs them in a "
            "sandbox. The content of a page is approved at its import; a changed one needs a review."
        ),
    )
    allowed_networks = JSONTextField(
        _("allowed networks"),
        default=list,
        blank=True,
        help_text=_(
            "Private networks that this upstream server may be in, as CIDR or CIDR:port. Example: "
            '["10.1.2.0/24:8080"]. TOOLHUB_ALLOW_PRIVATE_NETWORKS must include them. Empty: public addresses only.'
        ),
    )
    timeout = models.FloatField(
        _("timeout"),
        default=30.0,
        validators=[MinValueValidator(1), MaxValueValidator(600)],
        help_text=_("Time limit for connecting and for listing tools, in seconds."),
    )
    refresh_seconds = models.PositiveIntegerField(
        _("refresh seconds"),
        default=300,
        validators=[MinValueValidator(5), MaxValueValidator(604_800)],
        help_text=_("Interval for comparing its definitions with the approved ones, in seconds."),
    )
    secrets_of = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        verbose_name=_("user for personal secrets"),
        null=True,
        blank=True,
        related_name="+",
        help_text=_("The scheduled comparison uses this user's personal secrets if it needs any."),
    )
    enabled = models.BooleanField(
        _("enabled"),
        default=True,
        help_text=_("When off, its tools, resources and prompts are hidden from everyone and nothing connects to it."),
    )

    last_seen = models.DateTimeField(_("last seen"), null=True, blank=True, editable=False)
    last_error = models.CharField(_("last error"), max_length=1000, blank=True, default="", editable=False)
    revision = models.CharField(_("protocol version"), max_length=20, blank=True, default="", editable=False)
    server = models.CharField(_("server"), max_length=200, blank=True, default="", editable=False)
    new_tools = JSONTextField(_("new items"), default=list, blank=True, editable=False)
    """Names and addresses of the last listing that are not imported."""
    next_refresh = models.DateTimeField(_("next refresh"), null=True, blank=True, editable=False, db_index=True)
    """Also the lease: the process that postpones it makes the comparison."""

    objects = CatalogueQuerySet.as_manager()

    HEALTH_FIELDS = ("last_seen", "last_error", "revision", "server", "new_tools", "next_refresh")
    CONNECTION_FIELDS = (
        "transport",
        "url",
        "command",
        "args",
        "env",
        "headers",
        "allowed_networks",
        "timeout",
        "forward_meta",
        "icons",
        "apps",
    )

    class Meta:
        verbose_name = _("upstream server")
        verbose_name_plural = _("upstream servers")
        ordering = ["name"]
        permissions = [("open_private_networks", gettext_noop("Can open private networks to upstream servers"))]

    def __str__(self) -> str:
        return self.name

    def save(self, *args: Any, **options: Any) -> None:
        """Save the row.

        Raises PermissionDenied when the signed-in user may not save a server that runs programs, may not decide where
        its secrets go, may not open its private networks, or chose the personal secrets of somebody else.
        """
        if self.transport == self.Transport.STDIO and not check.may_use("command"):
            raise PermissionDenied(check.permission_refusal("command"))
        secret_flows.require_permission(self)
        private_networks.require_permission(self)
        if self._uses_secrets_of_another():
            raise PermissionDenied(OWN_SECRETS_ONLY)
        super().save(*args, **options)

    @property
    def origin(self) -> str:
        return f"upstream:{self.pk}"

    def connection_settings(self) -> dict[str, Any]:
        """Return the input of `catalog.runners.upstream_mcp.connection.parse`."""
        found = {name: getattr(self, name) for name in self.CONNECTION_FIELDS}
        return {"upstream": self.pk or 0, "name": self.name, **found}

    def connection(self) -> reaching.Connection:
        """Return the parsed connection. Raises ValueError with a sentence when the values are not valid."""
        return reaching.parse(self.connection_settings())

    def secret_flows(self) -> frozenset[Flow]:
        """Return where this connection sends secrets; none while its values are not valid."""
        try:
            return self.connection().flows()
        except ValueError:
            return frozenset()

    def _uses_secrets_of_another(self) -> bool:
        """Return whether the signed-in user newly chose the personal secrets of another user."""
        user = actor.current_user()
        if user is None or self.secrets_of_id in (None, user.pk):
            return False
        stored = Upstream._base_manager.filter(pk=self.pk).values_list("secrets_of_id", flat=True).first()
        return bool(stored != self.secrets_of_id)

    def clean(self) -> None:
        super().clean()
        check_kinds(self)
        try:
            self.connection()
        except ValueError as error:
            raise ValidationError(str(error), code="invalid_connection") from error
        if self._uses_secrets_of_another():
            raise ValidationError({"secrets_of": OWN_SECRETS_ONLY})
        secret_flows.check_upstream(self)
        private_networks.check_upstream(self)
        if self.transport == self.Transport.STDIO:
            if not check.may_use("command"):
                raise ValidationError({"transport": check.permission_refusal("command")})
            if self.enabled and (problem := allowlist.find_problem(self.command)):
                raise ValidationError(
                    {"command": _("%s Until you fix this, you can only save it switched off.") % problem}
                )
