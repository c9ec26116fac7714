"""Admin pages of the hash chain: checkpoints and the results of verifications."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from audit import local_time
from audit.admin import views
from audit.admin.base import ReadOnlyAdmin, column, label
from audit.integrity import messages, verifier
from audit.integrity.verification import is_genuine
from audit.models import Checkpoint, Verification
from toolhub import invisible


@admin.register(Checkpoint)
class CheckpointAdmin(ReadOnlyAdmin):
    list_display = ("checkpoint_number", "time", "key", "short_hash")
    has_plain_columns = True
    fields = ("checkpoint_number", "time", "heads", "previous", "hash", "key", "signature")
    readonly_fields = fields

    @column(_("Checkpoint"))
    def checkpoint_number(self, checkpoint: Checkpoint) -> str:
        return str(checkpoint.number)

    @column(local_time.add_zone(_("Time")))
    def time(self, checkpoint: Checkpoint) -> str:
        return local_time.format_time(checkpoint.at)

    @column(_("Hash"))
    def short_hash(self, checkpoint: Checkpoint) -> str:
        return checkpoint.hash[:16]


@admin.register(Verification)
class VerificationAdmin(ReadOnlyAdmin):
    list_display = ("time", "result", "short_problem", "through", "links", "uncovered", "external_checkpoint")
    has_plain_columns = True
    fields = ("time", "result", "full_problem", "through", "links", "uncovered", "checkpoint", "external_checkpoint")
    readonly_fields = fields
    list_before_template = "admin/audit/chain.html"

    def get_urls(self) -> list[URLPattern]:
        now = self.admin_site.admin_view(views.verify_now)
        urls: list[URLPattern] = super().get_urls()
        return [path("now/", now, {"model_admin": self}, name="audit_verification_now"), *urls]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {"chain": verifier.state()} | (extra_context or {})
        response: HttpResponse = super().changelist_view(request, context)
        return response

    @column(local_time.add_zone(_("Time")))
    def time(self, verification: Verification) -> str:
        return local_time.format_time(verification.at)

    @column(_("Result"))
    def result(self, verification: Verification) -> str:
        if not is_genuine(verification):
            return label("danger", gettext("not authentic"))
        return label("success", gettext("intact")) if verification.ok else label("danger", gettext("broken"))

    @column(_("Problem"))
    def short_problem(self, verification: Verification) -> str:
        return invisible.show(messages.sentence_of(verification)[:200])

    @column(_("Problem"))
    def full_problem(self, verification: Verification) -> str:
        return invisible.show(messages.sentence_of(verification))

    @column(_("External checkpoint"))
    def external_checkpoint(self, verification: Verification) -> str:
        return gettext("yes") if verification.outside_head else gettext("no")
