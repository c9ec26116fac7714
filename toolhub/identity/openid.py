"""OpenID Connect: discovery, verified ID tokens, and checks with a refresh token (OpenID Connect Core 1.0, RFC 9700).

The library runs the authorization code flow. Here is what it leaves open: ID tokens are verified with the keys of the
provider whatever the connection, with a nonce, an allow-list of algorithms, and the subject of the user info.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import jwt
import requests
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.core.cache import caches
from django.http import HttpRequest, HttpResponseBase

from toolhub.identity.models import Provider
from toolhub.identity.people import ClaimsError, Person, from_claims
from toolhub.identity.providers import callback_url
from toolhub.identity.requests_session import Session

WELL_KNOWN = "/.well-known/openid-configuration"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
CACHE_SECONDS = 300
LEEWAY_SECONDS = 60
REFUSALS = frozenset({"invalid_grant", "access_denied", "login_required", "interaction_required", "consent_required"})
"""Errors of a token endpoint that are about the person: they may not go on without signing in again."""


_LISTS = ("scopes_supported", "code_challenge_methods_supported", "token_endpoint_auth_methods_supported")


class Refused(Exception):
    """An error for a provider that no longer confirms a person."""


class NotConfirmed(Exception):
    """An error for a provider that cannot be asked now, or whose answer cannot be used."""


def fetch_configuration(issuer: str, *, fresh: bool = False) -> dict[str, Any]:
    """Return the metadata of a provider (OpenID Connect Discovery 1.0). Raises OAuth2Error, RequestException."""
    document = _fetch_json(f"{issuer.rstrip('/')}{WELL_KNOWN}", fresh=fresh)
    found = document.get("issuer")
    if not isinstance(found, str) or found.rstrip("/") != issuer.rstrip("/"):
        raise OAuth2Error("other_issuer")
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint"):
        address = document.get(name)
        if address is None and name == "userinfo_endpoint":
            continue
        if not isinstance(address, str):
            raise OAuth2Error(f"no_{name}")
        # Only a provider on this machine is without TLS: codes, tokens and our secret go to these addresses.
        if not address.startswith(("https://", "http://") if issuer.startswith("http://") else "https://"):
            raise OAuth2Error(f"insecure_{name}")
    for name in _LISTS:
        if not isinstance(document.setdefault(name, []), list):
            raise OAuth2Error(f"no_list_{name}")
    return document


def verify_id_token(token: str, configuration: Mapping[str, Any], client_id: str) -> dict[str, Any]:
    """Return the claims of an ID token for this client (Core, section 3.1.3.7).

    Raises OAuth2Error, RequestException.
    """
    try:
        claims = decode(token, configuration, client_id)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError) as error:
        raise OAuth2Error("id_token_invalid") from error
    if isinstance(claims["aud"], list) and len(claims["aud"]) > 1 and claims.get("azp") != client_id:
        raise OAuth2Error("id_token_audience")
    return claims


def decode(
    token: str, configuration: Mapping[str, Any], audience: str, *, strict: bool = False, required: Iterable[str] = ()
) -> dict[str, Any]:
    """Return the claims of a JWT that the provider signed for this audience, and whose time it is.

    With `strict`, it is for nobody else. `required` are claims besides those of every token here. Raises OAuth2Error,
    RequestException, PyJWTError, ValueError, TypeError, KeyError.
    """
    header = jwt.get_unverified_header(token)
    if header.get("alg") not in ALGORITHMS:
        raise OAuth2Error("id_token_algorithm")
    key = _find_key(str(configuration["jwks_uri"]), header)
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[str(header["alg"])],
        audience=audience,
        issuer=str(configuration["issuer"]),
        leeway=LEEWAY_SECONDS,
        options={"require": ["exp", "iat", "iss", "sub", "aud", *required], "strict_aud": strict},
    )
    return claims


def fetch_keys(configuration: Mapping[str, Any]) -> list[Any]:
    """Return the keys with which the provider signs. Raises OAuth2Error, RequestException."""
    try:
        return list(jwt.PyJWKSet.from_dict(_fetch_json(str(configuration["jwks_uri"]), fresh=True)).keys)
    except jwt.PyJWTError as error:
        raise OAuth2Error("no_keys") from error


def _find_key(address: str, header: Mapping[str, Any]) -> Any:
    for fresh in (False, True):  # a provider that changed its keys: one more look
        keys = jwt.PyJWKSet.from_dict(_fetch_json(address, fresh=fresh)).keys
        fitting = [
            key for key in keys if key.public_key_use in {None, "sig"} and header.get("kid") in {None, key.key_id}
        ]
        if len(fitting) == 1 or (fitting and header.get("kid") is not None):
            return fitting[0].key
    raise OAuth2Error("id_token_key")


def _fetch_json(address: str, *, fresh: bool = False) -> dict[str, Any]:
    cache = caches["local"]
    name = f"identity:{address}"
    found = None if fresh else cache.get(name)
    if found is None:
        with Session() as session:
            response = session.get(address)
        if response.status_code != 200:
            raise requests.HTTPError(f"status {response.status_code}", response=response)
        found = _parse(response)
        cache.set(name, found, CACHE_SECONDS)
    return dict(found)


def _parse(response: requests.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except (ValueError, RecursionError) as error:
        raise OAuth2Error("not_json") from error
    if not isinstance(found, dict):
        raise OAuth2Error("not_json")
    return found


class Adapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """The library's flow with the checks of this module."""

    expires_in_key = ""  # nothing here uses the access token later, so its end, which may be nonsense, is not read

    @property
    def openid_config(self) -> dict[str, Any]:
        return fetch_configuration(self.get_provider().app.settings["server_url"])

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        return callback_url(app.provider_id)

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **options: Any) -> Any:
        """Return what the provider says about the person who signed in. Raises OAuth2Error, RequestException."""
        id_token = options["response"].get("id_token")
        if not isinstance(id_token, str):
            raise OAuth2Error("no_id_token")
        claims = verify_id_token(id_token, self.openid_config, app.client_id)
        everything = {**_fetch_user_info(self.openid_config, token.token, claims["sub"]), **claims}
        return self.get_provider().sociallogin_from_response(request, everything)


def _fetch_user_info(configuration: Mapping[str, Any], access_token: str, subject: str | None = None) -> dict[str, Any]:
    """Return the user info (Core, section 5.3), which must be about this subject if one is known.

    Without a subject and without that address there is nothing to go by. Raises OAuth2Error, RequestException.
    """
    address = configuration.get("userinfo_endpoint")
    if not isinstance(address, str):
        if subject is None:
            raise OAuth2Error("no_id_token")
        return {}
    with Session() as session:
        response = session.get(address, headers={"Authorization": f"Bearer {access_token}"})
    if response.status_code != 200:
        raise requests.HTTPError(f"status {response.status_code}", response=response)
    found = _parse(response)
    if subject is not None and found.get("sub") != subject:
        raise OAuth2Error("other_subject")
    return found


class OpenID(OpenIDConnectProvider):  # type: ignore[misc]
    """The library's provider for rows of ours, with a nonce and PKCE in every request."""

    oauth2_adapter_class = Adapter
    pkce_enabled_default = True

    def redirect(
        self, request: HttpRequest, process: str, next_url: str | None = None, data: Any = None, **options: Any
    ) -> HttpResponseBase:
        """Return the redirect to the provider. Raises OAuth2Error, RequestException."""
        nonce = secrets.token_urlsafe(24)
        parameters = {"nonce": nonce, **options.pop("auth_params", {})}
        response: HttpResponseBase = super().redirect(
            request, process, next_url, data, auth_params=parameters, nonce=nonce, **options
        )
        return response


def read_person(provider: Provider, claims: Mapping[str, Any]) -> Person:
    """Return the person of verified claims. Raises ClaimsError."""
    return from_claims(claims, subject_claim=provider.subject_claim, groups_claim=provider.groups_claim)


def check(provider: Provider, refresh_token: str, subject: str) -> tuple[Person, str]:
    """Ask the provider about a person; return what it says now, and the token for the next time.

    Raises Refused when it no longer confirms the person, NotConfirmed when it cannot be asked or makes no sense.
    """
    try:
        configuration = fetch_configuration(provider.issuer)
        answer = _refresh(provider, configuration, refresh_token)
        access_token, id_token = answer.get("access_token"), answer.get("id_token")
        claims: dict[str, Any] = {}
        if isinstance(id_token, str):
            claims = verify_id_token(id_token, configuration, provider.client_id)
        if isinstance(access_token, str):
            # A refresh may leave out the ID token (Core, section 12.2).
            claims = {**_fetch_user_info(configuration, access_token, claims.get("sub")), **claims}
        person = read_person(provider, claims)
    except (OAuth2Error, requests.RequestException, ClaimsError) as error:
        raise NotConfirmed(str(error)[:200]) from error
    if person.subject != subject:
        raise NotConfirmed("other_subject")
    fresh = answer.get("refresh_token")
    return person, fresh if isinstance(fresh, str) and fresh else refresh_token


def _refresh(provider: Provider, configuration: Mapping[str, Any], refresh_token: str) -> dict[str, Any]:
    body = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    secret = provider.read_secret()
    basic = None
    methods = configuration["token_endpoint_auth_methods_supported"]
    if secret and "client_secret_post" not in methods and "client_secret_basic" in methods:
        basic = (provider.client_id, secret)
    else:
        body |= {"client_id": provider.client_id} | ({"client_secret": secret} if secret else {})
    with Session() as session:
        response = session.post(str(configuration["token_endpoint"]), data=body, auth=basic)
    answer = _parse(response)
    if response.status_code == 200:
        return answer
    error = str(answer.get("error"))
    if response.status_code in {400, 401} and error in REFUSALS:
        raise Refused(error)
    raise OAuth2Error(f"status {response.status_code}: {error}")
