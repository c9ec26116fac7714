"""An identity provider that provisions: what it sends, without cookies."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.test import Client

from toolhub.identity.models import Provider
from toolhub.scim.models import ScimToken

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
ERROR = "urn:ietf:params:scim:api:messages:2.0:Error"
SCIM = "application/scim+json"


def make_provider(slug: str = "corp", **fields: Any) -> Provider:
    given = {"name": slug.capitalize(), "issuer": f"https://{slug}.example", "enabled": True, **fields}
    return Provider.objects.create(slug=slug, **given)


@dataclass
class Idp:
    provider: Provider
    token: str
    address: str = "203.0.113.9"

    @classmethod
    def connect(cls, provider: Provider) -> Idp:
        return cls(provider, ScimToken.objects.issue(provider)[1])

    def send(self, method: str, path: str, body: Any = None, **headers: Any) -> Any:
        """The answer; a body that is text or bytes is sent as it is."""
        raw = body if isinstance(body, bytes | str) else b"" if body is None else json.dumps(body)
        given = {"HTTP_AUTHORIZATION": f"Bearer {self.token}", "content_type": SCIM, **headers}
        given = {name: value for name, value in given.items() if value is not None}
        client = Client(REMOTE_ADDR=self.address, raise_request_exception=False)
        return client.generic(method, f"/scim/v2/{path}", raw, **given)

    def get(self, path: str, **parameters: str) -> Any:
        client = Client(REMOTE_ADDR=self.address, raise_request_exception=False)
        return client.get(f"/scim/v2/{path}", parameters, HTTP_AUTHORIZATION=f"Bearer {self.token}")

    def patch(self, path: str, *operations: dict[str, Any]) -> Any:
        return self.send("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})

    def make_user(self, who: str = "ada", /, **more: Any) -> dict[str, Any]:
        answer = self.send("POST", "Users", user(who, **more))
        assert answer.status_code == 201, answer.content
        made: dict[str, Any] = answer.json()
        return made

    def make_group(self, name: str = "Analysts", *members: dict[str, Any], **more: Any) -> dict[str, Any]:
        listed = [{"value": one["id"]} for one in members]
        answer = self.send("POST", "Groups", {"schemas": [GROUP], "displayName": name, "members": listed, **more})
        assert answer.status_code == 201, answer.content
        made: dict[str, Any] = answer.json()
        return made

    def show(self, resource: dict[str, Any]) -> dict[str, Any]:
        """The resource as it is now."""
        answer = self.get(f"{resource['meta']['resourceType']}s/{resource['id']}")
        assert answer.status_code == 200, answer.content
        found: dict[str, Any] = answer.json()
        return found


def user(who: str = "ada", /, **more: Any) -> dict[str, Any]:
    """A whole user; None leaves something out."""
    given = {
        "schemas": [USER],
        "externalId": f"sub-{who}",
        "userName": f"{who}@corp.example",
        "name": {"givenName": who.capitalize(), "familyName": "Lovelace"},
        "emails": [{"value": f"{who}@corp.example", "type": "work", "primary": True}],
        "active": True,
        **more,
    }
    return {key: value for key, value in given.items() if value is not None}


def check_error(answer: Any, status: int, scim_type: str = "") -> None:
    """It is the SCIM error that it must be."""
    assert answer.status_code == status, (answer.status_code, answer.content)
    assert answer["Content-Type"] == SCIM
    assert answer["Cache-Control"] == "no-store"
    body = answer.json()
    assert body["schemas"] == [ERROR]
    assert body["status"] == str(status)
    assert body.get("scimType", "") == scim_type, body
    assert body["detail"]
