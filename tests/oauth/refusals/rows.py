"""One row of the table of refusals, and what every answer of its kind has to look like."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client as Browser
from oauth2_provider.models import AccessToken, Grant, RefreshToken

from tests.oauth import flow
from toolhub.oauth.models import ConnectedApp

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from tests.secure_hub import Documents
    from tests.transports.conftest import Person

REDIRECT, PAGE, JSON, MCP = "redirect", "page", "json", "mcp"
"""How a refusal is answered: to the client through the browser, to the person, to a client, to a client of /mcp."""
GAPS = {
    1: "browsers drop the redirect after the form: its policy names this server alone",
    2: "errors come without `iss`, although the metadata promises it",
    3: "the question to the person is skipped when the client asks for that",
    4: "registration takes any address, grant, size, name and number",
    5: "a resource of another server, or one that is spelt differently, gets a token",
    6: "web pages read no answer of the token endpoint",
    7: "two processes of one client that refresh at one time revoke each other",
    8: "tokens stay valid when their code comes a second time",
    9: "an unknown client is not told to register again",
    10: "a client that asks for scopes of another server gets an error",
    11: "a person signs in before an unknown client is refused",
    12: "documents of clients keep the threads busy",
    13: "the metadata names no endpoint for devices",
    14: "a client can choose an authentication that nobody checks",
}
"""What django-oauth-toolkit leaves open, by the numbers that rows refer to."""
CREDENTIAL = re.compile(r"th[orcs]_[A-Za-z0-9_-]{43}")
"""An access token, a refresh token, a code or a client secret."""
_MEMBER = re.compile(r'([a-z_]+)="([^"]*)"')


@dataclass
class Scene:
    """Who takes part in a row of the authorization server."""

    alice: User
    bob: User
    settings: Any
    monkeypatch: pytest.MonkeyPatch
    fixtures: pytest.FixtureRequest

    @cached_property
    def browser(self) -> Browser:
        """The browser in which alice is signed in."""
        return self.signed_in(self.alice)

    def signed_in(self, user: User, **options: Any) -> Browser:
        browser = Browser(**options)
        browser.force_login(user)
        return browser

    @cached_property
    def documents(self) -> Documents:
        """A web server for client documents, which the hub may ask."""
        found: Documents = self.fixtures.getfixturevalue("documents")
        return found


@dataclass(frozen=True)
class Answer:
    """What came back, whichever way it was asked for."""

    status: int
    headers: Mapping[str, str]
    body: str
    raw: Any

    @classmethod
    def read(cls, raw: Any) -> Answer:
        if hasattr(raw, "status_code"):
            headers, body = dict(raw.headers), raw.content
            headers |= {"set-cookie": raw.cookies.output()} if raw.cookies else {}
            status = raw.status_code
        else:
            headers, body, status = dict(raw.headers), raw.body, raw.status
        return cls(status, {name.lower(): value for name, value in headers.items()}, body.decode(), raw)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def parameters(self) -> dict[str, list[str]]:
        """The parameters that go to the client."""
        return parse_qs(urlsplit(self.headers["location"]).query, keep_blank_values=True)

    @property
    def challenge(self) -> dict[str, str]:
        return dict(_MEMBER.findall(self.headers.get("www-authenticate", "")))


Send = Callable[[], Any]
Also = Callable[[Scene, Answer], None]


@dataclass(frozen=True)
class Row:
    """A request that is refused, why, and how."""

    name: str
    where: str
    """Document and section of the sentence, or the number of a gap, for which it is our own."""
    sentence: str
    prepare: Callable[[Scene], Send]
    """Do everything before, and return the request that is refused."""
    kind: str
    status: int
    error: str = ""
    """The OAuth error code; "" for a page, and for an answer that is no error."""
    also: Also | None = None
    """What else holds after it."""

    @property
    def has_issuer(self) -> bool:
        """Whether the answer has to carry `iss`: every authorization response does."""
        return self.kind == REDIRECT


@dataclass(frozen=True)
class McpRow:
    """A request of /mcp that is refused: the same, in the event loop of a hub."""

    name: str
    where: str
    sentence: str
    prepare: Callable[[Person], Awaitable[Callable[[], Awaitable[Any]]]]
    status: int
    challenge: Mapping[str, str] = field(default_factory=dict)
    """All members of WWW-Authenticate."""
    also: Callable[[Person, Answer], Awaitable[None]] | None = None


def stored() -> set[tuple[str, int]]:
    """The codes and tokens in the database, and the decisions that could become some."""
    return {
        (model.__name__, pk)
        for model in (Grant, AccessToken, RefreshToken, ConnectedApp)
        for pk in model._default_manager.values_list("pk", flat=True)
    }


def check_nothing_leaks(answer: Answer) -> None:
    """No answer has a code, a token or a secret, wherever a client would read it."""
    for text in (answer.body, *answer.headers.values()):
        assert CREDENTIAL.search(text) is None, text
    assert "access_token" not in answer.headers.get("location", "")
    assert "code" not in (answer.parameters if "location" in answer.headers else {})


def check_redirect(answer: Answer, error: str) -> None:
    """The client reads an error that says which server it comes from."""
    found, sent = answer.parameters, answer.raw.wsgi_request.GET
    assert (found["error"], found["iss"], found["state"]) == ([error], [flow.ISSUER], [sent["state"]])
    assert urlsplit(answer.headers["location"]).fragment == ""
    _check_page_headers(answer)


def check_page(answer: Answer) -> None:
    """The person reads why, and the browser goes nowhere, except to the sign-in."""
    assert answer.headers.get("location", "/sign-in/?").startswith("/sign-in/?")
    assert answer.headers["content-type"].startswith("text/html")
    _check_page_headers(answer)


def _check_page_headers(answer: Answer) -> None:
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-frame-options"] == "DENY"


def check_json(answer: Answer, error: str) -> None:
    """A machine reads JSON, and so does one in a web page; nothing in between keeps it."""
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers
    assert "set-cookie" not in answer.headers
    assert answer.json.get("error", "") == error
    assert ("www-authenticate" in answer.headers) == (answer.status == 401)


def check_mcp(answer: Answer) -> None:
    """A client of /mcp reads a JSON-RPC error, and never an offer that it cannot use."""
    assert answer.headers["content-type"] == "application/json"
    assert "result" not in answer.json
    assert answer.json["error"]["message"]
    assert "offline_access" not in answer.challenge.get("scope", "")
