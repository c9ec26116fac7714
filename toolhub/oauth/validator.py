"""What django-oauth-toolkit asks about clients, codes and tokens, answered by the rules of this server.

A code is stored as its SHA-256 and is gone with the first exchange; a second one revokes what the first one got
(OAuth 2.1, section 4.1.3). Each exchange holds a lock on its connection, so that no two of them decide at one time.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from oauth2_provider.models import get_access_token_model, get_grant_model, get_refresh_token_model
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2.rfc6749 import errors
from oauthlib.oauth2.rfc8628 import errors as device_errors

from toolhub.access.credential_changes import notify
from toolhub.access.models import digest_of
from toolhub.oauth import assertions, client_documents, progress, resources, rotation, scopes
from toolhub.oauth.models import Client, ConnectedApp, DeviceRequest, lock_connections

log = logging.getLogger(__name__)

ACCESS_SECONDS = 3600
"""Seconds that an access token lasts, or less, when its connection ends before."""
REPLAY_SECONDS = 600
"""How long a code that comes a second time revokes what the first one got."""
MAX_POLL_SECONDS = 60
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
"""BASE64URL(SHA-256) of RFC 7636, section 4.2."""

Grant = get_grant_model()
AccessToken = get_access_token_model()
RefreshToken = get_refresh_token_model()


def find_lifetime(request: Any) -> int:
    """Return the seconds that a new access token lasts."""
    rest = (request.connection.expires - timezone.now()).total_seconds()
    return max(1, min(ACCESS_SECONDS, int(rest)))


class Validator(OAuth2Validator):  # type: ignore[misc]
    # --- clients -------------------------------------------------------------------------------------------------

    def _load_application(self, client_id: str, request: Any) -> Client | None:
        if not client_documents.is_client_id(client_id):
            return None
        found: Client | None = super()._load_application(client_id, request)
        return found

    def _extract_basic_auth(self, request: Any) -> str | None:
        scheme, _space, found = str(request.headers.get("HTTP_AUTHORIZATION") or "").partition(" ")
        if scheme.lower() != "basic":  # RFC 9110, section 11.1
            return None
        # The library decodes whatever comes, and fails for letters that base64 does not have.
        return found if found.isascii() else "-"

    def authenticate_client(self, request: Any, *args: Any, **kwargs: Any) -> bool:
        """Return whether the client proved who it is, in one way (RFC 6749, section 2.3).

        Where there is a Basic header, it counts alone, and for the client that the body names.
        """
        if self._extract_basic_auth(request) is None:
            return bool(self._authenticate_request_body(request))
        named, request.client = request.client_id, None
        return bool(self._authenticate_basic_auth(request)) and named in (None, "", request.client.client_id)

    def _check_secret(self, provided_secret: str, stored_secret: str) -> bool:
        # The secret has 256 random bits: a slow hash would protect nothing, and let anybody keep the process busy.
        return bool(stored_secret) and constant_time_compare(digest_of(provided_secret), stored_secret)

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        if not super().validate_grant_type(client_id, grant_type, client, request, *args, **kwargs):
            return False
        if grant_type == "authorization_code":
            request.code = digest_of(request.code)
        return True

    def validate_scopes(
        self, client_id: str, wanted: list[str], client: Any, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        request.scopes = scopes.select_known(wanted)
        return True

    # --- authorization -------------------------------------------------------------------------------------------

    def validate_redirect_uri(self, client_id: str, redirect_uri: str, request: Any, *args: Any, **kwargs: Any) -> bool:
        return bool(request.client.redirect_uri_allowed(redirect_uri))

    def is_pkce_required(self, client_id: str, request: Any) -> bool:
        if {"code_challenge", "code_challenge_method"}.intersection(request.duplicate_params):
            raise errors.InvalidRequestError(description="The code_challenge may come once.", request=request)
        if request.code_challenge is not None and not CHALLENGE.fullmatch(request.code_challenge):
            raise errors.InvalidRequestError(
                description="The code_challenge must be 43 base64url characters (S256).", request=request
            )
        return True

    def save_authorization_code(
        self, client_id: str, code: dict[str, str], request: Any, *args: Any, **kwargs: Any
    ) -> None:
        """Store the code, and the pending connection that the person decided about: `request.decision`."""
        digest = digest_of(code["code"])
        with transaction.atomic():
            request.decision.create_connection(request.user, request.client, digest)
            self._create_authorization_code(request, {"code": digest})

    # --- exchange of a code --------------------------------------------------------------------------------------

    def validate_code(self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> bool:
        connection = ConnectedApp.objects.select_related("user").filter(code_digest=code, client=client).first()
        if connection is None:
            return False
        if connection.activated is not None:
            # Later, the code may just have been found in the history of a browser, which is no way to disconnect.
            if (timezone.now() - connection.fetched).total_seconds() < REPLAY_SECONDS:
                log.warning("%s: its code was sent a second time; it is revoked", connection.credential_id)
                connection.revoke()
            return False
        grant = Grant.objects.filter(code=code, application=client).first()
        if grant is None or grant.is_expired() or connection.revoked is not None or not connection.user.is_active:
            return False
        request.grant, request.connection = grant, connection
        request.user, request.scopes = connection.user, connection.scope.split()
        return True

    def get_code_challenge(self, code: str, request: Any) -> str | None:
        return request.grant.code_challenge or None

    def get_code_challenge_method(self, code: str, request: Any) -> str | None:
        return request.grant.code_challenge_method or None

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, client: Any, *args: Any, **kwargs: Any
    ) -> bool:
        request = args[0]
        if not request.grant.redirect_uri_allowed(redirect_uri):
            # The library's own error is the one of the authorization endpoint (RFC 6749, section 5.2).
            raise errors.InvalidGrantError(description="Mismatching redirect URI.", request=request)
        return True

    def invalidate_authorization_code(self, client_id: str, code: str, request: Any, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the transaction that saved the tokens has deleted the code."""

    # --- exchange of a device code -------------------------------------------------------------------------------

    def validate_device_code(self, device_code: str, request: Any) -> None:
        """Find the decision of the person. Raises OAuth2Error with the codes of RFC 8628, section 3.5."""
        digest = digest_of(device_code)
        with transaction.atomic():
            found = (
                DeviceRequest.objects.select_for_update().filter(device_digest=digest, client=request.client).first()
            )
            if found is None:
                raise errors.InvalidGrantError(request=request)
            now = timezone.now()
            too_early = found.polled is not None and (now - found.polled).total_seconds() < found.interval - 1
            found.polled = now
            found.interval = min(MAX_POLL_SECONDS, found.interval + 5) if too_early else found.interval
            found.save(update_fields=["polled", "interval"])
        if found.denied:
            raise errors.AccessDeniedError(request=request)
        if found.expires <= now:
            raise device_errors.ExpiredTokenError(request=request)
        if too_early:
            raise device_errors.SlowDownError(request=request)
        connection = found.connection
        if connection is None:
            raise device_errors.AuthorizationPendingError(request=request)
        if connection.revoked is not None or not connection.user.is_active:
            raise errors.AccessDeniedError(request=request)
        request.device_request, request.connection = found, connection
        request.user, request.scopes = connection.user, connection.scope.split()

    # --- refresh -------------------------------------------------------------------------------------------------

    def validate_refresh_token(self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> bool:
        found = RefreshToken.objects.filter(token_checksum=digest_of(refresh_token), application=client).first()
        connection = (
            ConnectedApp.objects.select_related("user", "client").filter(family=found.token_family).first()
            if found is not None
            else None
        )
        if found is None or connection is None or not connection.is_usable or not connection.user.is_active:
            return False
        if found.revoked is not None and not rotation.may_repeat(connection, found.token_checksum):
            log.warning("%s: an old refresh token was sent; it is revoked", connection.credential_id)
            connection.revoke()
            return False
        request.user, request.connection = connection.user, connection
        request.refresh_token, request.refresh_token_instance = refresh_token, found
        return True

    def get_original_scopes(self, refresh_token: str, request: Any, *args: Any, **kwargs: Any) -> str:
        return str(request.connection.scope)

    def is_within_original_scope(
        self, request_scopes: list[str], refresh_token: str, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        """Return whether the known ones of these scopes were granted; unknown ones are ignored here, too."""
        request.scopes = scopes.select_known(request_scopes)
        return set(request.scopes) <= set(request.connection.scope.split())

    # --- saving --------------------------------------------------------------------------------------------------

    def _check_and_set_request_resource(self, request: Any) -> None:
        wanted = [value for name, value in request.decoded_body or () if name == "resource"]
        resources.check(wanted)
        request.resource = [resources.RESOURCE]

    def _save_bearer_token(self, token: dict[str, Any], request: Any, *args: Any, **kwargs: Any) -> None:
        """Store new tokens; called in a transaction. Raises InvalidGrantError when another request was faster."""
        self._check_and_set_request_resource(request)
        if request.grant_type == assertions.GRANT:
            assertions.save(token, request)
            return
        connection = lock_connections(request.connection)
        if connection is None or connection.revoked is not None:
            raise errors.InvalidGrantError(request=request)
        if request.grant_type == "refresh_token":
            rotation.rotate(token, request, connection)
        else:
            used = request.device_request if request.grant_type == DEVICE_CODE else request.grant
            if connection.activated is not None or not type(used).objects.filter(pk=used.pk).delete()[0]:
                raise errors.InvalidGrantError(request=request)
            active = connection.activate()
            rotation.store_tokens(token, request, active, previous=None)
            progress.report_to_person("issued", active.user_id, str(active), active.credential_id)

    # --- revocation ----------------------------------------------------------------------------------------------

    def revoke_token(self, token: str, token_type_hint: str, request: Any, *args: Any, **kwargs: Any) -> None:
        """Revoke the connection that this access or refresh token belongs to (RFC 7009), if it is the client's.

        A client that gets its tokens by assertions gives back this one alone: it must not decide for the person.
        """
        digest = digest_of(token)
        family = (
            RefreshToken.objects.filter(token_checksum=digest, application=request.client)
            .values_list("token_family", flat=True)
            .first()
        ) or (
            RefreshToken.objects.filter(access_token__token_checksum=digest, application=request.client)
            .values_list("token_family", flat=True)
            .first()
        )
        connection = ConnectedApp.objects.filter(family=family).first() if family is not None else None
        if connection is not None and connection.identity is not None:
            AccessToken.objects.filter(token_checksum=digest).delete()
            notify(credentials=(connection.credential_id,), superseded=True)
        elif connection is not None:
            connection.revoke()


def find_client(client_id: str) -> Client | None:
    """Return a known client that may be used, without fetching anything."""
    if not client_documents.is_client_id(client_id):
        return None
    found: Client | None = Client.objects.filter(client_id=client_id, blocked=False).first()
    return found
