"""The requests of Entra, Okta and OneLogin as their documentation shows them, in the order in which they send them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from tests import factories
from tests.scim.idp import GROUP, PATCH, USER, Idp
from toolhub.identity.models import GroupMapping, Identity

pytestmark = pytest.mark.django_db
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
OBJECT_ID = "58342554-38d6-4ec8-948c-50044d0a33fd"


def ask(idp: Idp, method: str, path: str, body: Any = None, status: int = 200) -> Any:
    answer = idp.send(method, path, body)
    assert answer.status_code == status, (method, path, answer.status_code, answer.content)
    return answer.json() if answer.content else None


def test_entra(idp: Idp) -> None:
    GroupMapping.objects.create(
        provider=idp.provider,
        value="8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
        group=factories.make_group("analysts"),
    )
    # "Test connection" asks for somebody who does not exist.
    found = ask(idp, "GET", "Users?filter=userName+eq+%22a8c3dc0d-1ce4-4d2f-9b76-3c1e8e7b4c4d%22")
    assert (found["totalResults"], found["Resources"]) == (0, [])
    created = ask(
        idp,
        "POST",
        "Users",
        {
            "schemas": [USER, ENTERPRISE],
            "externalId": OBJECT_ID,
            "userName": "Test_User_ab6490ee@testuser.com",
            "active": True,
            "displayName": "lennay",
            "emails": [{"primary": True, "type": "work", "value": "Test_User_fd0ea19b@testuser.com"}],
            "meta": {"resourceType": "User"},
            "name": {"formatted": "givenName familyName", "familyName": "familyName", "givenName": "givenName"},
            "roles": [],
            "addresses": [{"type": "work", "formatted": "x", "primary": False}],
            "phoneNumbers": [{"type": "work", "value": "1"}],
            ENTERPRISE: {"department": "bob", "manager": "x"},
        },
        201,
    )
    user = f"Users/{created['id']}"
    assert Identity.objects.get().subject == OBJECT_ID
    found = ask(idp, "GET", "Users?filter=userName+eq+%22Test_User_ab6490ee%40testuser.com%22")
    assert found["Resources"][0]["id"] == created["id"]
    patched = ask(
        idp,
        "PATCH",
        user,
        {
            "schemas": [PATCH],
            "Operations": [
                {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "updatedEmail@microsoft.com"},
                {"op": "Replace", "path": "name.familyName", "value": "updatedFamilyName"},
                {"op": "Add", "path": 'phoneNumbers[type eq "mobile"].value', "value": "555"},
                {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "x"},
                {"op": "Replace", "value": {"displayName": "Len", "name.givenName": "Lennay", f"{ENTERPRISE}:x": "y"}},
            ],
        },
    )
    assert patched["emails"][0]["value"] == "updatedEmail@microsoft.com"
    assert patched["name"] == {"givenName": "Lennay", "familyName": "updatedFamilyName"}
    assert patched["displayName"] == "Len"
    owner = User.objects.get()
    assert (owner.first_name, owner.last_name, owner.email) == (
        *("Lennay", "updatedFamilyName"),
        "updatedEmail@microsoft.com",
    )
    rename = {"op": "Replace", "path": "userName", "value": "5b50642d@testuser.com"}
    assert ask(idp, "PATCH", user, {"schemas": [PATCH], "Operations": [rename]})["userName"] == "5b50642d@testuser.com"

    found = ask(idp, "GET", "Groups?excludedAttributes=members&filter=displayName+eq+%22displayName%22")
    assert found["Resources"] == []
    group = ask(
        idp,
        "POST",
        "Groups",
        {
            "schemas": [GROUP, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
            "externalId": "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
            "displayName": "displayName",
            "meta": {"resourceType": "Group"},
        },
        201,
    )
    path = f"Groups/{group['id']}"
    assert "members" not in ask(idp, "GET", f"{path}?excludedAttributes=members")
    rename = {"op": "Replace", "path": "displayName", "value": "1879db59-3bdf-4490-ad68-ab880a269474-updated"}
    ask(idp, "PATCH", path, {"schemas": [PATCH], "Operations": [rename]}, 204)
    add = {"op": "Add", "path": "members", "value": [{"$ref": None, "value": created["id"]}]}
    ask(idp, "PATCH", path, {"schemas": [PATCH], "Operations": [add]}, 204)
    assert owner.groups.get().name == "analysts"
    remove = {"op": "Remove", "path": "members", "value": [{"$ref": None, "value": created["id"]}]}
    ask(idp, "PATCH", path, {"schemas": [PATCH], "Operations": [remove]}, 204)
    assert not owner.groups.exists()
    ask(idp, "PATCH", path, {"schemas": [PATCH], "Operations": [add]}, 204)
    remove = {"op": "Remove", "path": f'members[value eq "{created["id"]}"]'}
    ask(idp, "PATCH", path, {"schemas": [PATCH], "Operations": [remove]}, 204)
    assert not owner.groups.exists()

    # Removed from the application, and deleted in the directory for good later.
    for value in ("False", False):
        off = {"op": "Replace", "path": "active", "value": value}
        assert ask(idp, "PATCH", user, {"schemas": [PATCH], "Operations": [off]})["active"] is False
        owner.refresh_from_db()
        assert not owner.is_active
        on = {"op": "Replace", "path": "active", "value": "True" if value else True}
        assert ask(idp, "PATCH", user, {"schemas": [PATCH], "Operations": [on]})["active"] is True
    ask(idp, "DELETE", path, None, 204)
    ask(idp, "DELETE", user, None, 204)
    owner.refresh_from_db()
    assert not owner.is_active


def test_okta(idp: Idp) -> None:
    GroupMapping.objects.create(provider=idp.provider, value="Test SCIMv2", group=factories.make_group("analysts"))
    found = ask(idp, "GET", "Users?startIndex=1&count=2")
    assert found["totalResults"] == 0
    found = ask(idp, "GET", "Users?filter=userName%20eq%20%22test.user%40okta.local%22&startIndex=1&count=100")
    assert found == {
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": 0,
        "startIndex": 1,
        "itemsPerPage": 0,
        "Resources": [],
    }
    whole: dict[str, Any] = {
        "schemas": [USER],
        "userName": "test.user@okta.local",
        "name": {"givenName": "Test", "familyName": "User"},
        "emails": [{"primary": True, "value": "test.user@okta.local", "type": "work"}],
        "displayName": "Test User",
        "locale": "en-US",
        "externalId": "00ujl29u0le5T6Aj10h7",
        "groups": [],
        "password": "1mz050nq",
        "active": True,
    }
    created = ask(idp, "POST", "Users", whole, 201)
    user = f"Users/{created['id']}"
    owner = User.objects.get()
    assert not owner.has_usable_password()
    assert ask(idp, "GET", user) == created
    put = {**whole, "id": created["id"], "name": {"givenName": "Another", "middleName": "", "familyName": "User"}}
    assert ask(idp, "PUT", user, {**put, "meta": created["meta"]})["name"]["givenName"] == "Another"
    off = {"schemas": [PATCH], "Operations": [{"op": "replace", "value": {"active": False}}]}
    assert ask(idp, "PATCH", user, off)["active"] is False
    on = {"schemas": [PATCH], "Operations": [{"op": "replace", "value": {"active": True}}]}
    assert ask(idp, "PATCH", user, on)["active"] is True

    assert ask(idp, "GET", "Groups?startIndex=1&count=100")["Resources"] == []
    group = ask(idp, "POST", "Groups", {"schemas": [GROUP], "displayName": "Test SCIMv2", "members": []}, 201)
    path = f"Groups/{group['id']}"
    member = {"value": created["id"], "display": "test.user@okta.local"}
    add = {"schemas": [PATCH], "Operations": [{"op": "add", "path": "members", "value": [member]}]}
    ask(idp, "PATCH", path, add, 204)
    assert owner.groups.get().name == "analysts"
    assert ask(idp, "GET", path)["members"][0]["value"] == created["id"]
    named = {"op": "replace", "value": {"id": group["id"], "displayName": "Test SCIMv0"}}
    ask(idp, "PATCH", path, {"schemas": [PATCH], "Operations": [named]}, 204)
    assert not owner.groups.exists()
    named["value"] = {"id": group["id"], "displayName": "Test SCIMv2"}
    ask(idp, "PATCH", path, {"schemas": [PATCH], "Operations": [named]}, 204)
    both = [
        {"op": "remove", "path": f'members[value eq "{created["id"]}"]'},
        {"op": "add", "path": "members", "value": [member]},
    ]
    ask(idp, "PATCH", path, {"schemas": [PATCH], "Operations": both}, 204)
    assert owner.groups.get().name == "analysts"
    ask(idp, "PATCH", path, {"schemas": [PATCH], "Operations": both[:1]}, 204)
    assert not owner.groups.exists()
    replace = {"op": "replace", "path": "members", "value": [member]}
    ask(idp, "PATCH", path, {"schemas": [PATCH], "Operations": [replace]}, 204)
    assert owner.groups.get().name == "analysts"
    ask(idp, "DELETE", path, None, 204)
    assert not owner.groups.exists()
    # A person who is no longer assigned.
    assert ask(idp, "PUT", user, {**put, "active": False})["active"] is False
    owner.refresh_from_db()
    assert not owner.is_active


def test_onelogin_and_authentik(idp: Idp) -> None:
    created = ask(
        idp,
        "POST",
        "Users",
        {
            "schemas": [USER],
            "userName": "ada",
            "externalId": "31",
            "name": {"givenName": "Ada", "familyName": "Lovelace"},
            "emails": {"value": "ada@corp.example"},
            "photos": None,
        },
        201,
    )
    assert created["emails"][0]["value"] == "ada@corp.example"
    whole = {
        "id": created["id"],
        "schemas": [USER],
        "userName": "ada",
        "externalId": "31",
        "name": {"formatted": "Ada L", "givenName": "Ada", "familyName": "L"},
        "displayName": "Ada L",
        "photos": [],
        "locale": "en",
        "active": True,
        "emails": [
            {"value": "home@corp.example", "type": "other", "primary": False},
            {"value": "work@corp.example", "type": "work"},
        ],
    }
    assert ask(idp, "PUT", f"Users/{created['id']}", whole)["emails"][0]["value"] == "work@corp.example"
    config = ask(idp, "GET", "ServiceProviderConfig")
    assert config["patch"]["supported"] and not config["bulk"]["supported"]
    group = {"schemas": [GROUP], "externalId": "7", "displayName": "staff"}
    made = ask(idp, "POST", "Groups", group, 201)
    operations = [
        {"op": "replace", "path": None, "value": {**group, "id": made["id"]}},
        {"op": "add", "path": "members", "value": [{"value": created["id"]}]},
    ]
    ask(idp, "PATCH", f"Groups/{made['id']}", {"schemas": [PATCH], "Operations": operations}, 204)
    assert Identity.objects.get().provisioned_groups == ["7", "staff"]


def test_an_address_that_is_not_the_one_of_work_is_left_alone(idp: Idp) -> None:
    ada = idp.make_user()
    for path in ('emails[type eq "home"].value', 'emails[value eq "else@corp.example"]', "emails[primary eq false]"):
        assert (
            idp.patch(f"Users/{ada['id']}", {"op": "replace", "path": path, "value": "new@corp.example"}).json()[
                "emails"
            ]
            == ada["emails"]
        )
    gone = idp.patch(f"Users/{ada['id']}", {"op": "remove", "path": 'emails[type eq "work"]'}).json()
    assert "emails" not in gone
    assert User.objects.get().email == ""
