"""`/secrets/`: the personal secrets that the user's tools need. Entered, replaced, removed, and never shown again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from catalog.encryption import KeysError
from catalog.models import PersonalSecret, Secret
from catalog.secrets import resolve
from catalog.secrets.resolve import check_value
from catalog.views.tools import title_of, visible_to


@dataclass(slots=True)
class Card:
    secret: Secret
    tools: list[str] = field(default_factory=list)
    """The titles of the tools that need it."""
    mine: PersonalSecret | None = None


class ValueForm(forms.Form):
    """A write-only form: the entered value is never sent back, not even with an error."""

    value = forms.CharField(
        label=gettext_lazy("Value"),
        max_length=8192,
        widget=forms.PasswordInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        validators=[check_value],
        error_messages={
            "required": gettext_lazy("Enter the value."),
            "max_length": gettext_lazy("The value is too long. Enter at most 8,192 characters."),
        },
    )


def _cards(user: User) -> dict[str, Card]:
    """Return the secrets that the user's tools need, and those entered for tools that the user had before."""
    wanted: dict[str, list[str]] = {}
    for tool, _rule in visible_to(user).tools.values():
        for name in resolve.names_of(tool):
            wanted.setdefault(name, []).append(title_of(tool))
    mine = {row.secret_id: row for row in PersonalSecret.objects.filter(user=user)}
    found = {}
    for secret in Secret.objects.filter(kind=Secret.Kind.PERSONAL):
        if secret.name in wanted or secret.pk in mine:
            found[secret.name] = Card(secret, wanted.get(secret.name, []), mine.get(secret.pk))
    return found


@login_required
@never_cache
@require_safe
def listing(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    cards = sorted(_cards(user).values(), key=lambda card: (card.mine is not None, card.secret.name))
    return render(request, "catalog/secrets.html", {"section": "secrets", "cards": cards})


@login_required
@never_cache
@sensitive_post_parameters("value")
@sensitive_variables("form", "value")
@require_POST
def enter(request: HttpRequest, name: str) -> HttpResponse:
    user = cast(User, request.user)
    card = _cards(user).get(name)
    if card is None or not card.tools:
        raise Http404
    form = ValueForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors["value"])))
        return redirect("catalog:secrets")
    with transaction.atomic():
        row = card.mine or PersonalSecret(secret=card.secret, user=user)
        try:
            row.enter(form.cleaned_data["value"])
        except KeysError:
            messages.error(
                request, _("Secrets cannot be saved yet. Ask your administrator to set up TOOLHUB_ENCRYPTION_KEYS.")
            )
            return redirect("catalog:secrets")
        row.save()
    messages.success(request, _("“%s” was saved. Your tools use it from now on.") % name)
    return redirect("catalog:secrets")


@login_required
@never_cache
@require_POST
def remove(request: HttpRequest, name: str) -> HttpResponse:
    with transaction.atomic():
        row = PersonalSecret.objects.filter(user=cast(User, request.user), secret__name=name).first()
        if row is None:
            raise Http404
        row.delete()
    messages.success(request, _("“%s” was removed.") % name)
    return redirect("catalog:secrets")
