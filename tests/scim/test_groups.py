"""Groups of a provider: they give nothing until they are mapped, and then membership here follows at once."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from audit.models import Action
from tests import factories
from tests.scim.idp import Idp, check_error
from toolhub.identity.models import GroupMapping, Identity
from toolhub.scim import memberships
from toolhub.scim.models import ScimGroup, ScimUser

pytestmark = pytest.mark.django_db
LARGE = 1_000


def members_of(name: str) -> set[str]:
    """The subjects of the people in a group here."""
    found = Identity.objects.filter(user__groups__name=name)
    return {subject.removeprefix("sub-") for subject in found.values_list("subject", flat=True)}


def map_group(idp: Idp, value: str, name: str = "analysts", **fields: Any) -> GroupMapping:
    return GroupMapping.objects.create(provider=idp.provider, value=value, group=factories.make_group(name), **fields)


def value_of(*users: dict[str, Any]) -> list[dict[str, str]]:
    return [{"value": one["id"]} for one in users]


def test_a_group_that_is_not_mapped_gives_nothing_and_a_mapping_works_at_once_both_ways(idp: Idp) -> None:
    ada = idp.make_user()
    group = idp.make_group("Analysts", ada, externalId="g-1")
    assert Identity.objects.get().provisioned_groups == ["Analysts", "g-1"]
    assert not User.objects.get().groups.exists()
    for value in ("Analysts", "g-1"):
        mapping = map_group(idp, value)
        assert members_of("analysts") == {"ada"}
        mapping.delete()
        assert members_of("analysts") == set()
    for value in ("analysts", "Analyst", group["id"]):
        map_group(idp, value)
    assert members_of("analysts") == set()


def test_a_mapping_of_another_provider_means_another_group(idp: Idp, other: Idp) -> None:
    map_group(other, "Analysts")
    idp.make_group("Analysts", idp.make_user())
    assert members_of("analysts") == set()
    other.make_group("Analysts", other.make_user("grace"))
    assert members_of("analysts") == {"grace"}


def test_members_are_added_removed_and_replaced(idp: Idp) -> None:
    map_group(idp, "Analysts")
    ada, grace, joan = (idp.make_user(name) for name in ("ada", "grace", "joan"))
    group = idp.make_group("Analysts", ada)
    path = f"Groups/{group['id']}"
    steps: tuple[tuple[dict[str, Any], set[str]], ...] = (
        ({"op": "add", "path": "members", "value": value_of(grace, joan)}, {"ada", "grace", "joan"}),
        ({"op": "add", "path": "members", "value": value_of(grace, grace)}, {"ada", "grace", "joan"}),
        ({"op": "remove", "path": f'members[value eq "{ada["id"]}"]'}, {"grace", "joan"}),
        ({"op": "remove", "path": f'members[value eq "{ada["id"]}"]'}, {"grace", "joan"}),
        ({"op": "remove", "path": "members", "value": value_of(grace)}, {"joan"}),
        ({"op": "replace", "path": "members", "value": value_of(ada, grace)}, {"ada", "grace"}),
        ({"op": "replace", "value": {"members": value_of(joan)}}, {"joan"}),
        ({"op": "remove", "path": "members"}, set()),
    )
    for operation, expected in steps:
        answer = idp.patch(path, operation)
        assert (answer.status_code, answer.content) == (204, b""), answer.content
        assert members_of("analysts") == expected, operation
        shown = {one["display"].partition("@")[0] for one in idp.get(path).json().get("members", [])}
        assert shown == expected
    put = idp.send("PUT", path, {"displayName": "Analysts", "members": value_of(ada, joan)})
    assert put.status_code == 200
    assert members_of("analysts") == {"ada", "joan"}
    idp.send("PUT", path, {"displayName": "Analysts"})
    assert members_of("analysts") == set()


def test_a_patch_answers_with_the_group_to_those_who_ask_for_attributes(idp: Idp) -> None:
    group = idp.make_group("Analysts")
    body = {"Operations": [{"op": "replace", "path": "displayName", "value": "Writers"}]}
    answer = idp.send("PATCH", f"Groups/{group['id']}?attributes=displayName", body)
    assert answer.status_code == 200
    assert {name: answer.json()[name] for name in ("id", "displayName")} == {
        "id": group["id"],
        "displayName": "Writers",
    }


def test_a_new_name_moves_the_members_to_what_it_is_mapped_to(idp: Idp) -> None:
    map_group(idp, "Analysts")
    map_group(idp, "Writers", "writers")
    group = idp.make_group("Analysts", idp.make_user())
    idp.patch(f"Groups/{group['id']}", {"op": "Replace", "path": "displayName", "value": "Writers"})
    assert (members_of("analysts"), members_of("writers")) == (set(), {"ada"})
    assert Identity.objects.get().provisioned_groups == ["Writers"]


def test_a_deleted_group_gives_nothing_any_more(idp: Idp) -> None:
    map_group(idp, "Analysts")
    ada = idp.make_user()
    group, kept = idp.make_group("Analysts", ada), idp.make_group("Writers", ada)
    assert idp.send("DELETE", f"Groups/{group['id']}").status_code == 204
    check_error(idp.send("DELETE", f"Groups/{group['id']}"), 404)
    assert members_of("analysts") == set()
    assert Identity.objects.get().provisioned_groups == ["Writers"]
    assert [one["value"] for one in idp.show(ada)["groups"]] == [kept["id"]]


def test_groups_that_an_administrator_gave_stay(idp: Idp) -> None:
    map_group(idp, "Analysts")
    ada = idp.make_user()
    own = Group.objects.create(name="own")
    own.user_set.add(User.objects.get())
    group = idp.make_group("Analysts", ada)
    idp.send("DELETE", f"Groups/{group['id']}")
    assert members_of("own") == {"ada"}


def test_a_mapped_group_makes_staff_and_never_a_superuser(idp: Idp) -> None:
    map_group(idp, "Administrators", "operators", staff=True)
    ada = idp.make_user()
    group = idp.make_group("Administrators", ada)
    person = User.objects.get()
    assert (person.is_staff, person.is_superuser) == (True, False)
    idp.patch(f"Groups/{group['id']}", {"op": "remove", "path": "members"})
    person.refresh_from_db()
    assert (person.is_staff, person.is_superuser) == (False, False)


def test_groups_are_found_by_filters(idp: Idp) -> None:
    analysts, writers = idp.make_group("Analysts", externalId="g-1"), idp.make_group("Writers")
    for text, expected in (
        ('displayName eq "ANALYSTS"', [analysts]),
        ('externalId eq "g-1"', [analysts]),
        (f'id eq "{writers["id"]}" and displayName eq "writers"', [writers]),
        (f'id eq "{writers["id"]}" and displayName eq "analysts"', []),
    ):
        assert idp.get("Groups", filter=text).json()["Resources"] == expected, text


def test_members_can_be_left_out(idp: Idp) -> None:
    group = idp.make_group("Analysts", idp.make_user())
    assert "members" not in idp.get(f"Groups/{group['id']}", excludedAttributes="members").json()
    (listed,) = idp.get("Groups", excludedAttributes="members").json()["Resources"]
    assert "members" not in listed
    found = idp.get(f"Groups/{group['id']}", attributes="members.value").json()
    assert found["members"] == [{"value": group["members"][0]["value"]}]


def test_a_page_of_groups_has_no_more_members_than_one_group_may_have(
    idp: Idp, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [idp.make_user(f"user{number}") for number in range(3)]
    made = [idp.make_group(f"Group {number}", *people)["id"] for number in range(4)]
    monkeypatch.setattr(memberships, "MAX_MEMBERS", 6)
    first = idp.get("Groups").json()
    assert (first["totalResults"], first["itemsPerPage"]) == (4, 2)
    rest = idp.get("Groups", startIndex="3").json()
    assert [one["id"] for one in first["Resources"] + rest["Resources"]] == made
    assert idp.get("Groups", excludedAttributes="members").json()["itemsPerPage"] == 4


# --- large groups ------------------------------------------------------------------------------------------------


def make_people(idp: Idp, number: int) -> list[dict[str, str]]:
    """So many users at once, as members."""
    users = User.objects.bulk_create([User(username=f"person{place}", password="!") for place in range(number)])
    identities = Identity.objects.bulk_create(
        Identity(user=user, provider=idp.provider, issuer=idp.provider.issuer, subject=f"sub-{user.username}")
        for user in users
    )
    made = ScimUser.objects.bulk_create(
        ScimUser(
            provider=idp.provider,
            identity=identity,
            user_name=identity.user.username,
            user_name_key=identity.user.username,
        )
        for identity in identities
    )
    return [{"value": str(one.pk)} for one in made]


def count_queries(work: Any) -> int:
    with CaptureQueriesContext(connection) as captured:
        answer = work()
    assert answer.status_code < 300, answer.content
    return len(captured)


def test_a_thousand_members_take_about_as_many_queries_as_ten(idp: Idp) -> None:
    map_group(idp, "Large")
    map_group(idp, "Renamed", "renamed")
    people = make_people(idp, LARGE)
    numbers: dict[int, list[int]] = {}
    for size in (10, LARGE):
        listed = people[:size]
        made = idp.send("POST", "Groups", {"displayName": f"First {size}"}).json()
        path = f"Groups/{made['id']}"
        rename = {"op": "replace", "path": "displayName", "value": "Large"}
        away = {"op": "replace", "path": "displayName", "value": "Renamed"}
        some = {"op": "remove", "path": f'members[value eq "{listed[0]["value"]}"]'}
        back = {"op": "add", "path": "members", "value": listed[:1]}
        operations: tuple[Any, ...] = (
            lambda path=path, listed=listed: idp.patch(path, {"op": "add", "path": "members", "value": listed}),
            lambda path=path, rename=rename: idp.patch(path, rename),
            lambda path=path, some=some: idp.patch(path, some),
            lambda path=path, back=back: idp.patch(path, back),
            lambda path=path: idp.get(path),
            lambda path=path, away=away: idp.patch(path, away),
            lambda path=path: idp.send("DELETE", path),
        )
        numbers[size] = [count_queries(work) for work in operations[:-1]]
        assert len(members_of("renamed")) == size
        assert len(members_of("analysts")) == 0
        numbers[size].append(count_queries(operations[-1]))
        assert members_of("renamed") == set()
    for few, many in zip(numbers[10], numbers[LARGE], strict=True):
        # A statement of SQLite has 999 parameters: more rows take a few more of them.
        assert many <= few + 50, numbers
    assert max(numbers[LARGE]) < 120, numbers
    assert Action.objects.filter(kind="group", verb="added to", target__startswith="analysts").exists()


def test_an_unknown_member_among_many_keeps_all_out(idp: Idp) -> None:
    map_group(idp, "Large")
    people = make_people(idp, 50)
    group = idp.make_group("Large")
    unknown = {"value": "2819c223-7f76-453a-919d-413861904646"}
    add = {"op": "add", "path": "members", "value": [*people, unknown]}
    check_error(idp.patch(f"Groups/{group['id']}", add), 400, "invalidValue")
    assert not ScimGroup.objects.get().members.exists()
    assert members_of("analysts") == set()
