"""Resources and prompts: the other two kinds of items in a catalogue."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from catalog.models import app_pages
from catalog.models import validators as check
from catalog.models.base import CatalogueItem, check_described, check_name, check_named, check_size, check_unlike
from catalog.models.fields import JSONTextField
from catalog.models.tools import Toolset


class Resource(CatalogueItem):
    name = models.CharField(_("name"), max_length=200, validators=[check_named])
    enabled = models.BooleanField(
        _("enabled"), default=True, help_text=_("When off, the resource is hidden from everyone.")
    )
    description = models.TextField(_("description"), blank=True, validators=[check_size])
    uri = models.CharField(
        _("address"),
        max_length=500,
        blank=True,
        validators=[check.uri],
        help_text=_("For example docs://handbook. Enter either an address or an address template."),
    )
    uri_template = models.CharField(
        _("address template"),
        max_length=500,
        blank=True,
        validators=[check.uri_template],
        help_text=_("RFC 6570 level 1, such as customers://{id}/notes. A function returns the content."),
    )
    mime_type = models.CharField(_("MIME type"), max_length=100, blank=True, validators=[check.mime_type])
    text = models.TextField(  # noqa: DJ001 - an empty text is content, too
        _("text"), null=True, blank=True, help_text=_("The content, if it is text.")
    )
    blob = models.TextField(  # noqa: DJ001 - NULL says that the content is text
        _("blob"),
        null=True,
        blank=True,
        validators=[check.blob],
        help_text=_("The content in Base64, if it is not text."),
    )
    function = models.CharField(
        _("function"),
        max_length=200,
        blank=True,
        help_text=_("The registered function that returns the content when a client reads the resource."),
    )
    upstream = models.CharField(
        _("upstream server"),
        max_length=40,
        blank=True,
        help_text=_("The upstream server that has the content. Usually imported on the page of the upstream server."),
    )
    source = models.CharField(
        _("address at its source"),
        max_length=500,
        blank=True,
        help_text=_("The address, or address template, that the upstream server knows."),
    )
    annotations = JSONTextField(
        _("annotations"),
        default=dict,
        blank=True,
        validators=[check.resource_annotations],
        help_text=_('Whom the content is for: {"audience": ["user", "assistant"], "priority": 0.5}.'),
    )
    app = JSONTextField(
        _("app"),
        null=True,
        blank=True,
        validators=[app_pages.check_resource],
        help_text=_(
            "For a page of MCP Apps (ui://): the hosts that it may reach and the permissions that it asks for, such as "
            '{"csp": {"connectDomains": ["https://api.example.com"]}}. A client shows it in a sandbox.'
        ),
    )
    completions = JSONTextField(
        _("completions"),
        default=dict,
        blank=True,
        validators=[check.completions],
        help_text=_('Suggested values for the variables of a template: {"id": ["north", "south"]}.'),
    )
    toolsets = models.ManyToManyField(Toolset, verbose_name=_("toolsets"), blank=True, related_name="resources")

    history = HistoricalRecords(m2m_fields=[toolsets], excluded_fields=list(CatalogueItem.NOT_IN_HISTORY))

    class Meta:
        verbose_name = _("resource")
        verbose_name_plural = _("resources")
        ordering = ["position", "name", "uri"]
        constraints = [
            models.UniqueConstraint(fields=["uri"], condition=~Q(uri=""), name="resource_uri_is_unique"),
            models.UniqueConstraint(
                fields=["uri_template"], condition=~Q(uri_template=""), name="resource_template_is_unique"
            ),
            models.CheckConstraint(
                condition=(Q(uri="") & ~Q(uri_template="")) | (~Q(uri="") & Q(uri_template="")),
                name="resource_has_one_address",
                violation_error_message=_("Give either an address or an address template."),
            ),
            models.CheckConstraint(
                condition=(
                    # A page of an upstream server is kept as it was approved, so that it has a text and an upstream.
                    Q(text__isnull=False, blob__isnull=True, function="")
                    | Q(text__isnull=True, blob__isnull=False, function="")
                    | (Q(text__isnull=True, blob__isnull=True, upstream="") & ~Q(function=""))
                    | (Q(text__isnull=True, blob__isnull=True, function="") & ~Q(upstream=""))
                ),
                name="resource_has_one_content",
                violation_error_message=_("Give exactly one of text, blob, function and upstream server."),
            ),
        ]

    def __str__(self) -> str:
        return self.uri or self.uri_template or self.name

    def clean(self) -> None:
        super().clean()
        check.resource(self)


class Prompt(CatalogueItem):
    name = models.CharField(_("name"), max_length=128, unique=True, validators=[check_name])
    enabled = models.BooleanField(
        _("enabled"), default=True, help_text=_("When off, the prompt is hidden from everyone.")
    )
    description = models.TextField(
        _("description"),
        validators=[check_described],
        help_text=_("The purpose of the prompt. People choose a prompt by its description."),
    )
    arguments = JSONTextField(
        _("arguments"),
        default=list,
        blank=True,
        validators=[check.prompt_arguments],
        help_text=_('A list such as [{"name": "city", "description": "...", "required": true, "enum": ["Bern"]}].'),
    )
    messages = JSONTextField(
        _("messages"),
        default=list,
        blank=True,
        validators=[check.prompt_messages],
        help_text=_(
            'A list such as [{"role": "user", "content": {"type": "text", "text": "Weather in {city}?"}}]. '
            "{name} stands for the argument of that name."
        ),
    )
    function = models.CharField(
        _("function"),
        max_length=200,
        blank=True,
        help_text=_("The registered function that returns the messages. It replaces the list of messages."),
    )
    upstream = models.CharField(
        _("upstream server"),
        max_length=40,
        blank=True,
        help_text=_("The upstream server that has the messages. Usually imported on the page of the upstream server."),
    )
    source = models.CharField(
        _("name at its source"),
        max_length=1000,
        blank=True,
        help_text=_("The prompt's name on the upstream server."),
    )
    toolsets = models.ManyToManyField(Toolset, verbose_name=_("toolsets"), blank=True, related_name="prompts")

    history = HistoricalRecords(m2m_fields=[toolsets], excluded_fields=list(CatalogueItem.NOT_IN_HISTORY))

    class Meta:
        verbose_name = _("prompt")
        verbose_name_plural = _("prompts")
        ordering = ["position", "name"]
        indexes = [models.Index(Lower("name"), name="prompt_by_lower_name")]
        constraints = [models.CheckConstraint(condition=~Q(description=""), name="prompt_is_described")]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        super().clean()
        check_unlike(self, self.name)
        check.prompt(self)
