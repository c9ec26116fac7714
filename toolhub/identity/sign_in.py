"""The end of a sign-in at an identity provider: who it is here, what they get, or why not.

The library has checked the flow (state, PKCE, tokens). `finish` decides about the account: an identity is known by its
issuer and subject alone, an account is never found by its name or mail address, and only a signed-in person links one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from allauth.socialaccount.providers.base.constants import AuthError
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _

from audit.actions import actor, log
from catalog.encryption import KeysError
from toolhub.access import temporary_passwords
from toolhub.access.sign_in import complete, find_first_page
from toolhub.identity import accounts, github, groups, openid, providers, saml
from toolhub.identity.models import Identity, Provider
from toolhub.identity.people import ClaimsError, Person

logger = logging.getLogger(__name__)

LOGIN, LINK, TEST = "login", "link", "test"
"""What a sign-in is for: the state of the flow says so, which is kept in the session that began it."""
TEST_RESULT = "identity_test"


class Refusal(Exception):
    """An error for a sign-in that ends without an account; `code` names the reason for the page and the log."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Arrival:
    """A person who comes back from a provider."""

    provider: Provider
    person: Person
    refresh_token: str


def finish(request: HttpRequest, found: Any) -> HttpResponse:
    """Answer the request with which a person comes back from a provider; `found` is the library's login."""
    state = found.state
    slug = found.provider.app.provider_id
    provider = providers.find(slug)
    purpose = state.get("process")
    try:
        if provider is None or (not provider.enabled and purpose != TEST):
            raise Refusal("off")
        arrival = _read(provider, found)
        if purpose == TEST:
            return _finish_test(request, arrival, found)
        if purpose == LINK:
            return _finish_link(request, arrival, state)
        identity = find_or_create(arrival)
        return _sign_in(request, identity, state)
    except ClaimsError as error:
        return refuse(request, slug, error.code, error.claim)
    except KeysError as error:  # there is no key to encrypt the provider's token with
        return fail(request, slug, None, error, None)
    except Refusal as refusal:
        return refuse(request, slug, refusal.code, refusal.detail)


def _read(provider: Provider, found: Any) -> Arrival:
    """Return who came back. Raises ClaimsError, Refusal."""
    claims = found.account.extra_data
    if provider.kind == Provider.Kind.OPENID:
        if claims.get("nonce") != found.state.get("nonce"):
            raise Refusal("nonce")
        token = found.token.token_secret
        return Arrival(provider, openid.read_person(provider, claims), token if isinstance(token, str) else "")
    if provider.kind == Provider.Kind.SAML:
        return Arrival(provider, saml.read_person(provider, claims), "")
    return Arrival(provider, github.read_person(claims), found.token.token)


def find_or_create(arrival: Arrival) -> Identity:
    """Return the identity of a person, with a new account if the provider may make one. Raises Refusal."""
    identity = _find(arrival)
    if identity is None:
        _check_may_have_account(arrival.provider, arrival.person)
        try:
            identity = _create(arrival)
        except IntegrityError:  # the same person in another window
            identity = _find(arrival)
            if identity is None:
                raise
    confirm(identity, arrival.person, arrival.refresh_token)
    return identity


def _find(arrival: Arrival) -> Identity | None:
    """Return the identity of a person who was here before. Raises Refusal."""
    identity = Identity.objects.filter(issuer=arrival.provider.issuer, subject=arrival.person.subject).first()
    if identity is not None and identity.provider_id != arrival.provider.pk:
        raise Refusal("other_provider")
    return identity


def _create(arrival: Arrival) -> Identity:
    """Return the identity of a person who is new, with an account. Raises IntegrityError."""
    provider, person = arrival.provider, arrival.person
    wanted = person.username.partition("@")[0] or person.email.partition("@")[0]
    with transaction.atomic():
        user = accounts.create(
            provider, wanted, email=person.email, first_name=person.first_name, last_name=person.last_name
        )
        with actor.override(provider.actor_name):
            return Identity.objects.create(
                user=user,
                provider=provider,
                issuer=provider.issuer,
                subject=person.subject,
                label=person.label,
                claimed_groups=list(person.groups),
            )


def _check_may_have_account(provider: Provider, person: Person) -> None:
    if provider.new_people == Provider.NewPeople.NOBODY:
        raise Refusal("not_invited", person.label)
    if provider.new_people == Provider.NewPeople.MAPPED and not groups.has_mapped_group(provider, set(person.groups)):
        raise Refusal("no_mapped_group", person.label)


def confirm(identity: Identity, person: Person, refresh_token: str) -> None:
    """Store what the provider says now about a person, and bring their groups in line. Raises Refusal."""
    by = identity.provider.actor_name
    with transaction.atomic(), actor.override(by):
        # Whoever ends or provisions this identity at the same time is waited for, and counts.
        User.objects.select_for_update().filter(pk=identity.user_id).first()
        stored = Identity.objects.filter(pk=identity.pk).first()
        if stored is None or stored.provisioned is False:
            raise Refusal("removed", identity.label)
        identity.provisioned, identity.valid_until = stored.provisioned, stored.valid_until
        if not accounts.may_reactivate(identity):
            raise Refusal("other_ended", identity.label)
        if not accounts.reactivate(identity.user_id, by):
            raise Refusal("inactive", identity.label)
        identity.label = person.label
        identity.claimed_groups = list(person.groups)
        identity.set_refresh_token(refresh_token)
        identity.checked = timezone.now()
        accounts.extend(identity)
        identity.save(update_fields=["label", "claimed_groups", "refresh_token", "checked", "valid_until"])
        groups.apply(identity.user_id)


def _sign_in(request: HttpRequest, identity: Identity, state: dict[str, Any]) -> HttpResponse:
    Identity.objects.filter(pk=identity.pk).update(last_sign_in=timezone.now())
    user = User.objects.get(pk=identity.user_id)
    complete(request, user, f"provider:{identity.provider.slug}")
    # That is for sessions that begin with such a password.
    request.session.pop(temporary_passwords.SESSION_KEY, None)
    target = str(state.get("next") or "")
    if target and url_has_allowed_host_and_scheme(target, allowed_hosts=None):
        return HttpResponseRedirect(target)
    return redirect(find_first_page(user))


def _finish_link(request: HttpRequest, arrival: Arrival, state: dict[str, Any]) -> HttpResponse:
    """Add the identity to the account of the person who began this, if they still are the one signed in."""
    owner = request.user
    if not owner.is_authenticated or state.get("data") != {"user": owner.pk}:
        raise Refusal("other_session")
    person, provider = arrival.person, arrival.provider
    known = _find(arrival)
    if known is not None and known.user_id != owner.pk:
        raise Refusal("linked_elsewhere", person.label)
    if known is None:
        try:
            with transaction.atomic():
                known = Identity.objects.create(
                    user=owner,
                    provider=provider,
                    issuer=provider.issuer,
                    subject=person.subject,
                    label=person.label,
                    linked_by_owner=True,
                )
        except IntegrityError:
            raise Refusal("linked_elsewhere", person.label) from None
    confirm(known, person, arrival.refresh_token)
    messages.success(request, _("You can now sign in with %(name)s.") % {"name": provider.name})
    return redirect("access:account")


def _finish_test(request: HttpRequest, arrival: Arrival, found: Any) -> HttpResponse:
    """Keep what the provider said for the page of the administrator who tests it; nobody signs in."""
    user = request.user
    if not (user.is_authenticated and user.is_superuser) or found.state.get("data") != {"user": user.pk}:
        raise Refusal("other_session")
    person = arrival.person
    request.session[TEST_RESULT] = {
        "provider": arrival.provider.pk,
        "subject": person.subject,
        "username": person.username,
        "email": person.email,
        "groups": list(person.groups),
        "renews": bool(arrival.refresh_token),
        "claims": sorted(str(name) for name in _find_claims(arrival.provider, found.account.extra_data))[:100],
    }
    return redirect(reverse("admin:identity_provider_tested", args=[arrival.provider.pk]))


def _find_claims(provider: Provider, claims: dict[str, Any]) -> list[str]:
    """Return the names of what the provider claims."""
    if provider.kind != Provider.Kind.SAML:
        return list(claims)
    return (
        [f"NameID ({claims['name_id_format']})", *claims["attributes"]]
        if claims["name_id"]
        else list(claims["attributes"])
    )


def fail(request: HttpRequest, slug: str, error: Any, exception: Exception | None, context: Any) -> HttpResponse:
    """Answer when the flow itself failed: the person cancelled it, it expired, or the provider made no sense."""
    if error == AuthError.CANCELLED:
        code = "cancelled"
    elif exception is not None:
        code = "provider"
        logger.warning("Sign-in with %s failed: %s", slug, str(exception)[:500])
    elif request.GET.get("error"):
        code = "provider"
        logger.warning("Sign-in with %s failed: %r", slug, request.GET["error"][:200])
    else:
        code = "state"
    return refuse(request, slug, code)


def refuse(request: HttpRequest, slug: str, code: str, detail: str = "") -> HttpResponse:
    """Return the page that says why nobody was signed in; the log has the reason."""
    provider = providers.find(slug)
    if code not in {"cancelled", "state", "too_many"}:
        address = str(request.META.get("REMOTE_ADDR") or "")
        log.record(
            "failed to sign in",
            "session",
            f"{provider or slug}: {detail or code}",
            None,
            {"address": address, "reason": code},
            actor="nobody signed in",
        )
    context = {"code": code, "detail": detail, "provider": provider, "section": ""}
    status = 502 if code == "provider" else 403
    return render(request, "identity/problem.html", context, status=status)
