"""`/secrets/`: the accounts and personal secrets that the user's tools need, and where each of them may be sent.

A value is entered, replaced and removed, and never shown again; an account is connected (`catalog.views.accounts`) and
disconnected. Both are sent only to destinations that their owner allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST, require_safe

from catalog.accounts import flow
from catalog.accounts.requests import host_of
from catalog.encryption import KeysError
from catalog.models import ConnectedAccount, PersonalSecret, Secret, Upstream
from catalog.policy.definitions import Item, ToolDefinition
from catalog.policy.rules import Visible
from catalog.runners.destinations import Destination, by_secret
from catalog.secrets import resolve
from catalog.secrets.resolve import check_value
from catalog.views.tools import title_of, visible_to
from toolhub import contact
from toolhub.invisible import show


@dataclass(slots=True)
class Receiver:
    """One destination of a secret on the page."""

    key: str
    label: str
    users: list[str] = field(default_factory=list)
    """What sends the secret there: the titles of tools, and upstream servers. Empty: nothing does now."""
    allowed: bool = False
    blocked: bool = False
    """Whether the hosts that the secret is bound to do not include it."""

    @property
    def waits(self) -> bool:
        """Whether the owner can allow it and has not."""
        return bool(self.users) and not self.allowed and not self.blocked


@dataclass(slots=True)
class Card:
    secret: Secret
    receivers: dict[str, Receiver] = field(default_factory=dict)
    """By key: where the user's tools send it, and where the user allowed it to be sent before."""
    mine: PersonalSecret | None = None

    @property
    def is_used(self) -> bool:
        return any(receiver.users for receiver in self.receivers.values())

    @property
    def account(self) -> ConnectedAccount | None:
        """The connected account, also one that has to be connected again; None for a secret of another kind."""
        return getattr(self.mine, "account", None)

    @property
    def is_account(self) -> bool:
        return self.secret.kind == Secret.Kind.ACCOUNT

    @property
    def server(self) -> str:
        """The host of the authorization server of the account, for people."""
        return host_of(self.account.issuer) if self.account is not None else ""

    @property
    def hosts(self) -> tuple[str, str] | None:
        """Where people sign in, and where their tokens come from, as an administrator entered it; None: discovered."""
        if not self.secret.token_endpoint:
            return None
        return host_of(self.secret.authorization_endpoint), host_of(self.secret.token_endpoint)

    @property
    def is_there(self) -> bool:
        """Whether the user entered the value, or connected the account."""
        return self.account is not None and self.account.is_usable if self.is_account else self.mine is not None

    @property
    def waits(self) -> bool:
        """Whether there is something for the user to do."""
        return not self.is_there or any(receiver.waits for receiver in self.receivers.values())

    def current(self) -> list[Receiver]:
        """Return the destinations that the user can allow now."""
        return [receiver for receiver in self.receivers.values() if receiver.users and not receiver.blocked]


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


def _items(visible: Visible) -> Iterator[Item]:
    """Yield the tools, resources and prompts that a person may use."""
    for found in (visible.tools, visible.resources, visible.templates, visible.prompts):
        yield from (item for item, _rule in found.values())


def _uses(user: User) -> Iterator[tuple[str, Destination, str]]:
    """Yield (secret, destination, what sends it there) for what a user may use, and what staff test."""
    for item in _items(visible_to(user)):
        for name, destinations in resolve.sent_by(item).items():
            for destination in destinations:
                yield name, destination, title_of(item) if isinstance(item, ToolDefinition) else item.title or item.name
    # The scheduled comparison uses the secrets of one user; a test, those of the staff member.
    may_test = user.is_staff and user.has_perm("catalog.change_upstream")
    for upstream in Upstream.objects.all() if may_test else Upstream.objects.filter(Q(secrets_of=user)):
        for name, destinations in by_secret(upstream.secret_flows()).items():
            for destination in destinations:
                yield name, destination, _("upstream server %s") % upstream.name


def find_cards(user: User) -> dict[str, Card]:
    """Return the secrets that the user's tools need, and those entered for tools that the user had before."""
    wanted: dict[str, dict[str, Receiver]] = {}
    seen: dict[str, Destination] = {}
    for name, destination, what in _uses(user):
        seen[destination.key] = destination
        receiver = wanted.setdefault(name, {}).setdefault(destination.key, Receiver(destination.key, destination.label))
        receiver.users.append(show(what))
    rows = PersonalSecret.objects.filter(user=user).select_related("account", "secret")
    mine = {row.secret_id: row for row in rows}
    found = {}
    for secret in Secret.objects.filter(kind__in=Secret.OWN_KINDS):
        if secret.name not in wanted and secret.pk not in mine:
            continue
        card = found[secret.name] = Card(secret, wanted.get(secret.name, {}), mine.get(secret.pk))
        for receiver in card.receivers.values():
            receiver.blocked = not secret.allows(seen[receiver.key])
        for key, label in (card.mine.destinations if card.mine is not None else {}).items():
            card.receivers.setdefault(key, Receiver(key, show(str(label)))).allowed = True
    return found


@login_required
@never_cache
@require_safe
def listing(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    cards = sorted(find_cards(user).values(), key=lambda card: (not card.waits, card.is_there, card.secret.name))
    return render(request, "catalog/secrets.html", {"section": "secrets", "cards": cards})


@login_required
@never_cache
@sensitive_post_parameters("value")
@sensitive_variables("form", "value")
@require_POST
def enter(request: HttpRequest, name: str) -> HttpResponse:
    """Store the value and allow the destinations that the page of the form showed, as far as they still exist."""
    user = cast(User, request.user)
    card = find_cards(user).get(name)
    if card is None or not card.is_used or card.secret.kind != Secret.Kind.PERSONAL:
        raise Http404
    form = ValueForm(request.POST)
    if not form.is_valid():
        messages.error(request, " ".join(map(str, form.errors["value"])))
        return redirect("catalog:secrets")
    shown = set(request.POST.getlist("destination"))
    with transaction.atomic():
        row = card.mine or PersonalSecret(secret=card.secret, user=user)
        try:
            row.enter(form.cleaned_data["value"])
        except KeysError:
            messages.error(
                request,
                contact.fill(_("Secrets cannot be saved yet. Ask %(contact)s to set up TOOLHUB_ENCRYPTION_KEYS.")).html,
            )
            return redirect("catalog:secrets")
        row.destinations = {receiver.key: receiver.label for receiver in card.current() if receiver.key in shown}
        row.save()
    messages.success(request, _("“%s” was saved. Your tools use it from now on.") % name)
    if any(receiver.key not in row.destinations for receiver in card.current()):
        messages.warning(request, _("There are destinations that you have not allowed yet. Review them below."))
    return redirect("catalog:secrets")


@login_required
@never_cache
@require_POST
def decide(request: HttpRequest, name: str) -> HttpResponse:
    """Allow one destination of an entered secret (`allow`, its key), or withdraw one (`withdraw`)."""
    user = cast(User, request.user)
    with transaction.atomic():
        row = PersonalSecret.objects.select_for_update().filter(user=user, secret__name=name).first()
        if row is None:
            raise Http404
        allowed = dict(row.destinations)
        if "allow" in request.POST:
            card, key = find_cards(user).get(name), request.POST["allow"]
            label = next((one.label for one in card.current() if one.key == key), None) if card is not None else None
            text = _("“%(name)s” may now be sent to %(destination)s.")
            allowed[key] = label
        else:
            label = allowed.pop(request.POST.get("withdraw", ""), None)
            text = _("“%(name)s” is no longer sent to %(destination)s.")
        if label is None:
            messages.error(request, _("This destination changed in the meantime. Review the page again."))
            return redirect("catalog:secrets")
        row.destinations = allowed
        row.save()
    messages.success(request, text % {"name": name, "destination": show(str(label))})
    return redirect("catalog:secrets")


@login_required
@never_cache
@require_POST
def remove(request: HttpRequest, name: str) -> HttpResponse:
    row = (
        PersonalSecret.objects.filter(user=cast(User, request.user), secret__name=name).select_related("secret").first()
    )
    if row is None:
        raise Http404
    if row.secret.kind != Secret.Kind.ACCOUNT:
        row.delete()
        messages.success(request, _("“%s” was removed.") % name)
    elif flow.disconnect(row):
        messages.success(request, _("“%s” is disconnected, and the service revoked its tokens.") % name)
    else:
        text = _(
            "“%s” is disconnected. The service did not confirm that its tokens are revoked: remove the access there."
        )
        messages.warning(request, text % name)
    return redirect("catalog:secrets")
