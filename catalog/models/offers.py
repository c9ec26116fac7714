"""Resources and prompts: the other two things a catalogue offers."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from catalog.models import validators as check
from catalog.models.base import Offer, check_name, check_not_blank
from catalog.models.fields import JSONTextField
from catalog.models.tools import Toolset


class Resource(Offer):
    name = models.CharField(max_length=200, validators=[check_not_blank])
    description = models.TextField(blank=True)
    uri = models.CharField(
        _("address"),
        max_length=500,
        blank=True,
        validators=[check.uri],
        help_text=_("Such as docs://handbook. Either this or a template."),
    )
    uri_template = models.CharField(
        _("address template"),
        max_length=500,
        blank=True,
        validators=[check.uri_template],
        help_text=_("RFC 6570 level 1, such as customers://{id}/notes. A function answers it."),
    )
    mime_type = models.CharField(_("MIME type"), max_length=100, blank=True, validators=[check.mime_type])
    text = models.TextField(null=True, blank=True, help_text=_("The content, when it is text."))  # noqa: DJ001 - empty is content
    blob = models.TextField(  # noqa: DJ001 - empty is content
        null=True, blank=True, validators=[check.blob], help_text=_("The content in Base64, when it is not text.")
    )
    function = models.CharField(
        max_length=200, blank=True, help_text=_("The registered function that makes the content when it is read.")
    )
    completions = JSONTextField(
        default=dict,
        blank=True,
        validators=[check.completions],
        help_text=_('Values to suggest for the variables of a template: {"id": ["north", "south"]}.'),
    )
    toolsets = models.ManyToManyField(Toolset, blank=True, related_name="resources")

    history = HistoricalRecords(m2m_fields=[toolsets], excluded_fields=["version"])

    class Meta:
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
                    Q(text__isnull=False, blob__isnull=True, function="")
                    | Q(text__isnull=True, blob__isnull=False, function="")
                    | (Q(text__isnull=True, blob__isnull=True) & ~Q(function=""))
                ),
                name="resource_has_one_content",
                violation_error_message=_("Give exactly one of text, blob and function."),
            ),
        ]

    def __str__(self) -> str:
        return self.uri or self.uri_template or self.name

    def clean(self) -> None:
        super().clean()
        check.resource(self)


class Prompt(Offer):
    name = models.CharField(max_length=128, unique=True, validators=[check_name])
    description = models.TextField(
        validators=[check_not_blank], help_text=_("What the prompt is for; people choose by this.")
    )
    arguments = JSONTextField(
        default=list,
        blank=True,
        validators=[check.prompt_arguments],
        help_text=_('A list such as [{"name": "city", "description": "...", "required": true, "enum": ["Bern"]}].'),
    )
    messages = JSONTextField(
        default=list,
        blank=True,
        validators=[check.prompt_messages],
        help_text=_(
            'A list such as [{"role": "user", "content": {"type": "text", "text": "Weather in {city}?"}}]; '
            "{name} stands for the argument of that name."
        ),
    )
    function = models.CharField(
        max_length=200, blank=True, help_text=_("The registered function that makes the messages instead.")
    )
    toolsets = models.ManyToManyField(Toolset, blank=True, related_name="prompts")

    history = HistoricalRecords(m2m_fields=[toolsets], excluded_fields=["version"])

    class Meta:
        ordering = ["position", "name"]
        constraints = [models.CheckConstraint(condition=~Q(description=""), name="prompt_is_described")]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        super().clean()
        check.prompt(self)
