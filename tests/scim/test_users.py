"""Users over their whole life: provisioned, changed, found, deactivated, deleted, and back."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone

from audit.models import Action
from tests import factories
from tests.scim.idp import Idp, check_error, user
from toolhub.access.models import AccessToken
from toolhub.identity import accounts
from toolhub.identity.models import Deactivation, GroupMapping, Identity
from toolhub.scim.models import ScimUser

pytestmark = pytest.mark.django_db
OFF = {"op": "replace", "path": "active", "value": False}
ON = {"op": "replace", "path": "active", "value": True}


def account(subject: str = "sub-ada") -> User:
    return Identity.objects.select_related("user").get(subject=subject).user


def actors() -> set[str]:
    return set(Action.objects.values_list("actor", flat=True))


# --- provisioned -----------------------------------------------------------------------------------------------------


def test_a_provisioned_person_has_an_account_that_their_first_sign_in_finds(idp: Idp) -> None:
    answer = idp.send("POST", "Users", user("ada", displayName="Ada L.", title="Countess", password="hunter22222"))
    assert answer.status_code == 201
    made = answer.json()
    assert answer["Location"] == made["meta"]["location"] == f"http://localhost:8000/scim/v2/Users/{made['id']}"
    assert answer["Content-Type"] == "application/scim+json"
    expected = {name: value for name, value in user("ada", displayName="Ada L.").items() if name != "schemas"}
    assert {name: made[name] for name in expected} == expected
    identity = Identity.objects.get()
    assert (identity.issuer, identity.subject) == (idp.provider.issuer, "sub-ada")
    assert (identity.provisioned, identity.valid_until, identity.linked_by_owner) == (True, None, False)
    ada = identity.user
    assert (ada.username, ada.first_name, ada.last_name, ada.email) == (
        *("ada", "Ada", "Lovelace"),
        "ada@corp.example",
    )
    assert not ada.has_usable_password() and not ada.is_staff and not ada.is_superuser
    assert b"hunter22222" not in answer.content
    assert "hunter22222" not in repr(list(Action.objects.values()))


def test_everything_is_in_the_audit_log_under_the_name_of_the_provider(idp: Idp) -> None:
    GroupMapping.objects.create(provider=idp.provider, value="Analysts", group=Group.objects.create(name="analysts"))
    Action.objects.all().delete()
    ada = idp.make_user()
    group = idp.make_group("Analysts", ada)
    idp.patch(f"Users/{ada['id']}", OFF)
    idp.patch(f"Users/{ada['id']}", ON)
    idp.patch(f"Users/{ada['id']}", {"op": "replace", "path": "name.givenName", "value": "Augusta"})
    idp.patch(f"Groups/{group['id']}", {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'})
    idp.send("DELETE", f"Groups/{group['id']}")
    idp.send("DELETE", f"Users/{ada['id']}")
    assert actors() == {"provisioning by Corp"}
    kinds = set(Action.objects.values_list("kind", "verb"))
    assert kinds >= {
        *(("provisioned user", "created"), ("provisioned user", "deleted"), ("user", "created"), ("user", "changed")),
        *(("provisioned group", "added to"), ("provisioned group", "removed from"), ("identity", "changed")),
        *(("user", "added to"), ("user", "removed from"), ("deactivation", "created"), ("deactivation", "deleted")),
    }


def test_a_person_without_a_name_is_called_by_their_display_name(idp: Idp) -> None:
    idp.make_user("ada", name=None, displayName="Ada L.", emails=None)
    assert account().get_full_name() == "Ada L."
    assert account().email == ""


def test_a_person_can_be_provisioned_as_inactive(idp: Idp) -> None:
    assert idp.make_user("ada", active=False)["active"] is False
    assert not account().is_active
    assert Deactivation.objects.get().reason == Deactivation.Reason.REMOVED


def test_who_signed_in_before_provisioning_began_keeps_their_account(idp: Idp) -> None:
    bob = accounts.create(idp.provider, "bob")
    identity = Identity.objects.create(
        user=bob, provider=idp.provider, issuer=idp.provider.issuer, subject="sub-bob", last_sign_in=timezone.now()
    )
    assert idp.get("Users", filter='externalId eq "sub-bob"').json()["totalResults"] == 0
    made = idp.make_user("bob")
    assert account("sub-bob") == bob
    assert User.objects.count() == 1
    bob.refresh_from_db()
    identity.refresh_from_db()
    assert (bob.username, bob.first_name, identity.provisioned) == ("bob", "Bob", True)
    check_error(idp.send("POST", "Users", user("bob")), 409, "uniqueness")
    assert idp.show(made)["active"] is True


# --- found -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('userName eq "ada@corp.example"', ["ada"]),
        ('USERNAME EQ "ADA@corp.example"', ["ada"]),
        ('urn:ietf:params:scim:schemas:core:2.0:User:userName eq "ada@corp.example"', ["ada"]),
        ('externalId eq "sub-grace"', ["grace"]),
        ('externalId eq "SUB-grace"', []),
        ('displayName eq "the COUNTESS"', ["ada"]),
        ('userName eq "ada@corp.example" and externalId eq "sub-ada"', ["ada"]),
        ('userName eq "ada@corp.example" AND externalId eq "sub-grace"', []),
        ('userName eq "nobody"', []),
        ('userName eq "\\u0061da@corp.example"', ["ada"]),
        ('id eq "no-uuid"', []),
        ("", ["ada", "grace"]),
    ],
)
def test_people_are_found_by_filters(idp: Idp, text: str, names: list[str]) -> None:
    idp.make_user("ada", displayName="The Countess")
    idp.make_user("grace")
    found = idp.get("Users", filter=text).json()
    assert [one["externalId"] for one in found["Resources"]] == [f"sub-{name}" for name in names]
    assert found["totalResults"] == found["itemsPerPage"] == len(names)


def test_a_person_is_found_by_id(idp: Idp) -> None:
    ada = idp.make_user()
    idp.make_user("grace")
    assert idp.get("Users", filter=f'id eq "{ada["id"]}"').json()["Resources"] == [ada]


def test_a_list_comes_in_pages(idp: Idp) -> None:
    made = [idp.make_user(f"user{number}")["id"] for number in range(5)]
    first = idp.get("Users", startIndex="1", count="2").json()
    assert (first["totalResults"], first["startIndex"], first["itemsPerPage"]) == (5, 1, 2)
    pages = [idp.get("Users", startIndex=str(start), count="2").json()["Resources"] for start in (1, 3, 5, 7)]
    assert [one["id"] for page in pages for one in page] == made
    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert idp.get("Users", count="0").json()["Resources"] == []
    assert idp.get("Users", count="-5").json()["totalResults"] == 5
    assert len(idp.get("Users", startIndex="-3", count="999999").json()["Resources"]) == 5


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"attributes": "userName"}, {"id", "schemas", "userName"}),
        ({"attributes": "USERNAME, active"}, {"id", "schemas", "userName", "active"}),
        ({"attributes": "name.givenName"}, {"id", "schemas", "name"}),
        ({"attributes": "urn:ietf:params:scim:schemas:core:2.0:User:userName"}, {"id", "schemas", "userName"}),
        ({"attributes": "nothing"}, {"id", "schemas"}),
        (
            {"excludedAttributes": "name,emails,meta,id,schemas"},
            {"id", "schemas", "userName", "externalId", "active"},
        ),
    ],
)
def test_a_request_chooses_attributes(idp: Idp, parameters: dict[str, str], names: set[str]) -> None:
    ada = idp.make_user()
    one = idp.get(f"Users/{ada['id']}", **parameters).json()
    (listed,) = idp.get("Users", **parameters).json()["Resources"]
    assert set(one) == set(listed) == names
    if parameters == {"attributes": "name.givenName"}:
        assert one["name"] == {"givenName": "Ada"}


def test_parts_of_an_attribute_can_be_left_out(idp: Idp) -> None:
    ada = idp.make_user()
    found = idp.get(f"Users/{ada['id']}", excludedAttributes="name.familyName,emails.type").json()
    assert found["name"] == {"givenName": "Ada"}
    assert found["emails"] == [{"value": "ada@corp.example", "primary": True}]


def test_a_list_takes_as_many_queries_for_many_as_for_few(idp: Idp, django_assert_max_num_queries: Any) -> None:
    people = [idp.make_user(f"user{number}") for number in range(12)]
    for number in range(4):
        idp.make_group(f"group {number}", *people)
    with django_assert_max_num_queries(7):
        found = idp.get("Users").json()["Resources"]
    assert [len(one["groups"]) for one in found] == [4] * 12
    with django_assert_max_num_queries(7):
        groups = idp.get("Groups").json()["Resources"]
    assert [len(one["members"]) for one in groups] == [12] * 4


# --- changed -----------------------------------------------------------------------------------------------------


def test_changes_of_names_and_addresses_reach_the_account_and_its_name_here_stays(idp: Idp) -> None:
    ada = idp.make_user()
    whole = user("ada", userName="countess@corp.example", name={"givenName": "Augusta"}, emails=[])
    changed = idp.send("PUT", f"Users/{ada['id']}", whole)
    assert changed.status_code == 200
    assert changed.json()["userName"] == "countess@corp.example"
    assert "emails" not in changed.json()
    found = account()
    assert (found.username, found.first_name, found.last_name, found.email) == ("ada", "Augusta", "", "")
    assert Identity.objects.get().label == "countess@corp.example"
    assert idp.show(ada)["meta"]["created"] == ada["meta"]["created"]
    assert idp.show(ada)["meta"]["lastModified"] > ada["meta"]["lastModified"]


def test_what_an_administrator_corrected_stays_until_the_provider_changes_it(idp: Idp) -> None:
    ada = idp.make_user()
    User.objects.update(email="correct@corp.example")
    idp.patch(f"Users/{ada['id']}", {"op": "replace", "path": "name.givenName", "value": "Augusta"})
    assert (account().first_name, account().email) == ("Augusta", "correct@corp.example")
    idp.patch(f"Users/{ada['id']}", {"op": "replace", "path": "emails", "value": [{"value": "new@corp.example"}]})
    assert account().email == "new@corp.example"


@pytest.mark.parametrize("whose", ["linked", "superuser"])
def test_the_account_of_somebody_who_linked_it_and_of_a_superuser_keeps_its_names(
    idp: Idp, alice: User, root: User, whose: str
) -> None:
    owner = alice if whose == "linked" else root
    Identity.objects.create(
        user=owner,
        provider=idp.provider,
        issuer=idp.provider.issuer,
        subject="sub-ada",
        linked_by_owner=whose == "linked",
    )
    ada = idp.make_user()
    idp.patch(f"Users/{ada['id']}", {"op": "replace", "path": "name.givenName", "value": "Augusta"})
    assert idp.show(ada)["name"]["givenName"] == "Augusta"
    owner.refresh_from_db()
    assert (owner.first_name, owner.email, owner.is_superuser) == ("", "", whose == "superuser")


def test_a_put_without_active_or_external_id_leaves_them(idp: Idp) -> None:
    ada = idp.make_user()
    idp.patch(f"Users/{ada['id']}", OFF)
    changed = idp.send("PUT", f"Users/{ada['id']}", user("ada", active=None, externalId=None, displayName="Ada"))
    assert (changed.json()["active"], changed.json()["externalId"]) == (False, "sub-ada")
    assert not account().is_active


def test_a_wrong_external_id_can_be_repaired_before_the_first_sign_in(idp: Idp) -> None:
    ada = idp.make_user("ada", externalId="ada@corp.example")
    changed = idp.patch(f"Users/{ada['id']}", {"op": "replace", "path": "externalId", "value": "sub-ada"})
    assert changed.json()["externalId"] == "sub-ada"
    assert Identity.objects.get().subject == "sub-ada"
    assert User.objects.count() == 1


def test_the_same_again_changes_nothing(idp: Idp) -> None:
    ada = idp.make_user()
    before = Action.objects.count()
    assert idp.send("PUT", f"Users/{ada['id']}", user()).json() == ada
    assert idp.patch(f"Users/{ada['id']}", ON).json() == ada
    assert Action.objects.count() == before


# --- deactivated -------------------------------------------------------------------------------------------------


def test_deactivating_ends_the_account_and_activating_brings_it_back(idp: Idp) -> None:
    ada = idp.make_user()
    token = AccessToken.objects.issue(account(), "laptop")[0]
    assert idp.patch(f"Users/{ada['id']}", OFF).json()["active"] is False
    assert not account().is_active
    assert not AccessToken.objects.usable().filter(pk=token.pk).exists()
    assert Identity.objects.get().provisioned is False
    assert Deactivation.objects.get().reason == Deactivation.Reason.REMOVED
    assert idp.patch(f"Users/{ada['id']}", ON).json()["active"] is True
    assert account().is_active
    assert not Deactivation.objects.exists()


def test_an_account_that_an_administrator_deactivated_stays_so(idp: Idp) -> None:
    ada = idp.make_user()
    User.objects.filter(pk=account().pk).update(is_active=False)
    assert idp.show(ada)["active"] is False
    for change in (ON, OFF, ON):
        assert idp.patch(f"Users/{ada['id']}", change).json()["active"] is False
    assert not account().is_active
    idp.patch(f"Users/{ada['id']}", OFF)
    owner = account()
    owner.is_active = True
    owner.save()
    assert idp.show(ada)["active"] is False, "the provider still says so"


def test_a_change_of_something_else_does_not_repeat_what_an_administrator_decided(idp: Idp) -> None:
    ada = idp.make_user()
    User.objects.filter(pk=account().pk).update(is_active=False)
    idp.patch(f"Users/{ada['id']}", {"op": "replace", "path": "displayName", "value": "Ada"})
    assert Identity.objects.get().provisioned is True
    User.objects.filter(pk=account().pk).update(is_active=True)
    assert idp.show(ada)["active"] is True


@pytest.mark.parametrize("reason", [Deactivation.Reason.REFUSED, Deactivation.Reason.LAPSED])
def test_only_a_change_to_active_undoes_what_the_sign_in_found(idp: Idp, reason: Deactivation.Reason) -> None:
    ada = idp.make_user()
    accounts.deactivate(account().pk, reason, "test")
    idp.send("PUT", f"Users/{ada['id']}", user("ada", displayName="Ada"))
    assert not account().is_active, "the provider did not say that anything changed"
    idp.patch(f"Users/{ada['id']}", OFF)
    idp.patch(f"Users/{ada['id']}", ON)
    assert account().is_active


def test_a_provider_does_not_undo_what_another_one_decided(idp: Idp, other: Idp) -> None:
    ada = idp.make_user()
    owner = account()
    Identity.objects.create(user=owner, provider=other.provider, issuer=other.provider.issuer, subject="sub-ada")
    theirs = other.make_user()
    idp.patch(f"Users/{ada['id']}", OFF)
    assert other.show(theirs)["active"] is False
    for change in (OFF, ON):
        assert other.patch(f"Users/{theirs['id']}", change).json()["active"] is False
    assert not User.objects.get(pk=owner.pk).is_active
    assert idp.patch(f"Users/{ada['id']}", ON).json()["active"] is True
    accounts.deactivate(owner.pk, Deactivation.Reason.REFUSED, "the sign-in with the first provider")
    for change in (OFF, ON):
        other.patch(f"Users/{theirs['id']}", change)
    assert not User.objects.get(pk=owner.pk).is_active


def test_the_last_administrator_with_a_password_stays_active_until_there_is_another(idp: Idp, root: User) -> None:
    Identity.objects.create(user=root, provider=idp.provider, issuer=idp.provider.issuer, subject="sub-root")
    roots = idp.make_user("root")
    assert idp.patch(f"Users/{roots['id']}", OFF).json()["active"] is False
    assert account("sub-root").is_active
    User.objects.create_superuser("second", password="correct horse battery")
    idp.patch(f"Users/{roots['id']}", OFF)
    assert not account("sub-root").is_active
    assert account("sub-root").is_superuser


# --- deleted -----------------------------------------------------------------------------------------------------


def test_deleting_deactivates_the_account_and_keeps_it_and_creating_brings_it_back(idp: Idp) -> None:
    GroupMapping.objects.create(provider=idp.provider, value="Analysts", group=factories.make_group("analysts"))
    ada = idp.make_user()
    idp.make_group("Analysts", ada)
    owner = account()
    assert owner.groups.exists()
    answer = idp.send("DELETE", f"Users/{ada['id']}")
    assert (answer.status_code, answer.content) == (204, b"")
    check_error(idp.get(f"Users/{ada['id']}"), 404)
    check_error(idp.send("DELETE", f"Users/{ada['id']}"), 404)
    assert not ScimUser.objects.exists()
    assert account() == owner and not account().is_active and not owner.groups.exists()
    assert idp.get("Groups").json()["Resources"][0].get("members", []) == []
    again = idp.make_user()
    assert again["id"] != ada["id"] and again["active"] is True
    assert account() == owner and account().is_active and not owner.groups.exists()
    assert User.objects.count() == 1


def test_a_deleted_account_is_forgotten_with_its_user(idp: Idp) -> None:
    ada = idp.make_user()
    idp.make_group("Analysts", ada)
    account().delete()
    check_error(idp.get(f"Users/{ada['id']}"), 404)
    assert idp.make_user()["active"] is True
