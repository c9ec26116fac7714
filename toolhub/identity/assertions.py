"""Identity assertions that OpenID Connect providers sign for clients: ID-JAG.

See draft-ietf-oauth-identity-assertion-authz-grant, and the MCP extension for enterprise-managed authorization. Here is
what concerns the provider and its people; `toolhub.oauth` checks what concerns the client, and issues the token.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import jwt
import requests
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.conf import settings
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from toolhub.access.hooks import Assertion, AssertionRefused
from toolhub.identity import openid, providers
from toolhub.identity.models import Identity, Provider
from toolhub.identity.people import ClaimsError, from_claims

TYPE = "oauth-id-jag+jwt"
MAX_CHARACTERS = 8_192
MAX_LIFETIME_SECONDS = 600
MAX_ID_CHARACTERS = 255


def are_accepted() -> bool:
    """Return whether any provider may assert people to clients."""
    return any(_may_assert(one) for one in providers.list_enabled())


def verify(text: str, client: int) -> Assertion:
    """Verify the assertion that a client (primary key) sent. Raises AssertionRefused."""
    if len(text) > MAX_CHARACTERS:
        raise AssertionRefused("size")
    try:
        header = jwt.get_unverified_header(text)
        issuer = jwt.decode(text, options={"verify_signature": False}).get("iss")
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise AssertionRefused("format") from None
    # RFC 7515, section 4.1.9: a media type, whose "application/" may be left out.
    if str(header.get("typ")).lower().removeprefix("application/") != TYPE:
        raise AssertionRefused("type")
    if header.get("alg") not in openid.ALGORITHMS:
        raise AssertionRefused("algorithm")
    provider = _find_provider(issuer, client)
    claims = _decode(text, provider)
    identity = _find_identity(provider, claims)
    return Assertion(
        claims=claims,
        provider=provider.name,
        actor=provider.actor_name,
        identity=None if identity is None else identity.pk,
        user_id=None if identity is None else identity.user_id,
    )


def _may_assert(provider: Provider) -> bool:
    return provider.accepts_assertions and provider.kind == Provider.Kind.OPENID


def _find_provider(issuer: object, client: int) -> Provider:
    """Return the provider with this issuer that may assert people to the client. Raises AssertionRefused."""
    known = [
        one
        for one in providers.list_enabled()
        if _may_assert(one) and isinstance(issuer, str) and one.issuer.rstrip("/") == issuer.rstrip("/")
    ]
    if not known:
        raise AssertionRefused("issuer")
    for one in known:
        if one.assertion_clients.filter(pk=client).exists():
            return one
    raise AssertionRefused("unlisted")


def _decode(text: str, provider: Provider) -> dict[str, Any]:
    """Return the verified claims. Raises AssertionRefused."""
    try:
        configuration = openid.fetch_configuration(provider.issuer)
    except (OAuth2Error, requests.RequestException):
        raise AssertionRefused("provider") from None
    try:
        claims = openid.decode(text, configuration, settings.PUBLIC_URL, strict=True, required=("jti", "client_id"))
    except requests.RequestException:
        raise AssertionRefused("provider") from None
    except (jwt.ExpiredSignatureError, jwt.ImmatureSignatureError):
        raise AssertionRefused("time") from None
    except jwt.InvalidAudienceError:
        raise AssertionRefused("audience") from None
    except jwt.InvalidIssuerError:
        raise AssertionRefused("issuer") from None
    except jwt.MissingRequiredClaimError as error:
        raise AssertionRefused("claim", error.claim) from None
    except (OAuth2Error, jwt.PyJWTError, ValueError, TypeError, KeyError):
        raise AssertionRefused("invalid") from None
    for name in ("exp", "iat"):
        if isinstance(claims[name], bool) or not isinstance(claims[name], int | float):
            raise AssertionRefused("claim", name)
    if not 0 < claims["exp"] - claims["iat"] <= MAX_LIFETIME_SECONDS:
        raise AssertionRefused("lifetime")
    if not isinstance(claims["jti"], str) or not 0 < len(claims["jti"]) <= MAX_ID_CHARACTERS:
        raise AssertionRefused("claim", "jti")
    return claims


def _find_identity(provider: Provider, claims: dict[str, Any]) -> Identity | None:
    """Return the identity that the claims are about, if its owner may sign in now. Raises AssertionRefused."""
    try:
        subject = from_claims(claims, subject_claim=provider.subject_claim, groups_claim="").subject
    except ClaimsError as error:
        raise AssertionRefused("claim", error.claim) from None
    if not subject.isprintable():  # no database holds NUL or half a character
        return None
    return _select_current().filter(provider=provider, subject=subject).first()


def _select_current() -> QuerySet[Identity]:
    """Select the identities with which a person may sign in, and whose sign-in has not lapsed.

    Whoever was provisioned and has not signed in yet counts: the provider says so until it removes them.
    """
    signed_in = Q(valid_until__gt=timezone.now())
    provisioned = Q(valid_until=None, last_sign_in=None, provisioned=True)
    return Identity.objects.filter(signed_in | provisioned, user__is_active=True, issuer=F("provider__issuer")).exclude(
        provisioned=False
    )


def filter_accepted(pairs: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return those of the pairs (identity, client) of which a new assertion would be accepted now."""
    if not pairs:
        return set()
    rows = _select_current().filter(
        pk__in={identity for identity, _client in pairs},
        provider__kind=Provider.Kind.OPENID,
        provider__enabled=True,
        provider__accepts_assertions=True,
        provider__assertion_clients__in={client for _identity, client in pairs},
    )
    return {*pairs} & {*rows.values_list("pk", "provider__assertion_clients")}
