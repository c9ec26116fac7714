"""The steps of a client that signs a person in, over the addresses that clients use."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.conf import settings
from django.test import Client as Browser

CALLBACK = "http://127.0.0.1:41234/callback"
ISSUER = settings.PUBLIC_URL
RESOURCE = f"{settings.PUBLIC_URL}/mcp"


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


@dataclass
class App:
    """A registered client, and what it sends. Its requests have no cookies."""

    client_id: str
    secret: str = ""
    redirect_uri: str = CALLBACK
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    state: str = field(default_factory=lambda: secrets.token_urlsafe(8))
    address: str = "203.0.113.7"

    @property
    def http(self) -> Browser:
        return Browser(REMOTE_ADDR=self.address)

    def query(self, **changes: Any) -> str:
        """The parameters of the authorization request; None leaves one out."""
        given = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "scope": "mcp",
            "code_challenge": challenge_of(self.verifier),
            "code_challenge_method": "S256",
            "resource": RESOURCE,
            **changes,
        }
        return urlencode({name: value for name, value in given.items() if value is not None}, doseq=True)

    def url(self, **changes: Any) -> str:
        return f"/oauth/authorize?{self.query(**changes)}"

    def exchange(self, code: str, **changes: Any) -> Any:
        given = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "client_id": self.client_id,
            "code_verifier": self.verifier,
            "resource": RESOURCE,
            **({"client_secret": self.secret} if self.secret else {}),
            **changes,
        }
        return self.post("/oauth/token", given)

    def refresh(self, token: str, **changes: Any) -> Any:
        given = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id, **changes}
        return self.post("/oauth/token", given)

    def revoke(self, token: str, **changes: Any) -> Any:
        return self.post("/oauth/revoke", {"token": token, "client_id": self.client_id, **changes})

    def post(self, path: str, given: dict[str, Any]) -> Any:
        values = {name: value for name, value in given.items() if value is not None}
        return self.http.post(path, urlencode(values, doseq=True), content_type="application/x-www-form-urlencoded")


def register(address: str = "203.0.113.7", **metadata: Any) -> App:
    """Register a public client of this name."""
    given = {
        "client_name": "Testing client",
        "redirect_uris": [CALLBACK],
        "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        **metadata,
    }
    answer = Browser(REMOTE_ADDR=address).post("/oauth/register", given, content_type="application/json")
    assert answer.status_code == 201, answer.content
    made = answer.json()
    return App(made["client_id"], made.get("client_secret", ""), made["redirect_uris"][0], address=address)


def ask(browser: Browser, app: App, **changes: Any) -> Any:
    """Open the page that asks the person."""
    return browser.get(app.url(**changes))


def decide(browser: Browser, app: App, page: Any, decision: str = "allow", **form: Any) -> Any:
    """Send the form of that page."""
    given = {"nonce": page.context["nonce"], "decision": decision, "access": "everything", "days": 90, **form}
    return browser.post(page.context["action"], {name: value for name, value in given.items() if value is not None})


def parameters(answer: Any) -> dict[str, str]:
    """The parameters of a redirect to the client."""
    assert answer.status_code == 302, answer.content
    return {name: values[0] for name, values in parse_qs(urlsplit(answer["Location"]).query).items()}


def get_code(browser: Browser, app: App, **form: Any) -> str:
    """Let the person allow the client, and return the code."""
    return parameters(decide(browser, app, ask(browser, app), **form))["code"]


def connect(browser: Browser, app: App | None = None, **form: Any) -> tuple[App, dict[str, Any]]:
    """Go through all steps and return the client with its tokens."""
    app = app or register()
    answer = app.exchange(get_code(browser, app, **form))
    assert answer.status_code == 200, answer.content
    return app, answer.json()
