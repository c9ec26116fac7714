"""An OpenID Connect provider whose tokens a test makes, right or wrong in every detail."""

from __future__ import annotations

import json
import secrets
import time
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.identity.stand_in import Answer, StandIn

CLIENT_ID = "toolhub"
KEYS, DISCOVERY = "/keys", "/.well-known/openid-configuration"


def make_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def public(key: Any, **fields: Any) -> dict[str, Any]:
    """The public half as a JSON Web Key."""
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    found: dict[str, Any] = json.loads(kind.to_jwk(key.public_key()))
    return {name: value for name, value in (found | fields).items() if name != "key_ops"}


class OpenID(StandIn):
    def __init__(self) -> None:
        super().__init__()
        self.key = make_key()
        self.curve = ec.generate_private_key(ec.SECP256R1())
        self.describe()
        self.publish(public(self.key, kid="one"))

    def describe(self, **changes: Any) -> None:
        document = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}{KEYS}",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "token_endpoint_auth_methods_supported": ["client_secret_post"],
        }
        wanted = {name: value for name, value in (document | changes).items() if value is not None}
        self.answers[DISCOVERY] = Answer(wanted)

    def publish(self, *keys: dict[str, Any]) -> None:
        self.answers[KEYS] = Answer({"keys": list(keys)})

    def claims(self, **changes: Any) -> dict[str, Any]:
        """The claims of a token with these changes; None leaves one out, and a time may be relative to now."""
        now = time.time()
        found = {"iss": self.url, "sub": "1", "aud": CLIENT_ID, "iat": now, "exp": now + 300, **changes}
        return {
            name: now + value.total_seconds() if isinstance(value, timedelta) else value
            for name, value in found.items()
            if value is not None
        }

    def sign(
        self,
        *,
        key: Any = None,
        algorithm: str = "RS256",
        kid: str | None = "one",
        typ: str | None = None,
        **claims: Any,
    ) -> str:
        headers = {name: value for name, value in (("kid", kid), ("typ", typ)) if value is not None}
        return jwt.encode(self.claims(**claims), key or self.key, algorithm=algorithm, headers=headers)

    def assert_person(self, client_id: str, issuer: str, /, **changes: Any) -> str:
        """An assertion about a person for a client of the server with this address (an ID-JAG), with changes."""
        claims = {
            "aud": issuer,
            "resource": f"{issuer}/mcp",
            "client_id": client_id,
            "scope": "mcp",
            "jti": secrets.token_urlsafe(12),
        }
        return self.sign(**{"typ": "oauth-id-jag+jwt", **claims, **changes})

    def answer(self, address: str, *, info: dict[str, Any] | None = None, **claims: Any) -> str:
        """Sign in there as the person of these claims, and return the address to which the browser is sent back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        given = {"nonce": query["nonce"], **claims}
        self.answers["/token"] = Answer(
            {"access_token": "access", "token_type": "Bearer", "id_token": self.sign(**given)}
        )
        self.answers["/userinfo"] = Answer({"sub": claims.get("sub", "1"), **(info or {})})
        parts = urlsplit(query["redirect_uri"])
        return f"{parts.path}?{urlencode({'code': 'code', 'state': query['state']})}"
