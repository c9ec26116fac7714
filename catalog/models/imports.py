"""OpenAPI documents that tools were made from, and batches: what one import made."""

from __future__ import annotations

import zlib
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from catalog.models.base import CatalogueItem
from catalog.models.fields import JSONTextField
from catalog.models.items import Prompt, Resource
from catalog.models.tools import Tool
from catalog.querysets import CatalogueQuerySet


class ImportedDocument(models.Model):
    """An import: its document, source, time, user and choices. Its tools refer to it in `Tool.origin`."""

    name = models.CharField(_("name"), max_length=200, unique=True, help_text=_("Exports refer to it by this name."))
    title = models.CharField(_("title"), max_length=200)
    document_version = models.CharField(
        _("version"), max_length=100, blank=True, help_text=_("The version stated in the document.")
    )
    source = models.CharField(
        _("source"), max_length=2000, help_text=_("The address, or the name of the uploaded file.")
    )
    sha256 = models.CharField(
        _("SHA-256"), max_length=64, blank=True, help_text=_("SHA-256 of the most recently imported document.")
    )
    choices = JSONTextField(
        _("choices"),
        default=dict,
        blank=True,
        help_text=_("Choices made at import: server, secrets by security scheme, name prefix, toolset."),
    )
    imported_at = models.DateTimeField(_("imported at"), null=True, blank=True)
    imported_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        verbose_name=_("imported by"),
        null=True,
        blank=True,
        related_name="catalog_imports",
    )
    pending = models.TextField(_("pending"), blank=True, default="", editable=False)
    """The document that is under review and was not imported yet."""
    pending_source = models.CharField(_("pending source"), max_length=2000, blank=True, default="", editable=False)
    pending_at = models.DateTimeField(_("pending since"), null=True, blank=True, editable=False, db_index=True)
    draft = models.BooleanField(_("draft"), default=False, editable=False)
    """Whether it was only previewed so far: nobody imported it, and no file of a catalogue named it."""
    kept = models.BinaryField(_("kept document"), blank=True, default=b"", editable=False)
    """The document as it was imported last, as UTF-8 compressed with zlib; empty where none was kept."""

    objects = CatalogueQuerySet.as_manager()

    class Meta:
        verbose_name_plural = _("OpenAPI documents")
        verbose_name = _("OpenAPI document")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def text(self) -> str:
        """Return the document to import: the one that is under review, else the one that was imported last."""
        return self.pending or self.kept_text

    @property
    def text_source(self) -> str:
        """Return where that document came from."""
        return self.pending_source or self.source

    @property
    def kept_text(self) -> str:
        """Return the document as it was imported last; empty where none was kept."""
        return zlib.decompress(bytes(self.kept)).decode() if self.kept else ""

    def keep(self, text: str) -> None:
        """Keep this text as the document that was imported last; the caller saves the row."""
        self.kept = zlib.compress(text.encode())

    @property
    def origin(self) -> str:
        """Return the value of `Tool.origin` for the tools made from it."""
        return f"openapi:{self.pk}"


class ImportBatch(models.Model):
    """One import that made tools, resources or prompts. Written by `catalog.import_batches` only."""

    class Source(models.TextChoices):
        UPSTREAM = "upstream", _("upstream server")
        OPENAPI = "openapi", _("OpenAPI document")
        FILE = "file", _("catalogue file")

    kind = models.CharField(_("kind"), max_length=10, choices=Source.choices)
    source = models.CharField(_("source"), max_length=300)
    """The name of the upstream server, document or file."""
    made_at = models.DateTimeField(_("made at"), default=timezone.now, db_index=True)
    made_by = models.CharField(_("made by"), max_length=200)
    """The name of the user, or of the command."""
    number = models.PositiveIntegerField(_("number"), default=0)
    """How many items it made."""
    undone_at = models.DateTimeField(_("undone at"), null=True, blank=True)

    class Meta:
        verbose_name = _("import")
        verbose_name_plural = _("imports")
        default_permissions = ()
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.source


class ImportedItem(models.Model):
    """One item that an import made, and a digest of it, which tells whether it changed since."""

    ITEM_FIELDS: ClassVar = ("tool", "resource", "prompt")

    batch = models.ForeignKey(ImportBatch, models.CASCADE, related_name="items", verbose_name=_("import"))
    tool = models.OneToOneField(
        Tool, models.CASCADE, null=True, blank=True, related_name="imported", verbose_name=_("tool")
    )
    resource = models.OneToOneField(
        Resource, models.CASCADE, null=True, blank=True, related_name="imported", verbose_name=_("resource")
    )
    prompt = models.OneToOneField(
        Prompt, models.CASCADE, null=True, blank=True, related_name="imported", verbose_name=_("prompt")
    )
    digest = models.CharField(_("digest"), max_length=64, editable=False)

    class Meta:
        verbose_name = _("imported item")
        verbose_name_plural = _("imported items")
        default_permissions = ()
        constraints: ClassVar = [
            models.CheckConstraint(
                name="one_imported_item",
                condition=Q(tool__isnull=False, resource__isnull=True, prompt__isnull=True)
                | Q(tool__isnull=True, resource__isnull=False, prompt__isnull=True)
                | Q(tool__isnull=True, resource__isnull=True, prompt__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return str(self.item)

    @property
    def item(self) -> CatalogueItem:
        found: CatalogueItem = next(row for row in (self.tool, self.resource, self.prompt) if row is not None)
        return found
