"""What this server says about itself, and that users and groups are what it says (RFC 7643)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.scim.idp import GROUP, USER, Idp, check_error

pytestmark = pytest.mark.django_db
COMMON = {"id", "schemas", "meta"}
TYPES: dict[str, Any] = {"string": str, "boolean": bool, "reference": str}
CHARACTERISTICS = {"name", "type", "multiValued", "description", "required", "mutability", "returned"}


def read_schema(idp: Idp, id: str) -> dict[str, Any]:
    found: dict[str, Any] = idp.get(f"Schemas/{id}").json()
    return found


def find_problems(value: Any, attribute: dict[str, Any]) -> list[str]:
    """Where a value is not what the schema declares."""
    name = attribute["name"]
    if attribute["multiValued"]:
        if not isinstance(value, list):
            return [f"{name} is no list"]
        single = {**attribute, "multiValued": False}
        return [problem for one in value for problem in find_problems(one, single)]
    if attribute["type"] != "complex":
        return [] if isinstance(value, TYPES[attribute["type"]]) else [f"{name} is {value!r}"]
    parts = {part["name"]: part for part in attribute["subAttributes"]}
    problems = [f"{name}.{part} is not declared" for part in value if part not in parts]
    return problems + [
        problem for part, one in value.items() if part in parts for problem in find_problems(one, parts[part])
    ]


@pytest.mark.parametrize("kind", ["User", "Group"])
def test_a_resource_has_what_its_schema_declares_and_nothing_else(idp: Idp, kind: str) -> None:
    ada = idp.make_user("ada", displayName="Ada")
    group = idp.make_group("Analysts", ada, externalId="g-1")
    resource = idp.show(ada if kind == "User" else group)
    schema = read_schema(idp, USER if kind == "User" else GROUP)
    attributes = {one["name"]: one for one in schema["attributes"]}
    assert set(resource) == COMMON | set(attributes)
    assert resource["schemas"] == [schema["id"]]
    assert [problem for name in attributes for problem in find_problems(resource[name], attributes[name])] == []
    meta = resource["meta"]
    assert set(meta) == {"resourceType", "created", "lastModified", "location"}
    assert meta["resourceType"] == kind
    assert meta["location"] == f"http://localhost:8000/scim/v2/{kind}s/{resource['id']}"
    for name in ("created", "lastModified"):
        assert datetime.fromisoformat(meta[name]).tzinfo is not None
    for name, attribute in attributes.items():
        assert set(attribute) >= CHARACTERISTICS, name
    assert "password" not in attributes


def test_the_address_of_a_member_and_of_a_group_lead_to_them(idp: Idp) -> None:
    ada = idp.make_user()
    group = idp.make_group("Analysts", ada)
    for url, expected in (
        (group["members"][0]["$ref"], idp.show(ada)),
        (idp.show(ada)["groups"][0]["$ref"], group),
    ):
        assert idp.get(url.partition("/scim/v2/")[2]).json() == expected


def test_documents_about_this_server(idp: Idp) -> None:
    config = idp.get("ServiceProviderConfig").json()
    assert config["schemas"] == ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"]
    supported = {
        name: config[name]["supported"] for name in ("patch", "bulk", "filter", "changePassword", "sort", "etag")
    }
    assert supported == {
        **dict.fromkeys(("patch", "filter"), True),
        **dict.fromkeys(("bulk", "changePassword", "sort", "etag"), False),
    }
    assert config["authenticationSchemes"][0]["type"] == "oauthbearertoken"
    types = idp.get("ResourceTypes").json()
    assert [(one["id"], one["endpoint"], one["schema"]) for one in types["Resources"]] == [
        ("User", "/Users", USER),
        ("Group", "/Groups", GROUP),
    ]
    schemas = idp.get("Schemas").json()
    assert [one["id"] for one in schemas["Resources"]] == [USER, GROUP]
    for listed in (types, schemas):
        assert listed["totalResults"] == 2
        for one in listed["Resources"]:
            assert idp.get(one["meta"]["location"].partition("/scim/v2/")[2]).json() == one
    check_error(idp.get("Schemas/urn:other"), 404)


def test_a_head_request_is_a_get_without_a_body(idp: Idp) -> None:
    answer = idp.send("HEAD", "Users")
    assert (answer.status_code, answer.content) == (200, b"")
