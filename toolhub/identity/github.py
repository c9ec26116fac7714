"""GitHub, which is no OpenID Connect provider: people are asked for with the token, their groups are organizations.

A group is the name of an organization ("acme") or of a team in one ("acme/platform").
"""

from __future__ import annotations

from typing import Any

import requests
from allauth.socialaccount.providers.github.provider import GitHubProvider
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2Adapter
from django.http import HttpRequest

from toolhub.identity.models import Provider
from toolhub.identity.openid import NotConfirmed, Refused
from toolhub.identity.people import MAX_GROUPS, ClaimsError, Person
from toolhub.identity.providers import callback_url
from toolhub.identity.requests_session import Session

PUBLIC_ADDRESS = "https://github.com"
PAGE_ROWS, MAX_ANSWER_PAGES = 100, 10
SCOPES = ("read:user", "read:org")


class Adapter(OAuth2Adapter):  # type: ignore[misc]
    """The library's flow for github.com or a GitHub Enterprise server: the issuer is its address."""

    def __init__(self, request: HttpRequest, slug: str) -> None:
        super().__init__(request)
        self.provider_id = slug

    @property
    def address(self) -> str:
        return str(self.get_provider().app.settings["server_url"])

    @property
    def access_token_url(self) -> str:
        return f"{self.address}/login/oauth/access_token"

    @property
    def authorize_url(self) -> str:
        return f"{self.address}/login/oauth/authorize"

    headers = {"Accept": "application/json"}
    expires_in_key = ""  # like `openid.Adapter`

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:
        return callback_url(app.provider_id)

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **options: Any) -> Any:
        """Return who signed in. Raises OAuth2Error, RequestException."""
        return self.get_provider().sociallogin_from_response(request, fetch_account(self.address, token.token))


class GitHub(GitHubProvider):  # type: ignore[misc]
    oauth2_adapter_class = Adapter
    pkce_enabled_default = True

    def get_oauth2_adapter(self, request: HttpRequest) -> Adapter:
        return Adapter(request, self.app.provider_id)


def fetch_account(address: str, token: str) -> dict[str, Any]:
    """Return the account of a token: GitHub's user, and "groups". Raises OAuth2Error, RequestException."""
    api = "https://api.github.com" if address == PUBLIC_ADDRESS else f"{address}/api/v3"
    with Session() as session:
        session.headers.update({"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"})
        user = _get(session, f"{api}/user")
        if not isinstance(user, dict):
            raise OAuth2Error("not_json")
        groups = {_text(one, "login") for one in _get_all(session, f"{api}/user/orgs")}
        for team in _get_all(session, f"{api}/user/teams"):
            if not isinstance(team, dict):
                raise OAuth2Error("not_json")
            groups.add(f"{_text(team.get('organization'), 'login')}/{_text(team, 'slug')}")
    return {**user, "groups": sorted(groups)}


def _text(row: Any, name: str) -> str:
    found = row.get(name) if isinstance(row, dict) else None
    if not isinstance(found, str) or not found:
        raise OAuth2Error(f"no_{name}")
    return found


def _get_all(session: requests.Session, address: str) -> list[Any]:
    rows: list[Any] = []
    for page in range(1, MAX_ANSWER_PAGES + 1):
        found = _get(session, f"{address}?per_page={PAGE_ROWS}&page={page}")
        if not isinstance(found, list):
            raise OAuth2Error("not_json")
        rows += found
        if len(found) < PAGE_ROWS:
            return rows
    raise OAuth2Error("too_many_groups")


def _get(session: requests.Session, address: str) -> Any:
    response = session.get(address)
    if response.status_code != 200:
        raise requests.HTTPError(f"status {response.status_code}", response=response)
    try:
        return response.json()
    except (ValueError, RecursionError) as error:
        raise OAuth2Error("not_json") from error


def read_person(account: dict[str, Any]) -> Person:
    """Return the person of an account. Raises ClaimsError."""
    number = account.get("id")
    if not isinstance(number, int) or isinstance(number, bool):
        raise ClaimsError("no_subject", "id")
    groups = account["groups"]
    if len(groups) > MAX_GROUPS:
        raise ClaimsError("too_many_groups", "orgs")
    first, _space, last = str(account.get("name") or "").partition(" ")
    return Person(
        subject=str(number),
        groups=tuple(groups),
        username=str(account.get("login") or "")[:150],
        email=str(account.get("email") or "")[:254],
        first_name=first,
        last_name=last,
    )


def check(provider: Provider, token: str, subject: str) -> tuple[Person, str]:
    """Ask GitHub about the owner of a token, like `openid.check`. Raises Refused, NotConfirmed."""
    try:
        person = read_person(fetch_account(provider.issuer, token))
    except requests.HTTPError as error:
        if error.response is not None and error.response.status_code == 401:
            raise Refused("token") from error
        raise NotConfirmed(str(error)[:200]) from error
    except (OAuth2Error, requests.RequestException, ClaimsError) as error:
        raise NotConfirmed(str(error)[:200]) from error
    if person.subject != subject:
        raise NotConfirmed("other_subject")
    return person, token
