"""State that outlives a connection: tasks, and results too large to send."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from catalog.models.fields import JSONTextField


class Task(models.Model):
    """A call that continues without its connection. The id is the call's id; only its user's tokens can reach it."""

    class Status(models.TextChoices):
        WORKING = "working", _("working")
        INPUT_REQUIRED = "input_required", _("Input required")
        COMPLETED = "completed", _("completed")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("Cancelled")

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="catalog_tasks"
    )
    credential = models.CharField(_("credential"), max_length=100)
    tool = models.CharField(_("tool"), max_length=128)
    toolset_ids = JSONTextField(_("toolsets at the time of the call"), null=True, blank=True, editable=False)
    """Ids; None in rows from before the column. A token restricted to other toolsets does not reach the row."""
    status = models.CharField(_("status"), max_length=20, choices=Status.choices, default=Status.WORKING)
    status_message = models.TextField(_("status message"), blank=True)
    result = JSONTextField(_("result"), null=True, blank=True)
    error = JSONTextField(_("error"), null=True, blank=True)
    input_requests = JSONTextField(_("input requests"), default=dict, blank=True)
    input_responses = JSONTextField(_("input responses"), default=dict, blank=True)
    cancel_requested = models.BooleanField(_("cancel requested"), default=False)
    worker = models.CharField(_("worker"), max_length=100, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    updated_at = models.DateTimeField(_("updated at"), auto_now=True)
    ttl_ms = models.BigIntegerField(_("retention (ms)"), null=True, blank=True)
    expires_at = models.DateTimeField(_("expires at"), null=True, blank=True, db_index=True)

    class Meta:
        verbose_name = _("task")
        verbose_name_plural = _("tasks")
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["status", "worker"], name="task_by_worker"),
            models.Index(fields=["user", "-created_at"], name="task_by_user"),
        ]

    def __str__(self) -> str:
        return f"{self.tool} {self.id} {self.status}"


class StoredResult(models.Model):
    """A result that an answer links to, readable by the same user until it expires."""

    id = models.UUIDField(_("id"), primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, verbose_name=_("user"), related_name="catalog_results"
    )
    call_id = models.UUIDField(_("call id"), null=True, blank=True)
    name = models.CharField(_("name"), max_length=200, blank=True)
    toolset_ids = JSONTextField(_("toolsets at the time of the call"), null=True, blank=True, editable=False)
    """Ids; None in rows from before the column. A token restricted to other toolsets does not reach the row."""
    mime_type = models.CharField(_("MIME type"), max_length=100, blank=True)
    is_text = models.BooleanField(_("is text"), default=True)
    body = models.BinaryField(_("body"))
    size = models.BigIntegerField(_("size"), default=0)
    removed = models.BooleanField(_("removed for newer results"), default=False)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    expires_at = models.DateTimeField(_("expires at"), db_index=True)

    class Meta:
        verbose_name = _("stored result")
        verbose_name_plural = _("stored results")
        ordering = ["-created_at"]
        indexes = [
            # Sizes are counted from this index alone, without a look at the bodies.
            models.Index(fields=["user", "created_at", "id", "size", "removed"], name="stored_result_size"),
        ]

    def __str__(self) -> str:
        return f"{self.mime_type} {self.id}".strip()
