"""The authorization server of oauthlib with the grants that MCP clients use, and no others."""

from __future__ import annotations

from typing import Any

from oauthlib.oauth2.rfc6749.endpoints.authorization import AuthorizationEndpoint
from oauthlib.oauth2.rfc6749.endpoints.revocation import RevocationEndpoint
from oauthlib.oauth2.rfc6749.endpoints.token import TokenEndpoint
from oauthlib.oauth2.rfc6749.grant_types import AuthorizationCodeGrant, RefreshTokenGrant
from oauthlib.oauth2.rfc6749.grant_types.authorization_code import code_challenge_method_s256
from oauthlib.oauth2.rfc6749.tokens import BearerToken

from toolhub.oauth import tokens
from toolhub.oauth.validator import find_lifetime


class CodeGrant(AuthorizationCodeGrant):  # type: ignore[misc]
    """The authorization code grant: PKCE with S256 alone, and a code that logs recognise."""

    _code_challenge_methods = {"S256": code_challenge_method_s256}

    def create_authorization_code(self, request: Any) -> dict[str, str]:
        grant = {"code": tokens.new_code()}
        if request.state:
            grant["state"] = request.state
        return grant


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
            grant_types={"authorization_code": code, "refresh_token": refresh},
            default_token_type=bearer,
        )
        RevocationEndpoint.__init__(self, request_validator)
