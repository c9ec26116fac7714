"""Rotation of refresh tokens that survives two processes of one client, and tells them from a thief.

Each exchange gives a new pair and ends the old refresh token. Two processes with one file of credentials send the same
token at the same time: the second one gets the same pair as the first, for REPEAT_SECONDS, whichever process of this
server it asks. That answer is stored encrypted with the old token, which the database does not have. An older token
shows that it was copied: it revokes the connection (OAuth 2.1, section 4.3.1).

The access token of the step before stays valid for its hour: the other process may be using it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from oauth2_provider.models import get_access_token_model, get_refresh_token_model, set_token_value
from oauthlib.oauth2.rfc6749 import errors

from toolhub.oauth import tokens
from toolhub.oauth.models import ConnectedApp

REPEAT_SECONDS = 30.0

AccessToken = get_access_token_model()
RefreshToken = get_refresh_token_model()


def may_repeat(connection: ConnectedApp, digest: str) -> bool:
    """Return whether this refresh token was exchanged a moment ago, and by nobody who came after it."""
    return (
        connection.previous_digest == digest
        and connection.rotated is not None
        and timezone.now() - connection.rotated < timedelta(seconds=REPEAT_SECONDS)
    )


def rotate(token: dict[str, Any], request: Any, connection: ConnectedApp) -> None:
    """Store the new pair, or put the one in `token` that the same refresh token got before.

    The connection is locked. Raises InvalidGrantError when the token has become older than that meanwhile.
    """
    used = RefreshToken.objects.filter(pk=request.refresh_token_instance.pk, token_family=connection.family).first()
    if used is None:  # a new decision of the person has taken over meanwhile
        raise errors.InvalidGrantError(request=request)
    if used.revoked is not None:
        given = tokens.open_with(request.refresh_token, connection.successor)
        if given is None or not may_repeat(connection, used.token_checksum):
            raise errors.InvalidGrantError(request=request)
        token.update(given)
        return
    now = timezone.now()
    RefreshToken.objects.filter(pk=used.pk).update(revoked=now, updated=now)
    older = RefreshToken.objects.filter(token_family=connection.family).exclude(pk=used.pk)
    AccessToken.objects.filter(refresh_token__in=older).delete()
    store_tokens(token, request, connection, previous=used)
    connection.rotated, connection.previous_digest = now, used.token_checksum
    connection.successor = tokens.seal_with(request.refresh_token, dict(token))
    connection.save(update_fields=["rotated", "previous_digest", "successor"])


def store_tokens(token: dict[str, Any], request: Any, connection: ConnectedApp, *, previous: Any) -> None:
    """Store the digests of a new access token and a new refresh token of this connection."""
    access = AccessToken(
        user=connection.user,
        application=connection.client,
        scope=token["scope"],
        expires=timezone.now() + timedelta(seconds=token["expires_in"]),
        source_refresh_token=previous,
        resource=request.resource,
    )
    set_token_value(access, token["access_token"])
    access.save()
    refresh = RefreshToken(
        user=connection.user,
        application=connection.client,
        access_token=access,
        token_family=connection.family,
        resource=request.resource,
    )
    set_token_value(refresh, token["refresh_token"])
    refresh.save()
