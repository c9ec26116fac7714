"""Access tokens for people whom an identity provider asserts to a client (RFC 7523, ID-JAG).

Nobody is asked: the provider decides who may use which client here. So only clients that an administrator added and
listed at the provider can come with an assertion. All tokens of one person and client belong to one connection, which
the person sees and disconnects like any other. A disconnected one stays so, whatever the provider asserts, until the
person connects it again on their page.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from oauthlib.oauth2.rfc6749 import errors

from audit.actions import actor
from toolhub.access import hooks, throttle
from toolhub.access.credential_changes import notify
from toolhub.access.hooks import Assertion, AssertionRefused
from toolhub.access.models import digest_of
from toolhub.oauth import progress, resources, rotation, scopes, tokens
from toolhub.oauth.models import ConnectedApp, UsedAssertion, lock_connections
from toolhub.oauth.resources import ISSUER, RESOURCE

log = logging.getLogger(__name__)

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"
LEEWAY_SECONDS = 120
"""Seconds for which a used assertion is remembered after its end: more than any clock may differ."""
IDLE_DAYS = 90
"""Days without an assertion after which a connection expires; the next one connects it again."""
EXTENDED_DAYS = 1
"""A connection is extended in steps of so many days, so that the audit log has one entry a day for it."""
REFUSED_RATE = "60/10m"
"""Rate of assertions of one client that no provider signed for it: each may take a look at the provider's keys."""
RETRY_SECONDS = 5
SENTENCES = {
    "size": "The assertion is too long.",
    "format": "The assertion is not a signed JWT.",
    "type": "The header typ of the assertion must be oauth-id-jag+jwt.",
    "algorithm": "The header alg of the assertion must be an asymmetric signature algorithm.",
    "issuer": "This server accepts no assertions of this issuer.",
    "invalid": "The assertion is not signed with a key of its issuer, or a claim cannot be read.",
    "time": "The assertion has expired, or is not valid yet.",
    "lifetime": "The claim exp must be after iat, by at most 10 minutes.",
    "audience": f"The claim aud must be {ISSUER} alone.",
    "client": "The claim client_id is not the client that sent the assertion.",
    "resource": f"The claim resource must be {RESOURCE}.",
    "person": "The assertion is about nobody who can sign in here now.",
    "used": "The assertion was used before. Get a new one.",
    "disconnected": f"This client was disconnected. The person can connect it again at {ISSUER}/apps/.",
}
"""What the developer of a client reads for each reason; the error is invalid_grant."""


class TryLater(errors.OAuth2Error):  # type: ignore[misc]
    """An error for an assertion that cannot be checked now."""

    error = "temporarily_unavailable"

    def __init__(self, description: str, seconds: int, status: int, request: Any) -> None:
        super().__init__(description=f"{description} Try again in {seconds} s.", status_code=status, request=request)
        self.seconds = seconds

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(self.seconds)}


def check_offered(request: Any) -> None:
    """Check that the grant is offered now, and that the request has an assertion. Raises OAuth2Error."""
    if not hooks.installed().accepts_assertions():
        raise errors.UnsupportedGrantTypeError(request=request)
    if not getattr(request, "assertion", ""):
        raise errors.InvalidRequestError(description="Missing assertion parameter.", request=request)


def check(request: Any) -> None:
    """Check the assertion of an authenticated client, and prepare the connection of its person. Raises OAuth2Error."""
    client = request.client
    if not client.may_bring_assertions:
        raise errors.UnauthorizedClientError(
            description="Only a confidential client that an administrator added can use this grant.", request=request
        )
    resources.check(value for key, value in request.decoded_body if key == "resource")
    found = _verify(request)
    claims = found.claims
    if claims["client_id"] != client.client_id:
        raise _refuse("client", request)
    if not _is_for_us(claims.get("resource")):
        raise _refuse("resource", request)
    request.scopes = _find_scopes(request, claims.get("scope", scopes.MCP))
    if found.user_id is None:
        raise _refuse("person", request)
    request.asserted = found
    request.connection = ConnectedApp(
        user_id=found.user_id,
        client=client,
        expires=timezone.now() + timedelta(days=IDLE_DAYS),
    )


def _verify(request: Any) -> Assertion:
    """Return the verified assertion. Raises OAuth2Error."""
    client = request.client
    key = f"{client.pk}"
    if seconds := throttle.wait_seconds("assertion", key, REFUSED_RATE, count=False):
        raise TryLater("Too many assertions of this client were refused.", seconds, 429, request)
    try:
        return hooks.installed().verify_assertion(request.assertion, client.pk)
    except AssertionRefused as refused:
        if refused.code == "provider":
            log.warning("The keys of an identity provider cannot be read for client %s", client.client_id)
            raise TryLater("The keys of the issuer cannot be read now.", RETRY_SECONDS, 503, request) from None
        throttle.wait_seconds("assertion", key, REFUSED_RATE, count=True)
        if refused.code == "unlisted":
            raise errors.UnauthorizedClientError(
                description="This client is not listed at the identity provider. Ask the administrator.",
                request=request,
            ) from None
        raise _refuse(refused.code, request, refused.claim) from None


def _refuse(code: str, request: Any, claim: str = "") -> errors.InvalidGrantError:
    # Never the assertion itself: it may be good for another few minutes.
    log.warning("An assertion of client %s was refused: %s %s", request.client.client_id, code, claim)
    sentence = f"The claim {claim} is missing or cannot be used." if code == "claim" else SENTENCES[code]
    return errors.InvalidGrantError(description=sentence, request=request)


def _is_for_us(resource: object) -> bool:
    wanted = resource if isinstance(resource, list) and resource else [resource]
    return all(isinstance(one, str) and resources.is_ours(one) for one in wanted)


def _find_scopes(request: Any, asserted: object) -> list[str]:
    """Return the scopes that are asserted, asked for (all, when none is) and offered here. Raises OAuth2Error.

    An assertion without a scope is for the basic one (RFC 6749, section 3.3).
    """
    if not isinstance(asserted, str):
        raise _refuse("claim", request, "scope")
    wanted = set(asserted.split()) & set((request.scope or asserted).split())
    found = [scope for scope in scopes.Scopes().get_all_scopes() if scope in wanted]
    if not found:
        raise errors.InvalidScopeError(
            description="No scope is in the assertion, in the request and at this server.", request=request
        )
    return found


def save(token: dict[str, Any], request: Any) -> None:
    """Use the assertion up and store its token; called in a transaction, which ends what fails. Raises OAuth2Error."""
    _use_up(request)
    connection = _connect(request)
    # Its refresh token ties the access token to the connection, as everywhere; nobody gets its text.
    rotation.store_tokens({**token, "refresh_token": tokens.new_refresh_token()}, request, connection, previous=None)
    progress.report_to_person("issued", connection.user_id, str(connection), connection.credential_id)


def _use_up(request: Any) -> None:
    claims = request.asserted.claims
    try:
        with transaction.atomic():
            UsedAssertion.objects.create(
                digest=digest_of(f"{claims['iss']}\n{claims['jti']}"),
                expires=datetime.fromtimestamp(claims["exp"], UTC) + timedelta(seconds=LEEWAY_SECONDS),
            )
    except IntegrityError:  # it came a second time, perhaps to another worker at the same time
        raise _refuse("used", request) from None


def _connect(request: Any) -> ConnectedApp:
    """Return the connection of the person and the client, locked, and as the assertion says. Raises OAuth2Error."""
    found, wanted = request.asserted, request.connection
    # No digest looks like this, so no code and no page is taken for it.
    name = f"assertion {wanted.client_id} {wanted.user_id}"
    changes = {"identity": found.identity, "scope": " ".join(sorted(request.scopes)), "destination": found.provider}
    with actor.override(found.actor):
        made, is_new = ConnectedApp.objects.get_or_create(
            question=name,
            defaults={
                **changes,
                "user_id": wanted.user_id,
                "client": wanted.client,
                "code_digest": name,
                "activated": timezone.now(),
                "expires": wanted.expires,
            },
        )
        connection = lock_connections(made)
        if connection is None or connection.revoked is not None:
            raise _refuse("disconnected", request)
        if is_new:
            return connection
        # All that was given, so that installations with different scopes do not change it in turns.
        changes["scope"] = " ".join(sorted({*connection.scope.split(), *request.scopes}))
        if connection.identity != found.identity:
            connection.delete_tokens()
            notify(credentials=(connection.credential_id,), superseded=True)
        if connection.expires < wanted.expires - timedelta(days=EXTENDED_DAYS):
            changes["expires"] = wanted.expires
        changed = [field for field, value in changes.items() if getattr(connection, field) != value]
        if changed:
            for field in changed:
                setattr(connection, field, changes[field])
            connection.save(update_fields=changed)
    return connection
