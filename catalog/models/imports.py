"""OpenAPI documents that tools were made from."""

from __future__ import annotations

import zlib

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from catalog.models.fields import JSONTextField
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
