"""Groups and the staff status as identity providers give them: live, both ways, and nothing else touched."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, connections, transaction

from audit.models import Action
from toolhub.identity import groups
from toolhub.identity.models import GroupMapping, Identity, Provider

pytestmark = pytest.mark.django_db


def make_provider(slug: str) -> Provider:
    return Provider.objects.create(slug=slug, name=slug.title(), issuer=f"https://{slug}.example", enabled=True)


def make_person(name: str, provider: Provider, *claimed: str, **fields: Any) -> User:
    user = User.objects.create_user(name, **fields)
    add_identity(user, provider, *claimed)
    return user


def add_identity(user: User, provider: Provider, *claimed: str) -> Identity:
    identity = Identity.objects.create(
        user=user, provider=provider, issuer=provider.issuer, subject=user.username, claimed_groups=list(claimed)
    )
    groups.apply(user.pk)
    return identity


def names(user: User) -> set[str]:
    return set(user.groups.values_list("name", flat=True))


def is_staff(user: User) -> bool:
    return User.objects.get(pk=user.pk).is_staff


def read_given(user: User) -> set[Any]:
    return {one for identity in Identity.objects.filter(user=user) for one in identity.given}


@pytest.fixture
def acme(db: None) -> Provider:
    return make_provider("acme")


@pytest.fixture
def sales(db: None) -> Group:
    return Group.objects.create(name="Sales")


@pytest.fixture
def support(db: None) -> Group:
    return Group.objects.create(name="Support")


def map_group(provider: Provider, value: str, group: Group, *, staff: bool = False) -> GroupMapping:
    return GroupMapping.objects.create(provider=provider, value=value, group=group, staff=staff)


class TestMappings:
    def test_a_new_one_counts_for_everybody_known_at_once(self, acme: Provider, sales: Group) -> None:
        inside, outside = make_person("inside", acme, "s"), make_person("outside", acme, "t")
        map_group(acme, "s", sales)
        assert (names(inside), names(outside)) == ({"Sales"}, set())
        assert read_given(inside) == {sales.pk}

    def test_a_changed_one_moves_people_at_once(self, acme: Provider, sales: Group, support: Group) -> None:
        first, second = make_person("first", acme, "s"), make_person("second", acme, "t")
        mapping = map_group(acme, "s", sales)
        mapping.group = support
        mapping.save()
        assert (names(first), read_given(first)) == ({"Support"}, {support.pk})
        mapping.value = "t"
        mapping.save()
        assert (names(first), names(second)) == (set(), {"Support"})

    def test_a_removed_one_takes_its_group_from_everybody(self, acme: Provider, sales: Group) -> None:
        person = make_person("person", acme, "s")
        map_group(acme, "s", sales).delete()
        assert (names(person), read_given(person)) == (set(), set())

    def test_two_values_for_one_group_give_it_until_both_are_gone(self, acme: Provider, sales: Group) -> None:
        person = make_person("person", acme, "s", "t")
        first, second = map_group(acme, "s", sales), map_group(acme, "t", sales)
        first.delete()
        assert names(person) == {"Sales"}
        second.delete()
        assert names(person) == set()

    def test_values_are_compared_letter_by_letter(self, acme: Provider, sales: Group) -> None:
        person = make_person("person", acme, "Hub", " hub", "hub ")
        map_group(acme, "hub", sales)
        assert names(person) == set()

    def test_two_providers_can_give_one_group(self, acme: Provider, sales: Group) -> None:
        other = make_provider("other")
        map_group(acme, "s", sales)
        map_group(other, "x", sales)
        person = make_person("person", acme, "s")
        second = add_identity(person, other, "x")
        Identity.objects.get(provider=acme).delete()
        assert names(person) == {"Sales"}
        second.delete()
        assert names(person) == set()

    def test_the_group_of_one_provider_is_no_group_of_another(self, acme: Provider, sales: Group) -> None:
        map_group(acme, "s", sales)
        assert names(make_person("person", make_provider("other"), "s")) == set()

    def test_deleting_a_group_leaves_the_person_and_their_other_groups(
        self, acme: Provider, sales: Group, support: Group
    ) -> None:
        map_group(acme, "s", sales)
        map_group(acme, "s", support)
        person = make_person("person", acme, "s")
        sales.delete()
        assert (names(person), read_given(person)) == ({"Support"}, {support.pk})

    def test_deleting_a_person_with_identities_leaves_nothing(self, acme: Provider, sales: Group) -> None:
        map_group(acme, "s", sales, staff=True)
        person = make_person("person", acme, "s")
        add_identity(person, make_provider("other"))
        person.delete()
        assert not Identity.objects.exists()


class TestWhatStays:
    def test_groups_that_are_not_mapped_are_left_alone(self, acme: Provider, sales: Group, support: Group) -> None:
        person = make_person("person", acme, "s")
        person.groups.add(support)
        mapping = map_group(acme, "s", sales)
        assert names(person) == {"Sales", "Support"}
        mapping.delete()
        assert names(person) == {"Support"}

    def test_a_mapped_group_is_the_providers_even_when_somebody_gave_it_by_hand(
        self, acme: Provider, sales: Group
    ) -> None:
        person = make_person("person", acme)
        person.groups.add(sales)
        map_group(acme, "s", sales)
        assert names(person) == set()

    def test_people_without_an_identity_keep_a_mapped_group(self, acme: Provider, sales: Group, alice: User) -> None:
        alice.groups.add(sales)
        map_group(acme, "s", sales)
        groups.apply(alice.pk)
        assert names(alice) == {"Sales"}

    def test_a_superuser_keeps_the_staff_status_and_gets_no_more(self, acme: Provider, sales: Group) -> None:
        person = make_person("person", acme, "s", is_staff=True, is_superuser=True)
        mapping = map_group(acme, "s", sales, staff=True)
        mapping.delete()
        stored = User.objects.get(pk=person.pk)
        assert (stored.is_staff, stored.is_superuser) == (True, True)

    def test_staff_given_by_hand_stays_while_no_mapping_decides_it(self, acme: Provider, sales: Group) -> None:
        person = make_person("person", acme, "s", is_staff=True)
        mapping = map_group(acme, "s", sales)
        assert is_staff(person)
        mapping.delete()
        assert is_staff(person)

    def test_nothing_is_logged_when_nothing_changes(self, acme: Provider, sales: Group) -> None:
        map_group(acme, "s", sales)
        person = make_person("person", acme, "s")
        before = Action.objects.count()
        assert groups.apply(person.pk) is False
        assert Action.objects.count() == before


class TestStaff:
    def test_it_comes_with_a_group_and_goes_with_it(self, acme: Provider, sales: Group) -> None:
        map_group(acme, "s", sales, staff=True)
        person = make_person("person", acme, "s")
        assert (is_staff(person), read_given(person)) == (True, {sales.pk, "staff"})
        Identity.objects.update(claimed_groups=[])
        assert groups.apply(person.pk) is True
        assert (is_staff(person), names(person), read_given(person)) == (False, set(), set())

    @pytest.mark.parametrize("end", ["mapping", "group", "identity"])
    def test_it_goes_with_whatever_gave_it(self, acme: Provider, sales: Group, end: str) -> None:
        mapping = map_group(acme, "s", sales, staff=True)
        person = make_person("person", acme, "s")
        assert is_staff(person)
        {"mapping": mapping, "group": sales, "identity": Identity.objects.get()}[end].delete()
        assert (is_staff(person), names(person)) == (False, set())

    def test_another_mapping_that_says_so_keeps_it(self, acme: Provider, sales: Group, support: Group) -> None:
        first = map_group(acme, "s", sales, staff=True)
        map_group(acme, "s", support, staff=True)
        person = make_person("person", acme, "s")
        first.delete()
        assert is_staff(person)

    def test_the_log_names_the_provider(self, acme: Provider, sales: Group) -> None:
        map_group(acme, "s", sales, staff=True)
        make_person("person", acme, "s")
        found = Action.objects.filter(kind="user", target__startswith="person ").exclude(verb="created")
        actors = set(found.values_list("actor", flat=True))
        assert actors == {"identity provider Acme"}


class TestIssuers:
    def test_a_provider_with_another_issuer_takes_back_what_the_earlier_one_gave(
        self, acme: Provider, sales: Group
    ) -> None:
        map_group(acme, "s", sales, staff=True)
        person = make_person("person", acme, "s")
        acme.issuer = "https://new.example"
        acme.save()
        assert (names(person), is_staff(person), read_given(person)) == (set(), False, set())

    def test_groups_of_an_earlier_issuer_give_nothing_later(self, acme: Provider, sales: Group) -> None:
        person = make_person("person", acme, "s")
        acme.issuer = "https://new.example"
        acme.save()
        map_group(acme, "s", sales)
        assert names(person) == set()

    def test_what_is_stored_in_another_shape_gives_nothing(self, acme: Provider, sales: Group) -> None:
        map_group(acme, "s", sales)
        person = make_person("person", acme)
        for stored in ({"s": "s"}, "s", [["s"], 1, None], None):
            Identity.objects.update(claimed_groups=stored or [])
            groups.apply(person.pk)
            assert names(person) == set()


@pytest.mark.django_db(transaction=True)
def test_two_changes_at_once_wait_for_each_other(acme: Provider, sales: Group) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time.")
    map_group(acme, "s", sales)
    person = make_person("person", acme)
    Identity.objects.update(claimed_groups=["s"])
    changed: list[bool] = []
    ready = threading.Barrier(5)

    def apply() -> None:
        try:
            ready.wait(10)
            changed.append(groups.apply(person.pk))
        finally:
            connections.close_all()

    threads = [threading.Thread(target=apply) for _number in range(4)]
    for thread in threads:
        thread.start()
    with transaction.atomic():
        User.objects.select_for_update().get(pk=person.pk)
        ready.wait(10)
    for thread in threads:
        thread.join(20)
    assert sorted(changed) == [False, False, False, True]
    assert (names(person), read_given(person)) == ({"Sales"}, {sales.pk})
