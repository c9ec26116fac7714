"""What provisioning refuses, and how: with a status, a code that clients know, and nothing changed."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from audit.models import Action
from tests.scim.idp import PATCH, USER, Idp, check_error, user
from toolhub.access.models import AccessToken
from toolhub.identity.models import Identity, Provider
from toolhub.scim import endpoint, memberships
from toolhub.scim.models import ScimGroup, ScimToken, ScimUser

pytestmark = pytest.mark.django_db
ADDRESSES = (
    *("Users", "Users/2819c223-7f76-453a-919d-413861904646", "Groups", "Groups/e9e30dba-f08f-4109-8486-d5c6a331660a"),
    *("ServiceProviderConfig", "ResourceTypes", "ResourceTypes/User", "Schemas", f"Schemas/{USER}"),
    *("", "Me", "Bulk", "nothing/at/all"),
)
ABSENT = "2819c223-7f76-453a-919d-413861904646"


# --- tokens ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ADDRESSES)
def test_without_a_token_no_address_says_anything(idp: Idp, path: str) -> None:
    answer = Client(raise_request_exception=False).get(f"/scim/v2/{path}")
    check_error(answer, 401)
    assert answer["WWW-Authenticate"] == 'Bearer realm="toolhub provisioning"'


@pytest.mark.parametrize(
    "header",
    [
        "Bearer thi_" + "x" * 43,
        "Bearer thi_short",
        "Bearer " + "x" * 9000,
        "Bearer thi_" + "ä" * 43,
        "Basic dXNlcjpwYXNz",
        "Bearer",
        "",
    ],
)
def test_what_is_no_token_of_this_server_is_401(idp: Idp, header: str) -> None:
    answer = idp.send("GET", "Users", HTTP_AUTHORIZATION=header)
    check_error(answer, 401)
    sent = header.startswith("Bearer ")
    assert ('error="invalid_token"' in answer["WWW-Authenticate"]) == sent


@pytest.mark.parametrize("what", ["revoked", "expired", "deleted", "personal"])
def test_a_token_that_ended_or_is_for_something_else_reads_like_an_unknown_one(
    idp: Idp, alice: User, what: str
) -> None:
    unknown = idp.send("GET", "Users", HTTP_AUTHORIZATION="Bearer thi_" + "x" * 43)
    match what:
        case "revoked":
            ScimToken.objects.get().revoke()
        case "expired":
            ScimToken.objects.update(expires=timezone.now() - timedelta(seconds=1))
        case "deleted":
            ScimToken.objects.all().delete()
        case "personal":
            idp.token = AccessToken.objects.issue(alice, "laptop")[1]
    answer = idp.get("Users")
    check_error(answer, 401)
    assert (answer.content, answer["WWW-Authenticate"]) == (unknown.content, unknown["WWW-Authenticate"])


def test_a_provisioning_token_opens_nothing_else(idp: Idp) -> None:
    from toolhub.access.bearer import Authenticator
    from toolhub.access.token_errors import BadToken

    authenticator = Authenticator()
    with pytest.raises(BadToken):
        authenticator._look_up(idp.token, "0" * 64, "", None, 0)
    answer = Client().get("/tools/", HTTP_AUTHORIZATION=f"Bearer {idp.token}")
    assert answer.status_code == 302
    authenticator.settle()


def test_too_many_invalid_tokens_of_one_address_are_429_and_valid_ones_from_there_pass(idp: Idp, settings: Any) -> None:
    settings.BAD_TOKENS_RATE = "3/10h"
    bad = Idp(idp.provider, "thi_" + "x" * 43)
    for _ in range(3):
        check_error(bad.get("Users"), 401)
    limited = bad.get("Users")
    check_error(limited, 429)
    assert 0 < int(limited["Retry-After"]) <= 10 * 3600
    assert idp.get("Users").status_code == 200
    check_error(Idp(idp.provider, bad.token, "198.51.100.4").get("Users"), 401)


def test_each_token_has_a_rate(idp: Idp, other: Idp, settings: Any) -> None:
    settings.PROVISIONING_RATE = "2/10h"
    assert [idp.get("Users").status_code for _ in range(2)] == [200, 200]
    limited = idp.get("Users")
    check_error(limited, 429)
    assert int(limited["Retry-After"]) > 0
    assert other.get("Users").status_code == 200


def test_a_provider_that_is_off_or_has_no_issuer_changes_nothing(idp: Idp) -> None:
    Provider.objects.update(enabled=False)
    check_error(idp.send("POST", "Users", user()), 403)
    Provider.objects.update(enabled=True, issuer="")
    check_error(idp.send("POST", "Users", user()), 403)
    assert not User.objects.exists()


def test_no_cookie_counts(idp: Idp, root: User) -> None:
    browser = Client()
    browser.force_login(root)
    check_error(browser.get("/scim/v2/Users"), 401)
    root.is_superuser = False
    root.save()
    body = json.dumps(user())
    answer = browser.post(
        "/scim/v2/Users", body, content_type=endpoint.CONTENT_TYPE, HTTP_AUTHORIZATION=f"Bearer {idp.token}"
    )
    assert answer.status_code == 201
    assert set(Action.objects.filter(kind="provisioned user").values_list("actor", flat=True)) == {
        "provisioning by Corp"
    }


# --- people of others --------------------------------------------------------------------------------------------


def list_ways(id: str) -> list[tuple[str, str, Any]]:
    operation = {"op": "replace", "path": "active", "value": False}
    return [
        ("GET", f"Users/{id}", None),
        ("PUT", f"Users/{id}", user("mallory")),
        ("PATCH", f"Users/{id}", {"schemas": [PATCH], "Operations": [operation]}),
        ("DELETE", f"Users/{id}", None),
        ("GET", f"Groups/{id}", None),
        ("PUT", f"Groups/{id}", {"displayName": "Mine"}),
        ("PATCH", f"Groups/{id}", {"Operations": [{"op": "replace", "path": "displayName", "value": "Mine"}]}),
        ("DELETE", f"Groups/{id}", None),
    ]


def test_users_and_groups_of_another_provider_read_like_absent_ones(idp: Idp, other: Idp) -> None:
    ada = idp.make_user()
    analysts = idp.make_group("Analysts", ada)
    absent = [other.send(*way) for way in list_ways(ABSENT)]
    for resource in (ada, analysts):
        for way, expected in zip(list_ways(resource["id"]), absent, strict=True):
            answer = other.send(*way)
            check_error(answer, 404)
            assert answer.content == expected.content, way
    assert idp.show(ada) == {**ada, "groups": idp.show(ada)["groups"]}
    assert idp.show(analysts) == analysts
    for name, value in (("userName", ada["userName"]), ("externalId", ada["externalId"]), ("id", ada["id"])):
        assert other.get("Users", filter=f'{name} eq "{value}"').json()["totalResults"] == 0
    assert other.get("Users").json()["totalResults"] == other.get("Groups").json()["totalResults"] == 0
    taken = other.send("POST", "Groups", {"displayName": "Mine", "members": [{"value": ada["id"]}]})
    check_error(taken, 400, "invalidValue")


@pytest.mark.parametrize(
    "id", ["1", "0", "../1", "x" * 500, "%00", "{" + ABSENT + "}", ABSENT.replace("-", ""), "urn:uuid:" + ABSENT]
)
def test_ids_that_cannot_be_are_404(idp: Idp, id: str) -> None:
    for method, path, body in list_ways(id):
        check_error(idp.send(method, path, body), 404)


def test_accounts_without_an_identity_at_the_provider_are_absent(idp: Idp, root: User, alice: User) -> None:
    for account in (root, alice):
        for method, path, body in list_ways(str(account.pk)):
            check_error(idp.send(method, path, body), 404)
        assert idp.get("Users", filter=f'userName eq "{account.username}"').json()["Resources"] == []
        made = idp.make_user(account.username, userName=account.username)
        assert made["userName"] == account.username
        new = Identity.objects.get(subject=made["externalId"]).user
        assert (new.username, new.pk == account.pk) == (f"{account.username}-2", False)
        assert not new.is_staff and not new.is_superuser and not new.has_usable_password()
    assert set(User.objects.filter(is_superuser=True)) == {root}


def test_a_name_with_nothing_before_the_at_sign_is_a_name_of_the_provider(idp: Idp) -> None:
    idp.make_user("ada", userName="@corp.example")
    assert User.objects.get().username == "corp"


def test_people_of_an_earlier_issuer_are_absent_and_their_names_free(idp: Idp) -> None:
    ada = idp.make_user()
    Provider.objects.update(issuer="https://elsewhere.example")
    check_error(idp.get(f"Users/{ada['id']}"), 404)
    assert idp.get("Users").json()["totalResults"] == 0
    again = idp.make_user()
    assert again["id"] != ada["id"]
    assert User.objects.count() == 2


def test_an_identity_of_another_provider_row_with_the_same_issuer_is_not_taken(idp: Idp, other: Idp) -> None:
    idp.make_user()
    Provider.objects.filter(pk=other.provider.pk).update(issuer=idp.provider.issuer)
    check_error(other.send("POST", "Users", user()), 409, "uniqueness")
    assert User.objects.count() == 1


# --- malformed requests ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "scim_type"),
    [
        (" ", "invalidSyntax"),
        ("{", "invalidSyntax"),
        ("[]", "invalidSyntax"),
        ("null", "invalidSyntax"),
        (b"\xff\xfe", "invalidSyntax"),
        ('{"userName": NaN}', "invalidSyntax"),
        ('{"userName": "a", "userName": "b"}', "invalidSyntax"),
        ('{"userName": "a", "USERNAME": "b"}', "invalidSyntax"),
        ('{"userName": "\\ud800"}', "invalidSyntax"),
        ('{"a":' * 40 + "1" + "}" * 40, "invalidSyntax"),
        (user(schemas=["urn:other"]), "invalidSyntax"),
        (user(schemas="x"), "invalidSyntax"),
        (user(externalId=None), "invalidValue"),
        (user(externalId=" "), "invalidValue"),
        (user(externalId=7), "invalidValue"),
        (user(externalId="x" * 256), "invalidValue"),
        (user(externalId="a\u0000b"), "invalidValue"),
        (user(userName=None), "invalidValue"),
        (user(userName=""), "invalidValue"),
        (user(userName=["ada"]), "invalidValue"),
        (user(userName="x" * 256), "invalidValue"),
        (user(userName="a\nb"), "invalidValue"),
        (user(userName="ada\u202e"), "invalidValue"),
        (user(name="Ada"), "invalidSyntax"),
        (user(name={"givenName": 1}), "invalidValue"),
        (user(name={"givenName": "\u0000"}), "invalidValue"),
        (user(emails=[1]), "invalidSyntax"),
        (user(emails=[{"value": "nobody"}]), "invalidValue"),
        (user(emails=[{"value": "a@b\u202e"}]), "invalidValue"),
        (user(emails=[{"value": "a" * 250 + "@b.example"}]), "invalidValue"),
        (user(active="yes"), "invalidValue"),
        (user(active=1), "invalidValue"),
        (user(displayName={}), "invalidValue"),
    ],
)
def test_a_malformed_user_is_400_and_makes_nobody(idp: Idp, body: Any, scim_type: str) -> None:
    check_error(idp.send("POST", "Users", body), 400, scim_type)
    assert not User.objects.exists()
    grace = idp.make_user("grace")
    if not isinstance(body, dict) or "externalId" in body:  # with PUT it is known
        check_error(idp.send("PUT", f"Users/{grace['id']}", body), 400, scim_type)
    assert idp.show(grace) == grace


def test_a_missing_external_id_says_what_to_map(idp: Idp) -> None:
    detail = idp.send("POST", "Users", user(externalId=None)).json()["detail"]
    for word in ("Entra", "objectId", "oid", "Okta"):
        assert word in detail


OPERATIONS: list[tuple[Any, str]] = [
    ([], "invalidSyntax"),
    ("x", "invalidSyntax"),
    ([1], "invalidSyntax"),
    ([{"op": "replace", "path": "active", "value": True}] * 1001, "invalidSyntax"),
    ([{"path": "active", "value": True}], "invalidSyntax"),
    ([{"op": "move", "path": "active", "value": True}], "invalidSyntax"),
    ([{"op": ["add"], "path": "active", "value": True}], "invalidSyntax"),
    ([{"op": "replace", "value": "x"}], "invalidSyntax"),
    ([{"op": "replace"}], "invalidSyntax"),
    ([{"op": "remove"}], "noTarget"),
    ([{"op": "replace", "path": 5, "value": "x"}], "invalidPath"),
    ([{"op": "replace", "path": "a b c", "value": "x"}], "invalidPath"),
    ([{"op": "replace", "path": "x" * 501, "value": "x"}], "invalidPath"),
    ([{"op": "replace", "path": "noSuchThing", "value": "x"}], "invalidPath"),
    ([{"op": "replace", "path": "userName.x", "value": "x"}], "invalidPath"),
    ([{"op": "replace", "path": 'emails[type co "w"].value', "value": "a@b"}], "invalidFilter"),
    ([{"op": "replace", "path": "id", "value": ABSENT}], "mutability"),
    ([{"op": "replace", "path": "meta.location", "value": "x"}], "mutability"),
    ([{"op": "replace", "path": "groups", "value": []}], "mutability"),
    ([{"op": "replace", "path": "password", "value": "secret"}], "mutability"),
    ([{"op": "replace", "value": {"password": "secret"}}], "mutability"),
    ([{"op": "remove", "path": "active"}], "mutability"),
    ([{"op": "remove", "path": "userName"}], "mutability"),
    ([{"op": "remove", "path": "externalId"}], "mutability"),
    ([{"op": "replace", "path": "active", "value": None}], "invalidValue"),
    ([{"op": "replace", "path": "active", "value": "maybe"}], "invalidValue"),
    ([{"op": "replace", "path": "userName", "value": ""}], "invalidValue"),
    ([{"op": "replace", "path": "externalId", "value": ""}], "invalidValue"),
    ([{"op": "replace", "path": "name.givenName", "value": []}], "invalidValue"),
]


@pytest.mark.parametrize(("operations", "scim_type"), OPERATIONS)
def test_a_malformed_patch_of_a_user_is_400_and_changes_nothing(idp: Idp, operations: Any, scim_type: str) -> None:
    ada = idp.make_user()
    first = {"op": "replace", "path": "displayName", "value": "Changed"}
    given = [first, *operations] if isinstance(operations, list) and operations else operations
    check_error(idp.send("PATCH", f"Users/{ada['id']}", {"schemas": [PATCH], "Operations": given}), 400, scim_type)
    assert idp.show(ada) == ada


def test_a_patch_that_is_something_else_is_400(idp: Idp) -> None:
    ada = idp.make_user()
    body = {"schemas": [USER], "Operations": [{"op": "replace", "path": "active", "value": False}]}
    check_error(idp.send("PATCH", f"Users/{ada['id']}", body), 400, "invalidSyntax")
    check_error(idp.send("PATCH", f"Users/{ada['id']}", {"schemas": [PATCH]}), 400, "invalidSyntax")


@pytest.mark.parametrize(
    "text",
    [
        "userName",
        'userName eq ada"',
        "userName eq 'ada'",
        'userName sw "a"',
        'userName pr and externalId eq "x"',
        'userName eq "a" or userName eq "b"',
        'not (userName eq "a")',
        '(userName eq "a")',
        'userName eq "a" and',
        'userName eq "a"userName eq "b"',
        'userName eq "\\q"',
        'userName eq "\\ud800"',
        'userName eq "\\u0000"',
        'nickName eq "x"',
        'emails[type eq "work"].value eq "x"',
        " and ".join(['id eq "x"'] * 11),
        'userName eq "' + "x" * 2000 + '"',
        "é" * 100,
    ],
)
def test_a_filter_that_is_not_understood_is_400(idp: Idp, text: str) -> None:
    for path in ("Users", "Groups"):
        check_error(idp.get(path, filter=text), 400, "invalidFilter")


@pytest.mark.parametrize(("name", "value"), [("startIndex", "x"), ("count", "1.5"), ("count", "9" * 5000)])
def test_page_numbers_that_are_none_are_400(idp: Idp, name: str, value: str) -> None:
    for path in ("Users", "Groups"):
        check_error(idp.get(path, **{name: value}), 400, "invalidValue")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_other_content_types_are_415(idp: Idp, kind: str) -> None:
    check_error(idp.send("POST", "Users", user(), content_type=kind), 415)
    check_error(idp.send("POST", "Groups", {"displayName": "x"}, content_type=kind), 415)


def test_other_methods_are_405(idp: Idp) -> None:
    answer = idp.send("DELETE", "Users")
    check_error(answer, 405)
    assert answer["Allow"] == "GET, POST, HEAD"
    check_error(idp.send("POST", f"Users/{ABSENT}", user()), 405)
    check_error(idp.send("OPTIONS", "Groups"), 405)
    check_error(idp.send("POST", "ServiceProviderConfig", {}), 405)


@pytest.mark.parametrize(
    "path", ["", "Me", "Bulk", "Users/", ".search", "Users/.search", "Schemas/x", "ResourceTypes/x"]
)
def test_addresses_that_are_not_there_are_404_in_json(idp: Idp, path: str) -> None:
    check_error(idp.get(path), 404)


def test_a_large_body_is_413(idp: Idp) -> None:
    large = json.dumps(user(displayName="x" * endpoint.MAX_BODY_BYTES))
    check_error(idp.send("POST", "Users", large), 413)
    answer = idp.send("POST", "Users", user(), CONTENT_LENGTH="99999999999999999999")
    check_error(answer, 400, "invalidSyntax")


# --- what is taken -----------------------------------------------------------------------------------------------


def test_the_same_external_id_or_user_name_again_is_409(idp: Idp) -> None:
    ada, grace = idp.make_user(), idp.make_user("grace")
    check_error(idp.send("POST", "Users", user("ada", userName="other")), 409, "uniqueness")
    check_error(idp.send("POST", "Users", user("new", userName="ADA@Corp.Example")), 409, "uniqueness")
    check_error(idp.send("PUT", f"Users/{grace['id']}", user("grace", userName="Ada@corp.example")), 409, "uniqueness")
    rename = {"op": "replace", "path": "userName", "value": ada["userName"]}
    check_error(idp.patch(f"Users/{grace['id']}", rename), 409, "uniqueness")
    steal = {"op": "replace", "path": "externalId", "value": ada["externalId"]}
    check_error(idp.patch(f"Users/{grace['id']}", steal), 409, "uniqueness")
    assert (idp.show(ada), idp.show(grace)) == (ada, grace)
    assert User.objects.count() == 2


def test_letters_with_other_forms_in_other_cases_are_the_same_name(idp: Idp) -> None:
    idp.make_user("ada", userName="STRASSE-Ü")
    check_error(idp.send("POST", "Users", user("other", userName="straße-ü")), 409, "uniqueness")
    assert idp.get("Users", filter='userName eq "Strasse-ü"').json()["totalResults"] == 1


def test_a_person_who_signed_in_keeps_their_external_id(idp: Idp) -> None:
    ada = idp.make_user()
    Identity.objects.update(last_sign_in=timezone.now())
    change = {"op": "replace", "path": "externalId", "value": "somebody-else"}
    check_error(idp.patch(f"Users/{ada['id']}", change), 400, "mutability")
    check_error(idp.send("PUT", f"Users/{ada['id']}", user(externalId="somebody-else")), 400, "mutability")
    assert Identity.objects.get().subject == "sub-ada"


# --- groups ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "scim_type"),
    [
        ({}, "invalidValue"),
        ({"displayName": ""}, "invalidValue"),
        ({"displayName": 1}, "invalidValue"),
        ({"displayName": "x" * 256}, "invalidValue"),
        ({"displayName": "a\u0000"}, "invalidValue"),
        ({"displayName": ABSENT}, "invalidValue"),
        ({"displayName": ABSENT.upper()}, "invalidValue"),
        ({"displayName": "A", "externalId": []}, "invalidValue"),
        ({"displayName": "A", "schemas": [USER]}, "invalidSyntax"),
        ({"displayName": "A", "members": [{}]}, "invalidValue"),
        ({"displayName": "A", "members": ["x"]}, "invalidSyntax"),
        ({"displayName": "A", "members": [{"value": "x"}]}, "invalidValue"),
        ({"displayName": "A", "members": [{"value": ABSENT}]}, "invalidValue"),
        ({"displayName": "A", "members": [{"value": [ABSENT]}]}, "invalidValue"),
    ],
)
def test_a_malformed_group_is_400_and_makes_none(idp: Idp, body: dict[str, Any], scim_type: str) -> None:
    ada = idp.make_user()
    if body.get("members") == [{"value": ABSENT}]:
        body = {**body, "members": [{"value": ada["id"]}, *body["members"]]}
    check_error(idp.send("POST", "Groups", body), 400, scim_type)
    assert not ScimGroup.objects.exists()
    other = idp.make_group("Other", ada)
    check_error(idp.send("PUT", f"Groups/{other['id']}", body), 400, scim_type)
    assert idp.show(other) == other


@pytest.mark.parametrize(
    ("operation", "scim_type"),
    [
        ({"op": "add", "path": "members", "value": [{"value": ABSENT}]}, "invalidValue"),
        ({"op": "add", "path": "members", "value": [{"value": None}]}, "invalidValue"),
        ({"op": "add", "path": "members", "value": "x"}, "invalidSyntax"),
        ({"op": "remove", "path": 'members[value sw "2"]'}, "invalidFilter"),
        ({"op": "remove", "path": 'members[display eq "ada"]'}, "invalidPath"),
        ({"op": "replace", "path": f'members[value eq "{ABSENT}"]', "value": {}}, "invalidPath"),
        ({"op": "remove", "path": 'members[value eq "x"]'}, "invalidValue"),
        ({"op": "remove", "path": f'members[value eq "{ABSENT}"].display'}, "invalidPath"),
        ({"op": "remove", "path": "displayName"}, "invalidValue"),
        ({"op": "replace", "path": "displayName", "value": ABSENT}, "invalidValue"),
        ({"op": "replace", "path": "id", "value": ABSENT}, "mutability"),
        ({"op": "replace", "path": "owner", "value": "x"}, "invalidPath"),
    ],
)
def test_a_malformed_patch_of_a_group_is_400_and_changes_nothing(
    idp: Idp, operation: dict[str, Any], scim_type: str
) -> None:
    ada, grace = idp.make_user(), idp.make_user("grace")
    group = idp.make_group("Analysts", ada)
    first = {"op": "add", "path": "members", "value": [{"value": grace["id"]}]}
    check_error(idp.patch(f"Groups/{group['id']}", first, operation), 400, scim_type)
    assert idp.show(group) == group
    assert Identity.objects.get(subject="sub-grace").provisioned_groups == []


def test_the_same_name_or_id_of_a_group_again_is_409(idp: Idp, other: Idp) -> None:
    first, second = idp.make_group("Analysts", externalId="g-1"), idp.make_group("Writers", externalId="g-2")
    check_error(idp.send("POST", "Groups", {"displayName": "ANALYSTS"}), 409, "uniqueness")
    check_error(idp.send("POST", "Groups", {"displayName": "New", "externalId": "g-1"}), 409, "uniqueness")
    # What a mapping names is one group: no name is the ID of another.
    check_error(idp.send("POST", "Groups", {"displayName": "g-1"}), 409, "uniqueness")
    check_error(idp.send("POST", "Groups", {"displayName": "New", "externalId": "Writers"}), 409, "uniqueness")
    rename = {"op": "replace", "path": "displayName", "value": "Analysts"}
    check_error(idp.patch(f"Groups/{second['id']}", rename), 409, "uniqueness")
    assert idp.show(first) == first and idp.show(second) == second
    other.make_group("Analysts", externalId="g-1")


def test_a_group_has_a_largest_size(idp: Idp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memberships, "MAX_MEMBERS", 2)
    people = [idp.make_user(name) for name in ("ada", "grace", "joan")]
    members = [{"value": one["id"]} for one in people]
    check_error(idp.send("POST", "Groups", {"displayName": "All", "members": members}), 400, "tooMany")
    group = idp.make_group("Some", *people[:2])
    add = {"op": "add", "path": "members", "value": members[2:]}
    check_error(idp.patch(f"Groups/{group['id']}", add), 400, "tooMany")
    assert idp.show(group) == group


def test_a_refused_request_leaves_no_trace_in_the_audit_log(idp: Idp) -> None:
    before = Action.objects.count()
    idp.send("POST", "Groups", {"displayName": "A", "members": [{"value": ABSENT}]})
    idp.send("POST", "Users", user(active="maybe"))
    assert Action.objects.count() == before
    assert not ScimUser.objects.exists()
