"""What a person decides about a client: which toolsets it gets, and for how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from django import forms
from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from toolhub.access import hooks
from toolhub.access.forms import ToolsetsField
from toolhub.access.models import digest_of
from toolhub.oauth import progress, scopes
from toolhub.oauth.models import Client, ConnectedApp

EVERYTHING, SOME = "everything", "some"
DEFAULT_DAYS = 90


@dataclass(frozen=True, slots=True)
class Decision:
    """What the person allows."""

    scope: str
    destination: str
    question: str
    """Digest of the nonce of the page."""
    days: int
    toolsets: tuple[Any, ...] | None
    """None: everything that the person may use, now and later."""
    by_device: bool = False

    def create_connection(self, user: Any, client: Client, code_digest: str) -> ConnectedApp:
        """Store a pending connection, which the exchange of the code with this SHA-256 activates.

        Raises IntegrityError when the same page has been answered already, at the same time.
        """
        now = timezone.now()
        connection = ConnectedApp.objects.create(
            user=user,
            client=client,
            scope=self.scope,
            destination=self.destination,
            question=self.question,
            by_device=self.by_device,
            created=now,
            expires=now + timedelta(days=self.days),
            restricted=self.toolsets is not None,
            code_digest=code_digest,
        )
        if self.toolsets is not None:
            connection.toolsets.set(self.toolsets)
        progress.report_to_person("allowed", user.pk, str(client))
        return connection


MAX_APPS = 100
"""Maximum number of usable connections of one person."""


class ConsentForm(forms.Form):
    access = forms.ChoiceField(
        label=_("It may use"),
        choices=((EVERYTHING, _("Everything you have access to")), (SOME, _("Only the toolsets that you choose"))),
        initial=EVERYTHING,
        widget=forms.RadioSelect,
    )
    toolsets = ToolsetsField(label=_("Toolsets"), queryset=None, required=False)
    days = forms.TypedChoiceField(
        label=_("Connected for"),
        coerce=int,
        initial=DEFAULT_DAYS,
        choices=((1, _("1 day")), (7, _("7 days")), (30, _("30 days")), (90, _("90 days")), (365, _("1 year"))),
    )

    def __init__(self, *args: Any, toolset_ids: Iterable[int] = (), **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        ids = frozenset(toolset_ids)
        field = cast(ToolsetsField, self.fields["toolsets"])
        field.queryset = apps.get_model("catalog", "Toolset")._default_manager.filter(pk__in=ids)
        if not ids:
            del self.fields["access"], self.fields["toolsets"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("access") == SOME and not cleaned.get("toolsets") and "toolsets" not in self.errors:
            self.add_error("toolsets", ValidationError(_("Choose at least one toolset."), code="required"))
        return cleaned

    def decide(self, scope: str, destination: str, *, by_device: bool = False) -> Decision:
        """Return what the valid form says."""
        some = self.cleaned_data.get("access") == SOME
        return Decision(
            scope=scope,
            destination=destination,
            question=digest_of(str(self.data.get("nonce", ""))),
            by_device=by_device,
            days=self.cleaned_data["days"],
            toolsets=tuple(self.cleaned_data["toolsets"]) if some else None,
        )


def build_context(
    request: HttpRequest, client: Client, scope: str, form: ConsentForm | None, *, by_device: bool = False
) -> dict[str, Any]:
    """Return what every page that asks a person about a client shows."""
    user = cast(User, request.user)
    about = hooks.installed()
    progress.report_to_person("asked", user.pk, str(client))
    return {
        "form": form or ConsentForm(toolset_ids=about.toolsets_for(user.pk)),
        "client": client,
        "nothing": not about.has_any_access(user.pk),
        "replaced": ConnectedApp(user=user, client=client, by_device=by_device).find_earlier() is not None,
        "has_write_scope": settings.WRITE_SCOPE,
        "may_write": scopes.may_write(scope),
    }


def read_form(request: HttpRequest) -> ConsentForm:
    """Return the form that the person sent."""
    return ConsentForm(request.POST, toolset_ids=hooks.installed().toolsets_for(cast(User, request.user).pk))


def has_too_many_apps(request: HttpRequest) -> bool:
    return ConnectedApp.objects.usable().filter(user=cast(User, request.user)).count() >= MAX_APPS
