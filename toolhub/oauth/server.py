"""The authorization server of oauthlib with the grants that MCP clients use, and no others."""

from __future__ import annotations

import json
import re
from typing import Any

from oauthlib.oauth2.rfc6749 import errors
from oauthlib.oauth2.rfc6749.endpoints.authorization import AuthorizationEndpoint
from oauthlib.oauth2.rfc6749.endpoints.revocation import RevocationEndpoint
from oauthlib.oauth2.rfc6749.endpoints.token import TokenEndpoint
from oauthlib.oauth2.rfc6749.grant_types import AuthorizationCodeGrant, RefreshTokenGrant
from oauthlib.oauth2.rfc6749.grant_types.authorization_code import code_challenge_method_s256
from oauthlib.oauth2.rfc6749.grant_types.base import GrantTypeBase
from oauthlib.oauth2.rfc6749.tokens import BearerToken

from toolhub.oauth import assertions, tokens
from toolhub.oauth.validator import DEVICE_CODE, find_lifetime

UNSUPPORTED = ""
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
"""RFC 7636, section 4.1."""


def is_verified(verifier: str, challenge: str) -> bool:
    """Return whether the challenge was made of this verifier, which is too long to be guessed from it."""
    return VERIFIER.fullmatch(verifier) is not None and bool(code_challenge_method_s256(verifier, challenge))


class CodeGrant(AuthorizationCodeGrant):  # type: ignore[misc]
    """The authorization code grant: PKCE with S256 alone, and a code that logs recognise."""

    _code_challenge_methods = {"S256": is_verified}

    def create_authorization_code(self, request: Any) -> dict[str, str]:
        grant = {"code": tokens.new_code()}
        if request.state:
            grant["state"] = request.state
        return grant


class DeviceGrant(GrantTypeBase):  # type: ignore[misc]
    """The exchange of a device code (RFC 8628, section 3.4); oauthlib's own knows neither `slow_down` nor an error."""

    def create_token_response(self, request: Any, token_handler: Any) -> tuple[dict[str, str], str, int]:
        headers: dict[str, str] = self._get_default_headers()
        try:
            if not request.device_code:
                raise errors.InvalidRequestError(description="Missing device_code parameter.", request=request)
            self.validate_client_authentication(request)
            self.validate_grant_type(request)
            self.request_validator.validate_device_code(request.device_code, request)
        except errors.OAuth2Error as error:
            return {**headers, **error.headers}, error.json, error.status_code
        token = token_handler.create_token(request, refresh_token=True)
        self.request_validator.save_token(token, request)
        return headers, json.dumps(token), 200


class AssertionGrant(GrantTypeBase):  # type: ignore[misc]
    """The exchange of an identity provider's assertion (RFC 7523, section 2.1), without a refresh token."""

    def create_token_response(self, request: Any, token_handler: Any) -> tuple[dict[str, str], str, int]:
        headers: dict[str, str] = self._get_default_headers()
        try:
            assertions.check_offered(request)
            self.validate_client_authentication(request)
            assertions.check(request)
            token = token_handler.create_token(request, refresh_token=False)
            self.request_validator.save_token(token, request)
        except errors.OAuth2Error as error:
            return {**headers, **error.headers}, error.json, error.status_code
        return headers, json.dumps(token), 200


class TokenTypes(dict[str, Any]):
    """The grants by name; oauthlib hands an unknown one to the default grant, which takes "openid" for its own."""

    def get(self, name: Any, default: Any = None) -> Any:
        return super().get(name, self[UNSUPPORTED])


class UnsupportedGrant(GrantTypeBase):  # type: ignore[misc]
    def create_token_response(self, request: Any, token_handler: Any) -> tuple[dict[str, str], str, int]:
        error = errors.UnsupportedGrantTypeError(request=request)
        return self._get_default_headers(), error.json, error.status_code


class AuthorizationServer(AuthorizationEndpoint, TokenEndpoint, RevocationEndpoint):  # type: ignore[misc]
    def __init__(
        self,
        request_validator: Any,
        *,
        token_generator: Any = None,
        refresh_token_generator: Any = None,
        **_others: Any,
    ) -> None:
        code = CodeGrant(request_validator)
        refresh = RefreshTokenGrant(request_validator)
        bearer = BearerToken(request_validator, token_generator, find_lifetime, refresh_token_generator)
        AuthorizationEndpoint.__init__(
            self, default_response_type="code", response_types={"code": code}, default_token_type=bearer
        )
        TokenEndpoint.__init__(
            self,
            default_grant_type="authorization_code",
            grant_types=TokenTypes(
                {
                    "authorization_code": code,
                    "refresh_token": refresh,
                    DEVICE_CODE: DeviceGrant(request_validator),
                    assertions.GRANT: AssertionGrant(request_validator),
                    UNSUPPORTED: UnsupportedGrant(request_validator),
                }
            ),
            default_token_type=bearer,
        )
        RevocationEndpoint.__init__(self, request_validator)
