"""A GitHub Enterprise server as far as signing in needs one: authorize, access_token, user, orgs, teams."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.identity.stand_in import Answer, Asked, StandIn

CLIENT_ID, CLIENT_SECRET = "toolhub", "s3cret-of-the-client"
API = "/api/v3/user"


@dataclass(slots=True)
class Member:
    number: int
    login: str
    organizations: list[str] = field(default_factory=list)
    teams: list[str] = field(default_factory=list)
    """Each "organization/team"."""


class GitHub(StandIn):
    def __init__(self) -> None:
        super().__init__()
        self.codes: dict[str, tuple[Member, str]] = {}
        self.tokens: dict[str, Member] = {}
        self.answers = {
            "/login/oauth/access_token": self._give_token,
            API: lambda asked: self._about(asked, lambda member: {"id": member.number, "login": member.login}),
            f"{API}/orgs": lambda asked: self._about(asked, lambda member: self._orgs(member, asked)),
            f"{API}/teams": lambda asked: self._about(asked, lambda member: self._teams(member, asked)),
        }

    def answer(self, address: str, member: Member) -> str:
        """Sign in there as this person, and return the address to which GitHub sends the browser back."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert urlsplit(address).path == "/login/oauth/authorize"
        assert query["code_challenge_method"] == "S256"
        assert query["client_id"] == CLIENT_ID
        code = secrets.token_hex(8)
        self.codes[code] = (member, query["code_challenge"])
        parts = urlsplit(query["redirect_uri"])
        return f"{parts.path}?{urlencode({'code': code, 'state': query['state']})}"

    def _give_token(self, asked: Asked) -> Answer:
        member, challenge = self.codes.pop(asked.form.get("code", ""), (None, ""))
        digest = hashlib.sha256(asked.form.get("code_verifier", "").encode()).digest()
        proven = base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == challenge
        if member is None or not proven or asked.form.get("client_secret") != CLIENT_SECRET:
            return Answer({"error": "bad_verification_code"})  # GitHub's status is 200
        token = f"gho_{secrets.token_hex(8)}"
        self.tokens[token] = member
        return Answer({"access_token": token, "token_type": "bearer", "scope": "read:org,read:user"})

    def _about(self, asked: Asked, tell: Any) -> Answer:
        member = self.tokens.get(asked.headers.get("authorization", "").removeprefix("Bearer "))
        return Answer({"message": "Bad credentials"}, 401) if member is None else Answer(tell(member))

    def _orgs(self, member: Member, asked: Asked) -> list[Any]:
        return _page([{"login": name, "id": len(name)} for name in member.organizations], asked)

    def _teams(self, member: Member, asked: Asked) -> list[Any]:
        pairs = (name.split("/") for name in member.teams)
        return _page([{"slug": slug, "organization": {"login": organization}} for organization, slug in pairs], asked)


def _page(rows: list[Any], asked: Asked) -> list[Any]:
    size, number = int(asked.query.get("per_page", 30)), int(asked.query.get("page", 1))
    return rows[(number - 1) * size : number * size]
