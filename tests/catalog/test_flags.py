"""Flags: the users they are on for, what they refuse, and their pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from audit.models import Action
from catalog.conditions import flags, words
from catalog.conditions.mistakes import FlagError
from catalog.models import Flag, Grant
from tests import factories
from tests.bounded import bounded

FLAGS = "/admin/catalog/flag/"
NAMES = st.from_regex(flags.NAME, fullmatch=True)
USERS = st.integers(1, 2**31 - 1)
PERCENTAGES = st.integers(0, 100)


def fill(**fields: Any) -> dict[str, Any]:
    return {"name": "new_crm", "description": "", "percentage": "0", **fields}


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (7, "Enter names of flags, separated by commas."),
        ({"beta": True}, "Enter names of flags, separated by commas."),
        ([f"flag{number}" for number in range(21)], "A grant can have at most 20 flags."),
        (
            ["beta", "new crm"],
            "Flag 2: A flag's name has 1 to 100 letters A-Z and a-z, digits, underscores, hyphens and dots.",
        ),
        (
            [7],
            "Flag 1: A flag's name has 1 to 100 letters A-Z and a-z, digits, underscores, hyphens and dots.",
        ),
    ],
)
def test_what_is_no_list_of_flags_is_refused_with_its_place(data: Any, says: str) -> None:
    with pytest.raises(FlagError) as refused:
        flags.parse(data)
    assert words.mistake(refused.value) == says
    with pytest.raises(ValidationError) as invalid:
        Grant(flags=data).clean_fields(exclude=["conditions", "windows", "environments"])
    assert invalid.value.message_dict["flags"] == [says]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("percentage", "101", "Ensure this value is less than or equal to 100."),
        ("percentage", "-1", "Ensure this value is greater than or equal to 0."),
        ("percentage", "2.5", "Enter a whole number."),
        ("percentage", "", "This field is required."),
        ("name", "new crm", "A name has 1 to 128 characters: letters A-Z and a-z, digits, underscore, hyphen and dot."),
        ("name", "BETA", 'The name "beta" already exists. Two names cannot differ only in upper and lower case.'),
        ("name", "beta", "Flag with this Name already exists."),
    ],
)
def test_a_wrong_flag_is_refused_beside_its_field(browser: Client, field: str, value: str, says: str) -> None:
    Flag.objects.create(name="beta")
    answer = browser.post(f"{FLAGS}add/", fill(**{field: value}))
    assert answer.context["adminform"].form.errors == {field: [says]}


@pytest.mark.django_db
def test_the_database_keeps_no_percentage_above_100() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Flag.objects.create(name="beta", percentage=101)


@pytest.mark.django_db
def test_a_flag_that_grants_use_keeps_its_name_and_stays(browser: Client) -> None:
    flag, other = Flag.objects.create(name="new_crm"), Flag.objects.create(name="new_crm2")
    tool = factories.make_tool()
    one, two = (factories.grant(None, tool, flags=["beta", "new_crm"]) for _ in range(2))
    page = f"{FLAGS}{flag.pk}/change/"
    says = f"“new_crm” is used by grants {one.pk}, {two.pk}. Change or delete these grants first."
    assert browser.post(page, fill(name="crm")).context["adminform"].form.errors == {"name": [says]}
    both = {"action": "delete_selected", "_selected_action": [flag.pk, other.pk], "post": "yes"}
    for path, sent in ((f"{FLAGS}{flag.pk}/delete/", {"post": "yes"}), (FLAGS, both)):
        assert says in browser.post(path, sent).content.decode()
    for delete in (flag.delete, Flag.objects.all().delete):
        with pytest.raises(ProtectedError, match=says), transaction.atomic():
            delete()
    assert Flag.objects.count() == 2
    assert browser.post(page, fill(percentage="30")).status_code == 302
    Grant.objects.all().delete()
    assert browser.post(page, fill(name="crm")).status_code == 302
    assert browser.post(FLAGS, both).status_code == 302
    assert not Flag.objects.exists()


# --- what they do ----------------------------------------------------------------------------------------------------


@bounded
@given(name=NAMES, user=USERS, percentages=st.tuples(PERCENTAGES, PERCENTAGES))
def test_a_user_keeps_a_flag_as_long_as_it_grows(name: str, user: int, percentages: tuple[int, int]) -> None:
    smaller, larger = sorted(percentages)
    assert flags.is_on(name, smaller, user) <= flags.is_on(name, larger, user)
    assert flags.is_on(name, smaller, user) == flags.is_on(name, smaller, user)
    assert not flags.is_on(name, 0, user) and flags.is_on(name, 100, user)


def test_the_same_users_have_a_flag_on_every_machine_and_in_every_version() -> None:
    """Whoever changes how users are chosen takes tools from people who have them."""
    assert [user for user in range(1, 41) if flags.is_on("new_crm", 10, user)] == [8, 12, 14, 25, 37]
    assert [user for user in range(1, 41) if flags.is_on("beta", 10, user)] == [5, 10, 14, 20, 21, 38]


@pytest.mark.parametrize("percentage", [1, 10, 25, 50, 90])
def test_a_flag_is_on_for_about_its_percentage_of_the_users(percentage: int) -> None:
    share = sum(flags.is_on("new_crm", percentage, user) for user in range(1, 20_001)) / 200
    assert abs(share - percentage) < 1.5


def test_each_flag_has_other_users() -> None:
    both = sum(flags.is_on("one", 50, user) and flags.is_on("two", 50, user) for user in range(1, 20_001))
    assert abs(both - 5_000) < 500


def test_all_flags_of_a_grant_must_be_on_and_an_unknown_one_is_as_the_caller_says() -> None:
    percentages = {"on": 100, "off": 0}
    for names, is_on, is_on_unknown in (
        ([], True, True),
        (["on"], True, True),
        (["on", "off"], False, False),
        (["on", "gone"], False, True),
        (["off", "gone"], False, False),
    ):
        assert flags.are_on(names, percentages, 7, unknown=False) is is_on, names
        assert flags.are_on(names, percentages, 7, unknown=True) is is_on_unknown, names


@pytest.mark.django_db
def test_an_administrator_makes_and_changes_a_flag_and_both_are_logged(browser: Client) -> None:
    assert browser.post(f"{FLAGS}add/", fill(description="The new CRM.", percentage="25")).status_code == 302
    flag = Flag.objects.get()
    page = browser.get(FLAGS).content.decode()
    assert "25%" in page and "The new CRM." in page and "no grant" in page
    assert browser.post(f"{FLAGS}{flag.pk}/change/", fill(percentage="100")).status_code == 302
    logged = Action.objects.filter(kind="flag", actor="root").order_by("id").values_list("verb", "target")
    assert list(logged) == [("created", f"new_crm (id {flag.pk})"), ("changed", f"new_crm (id {flag.pk})")]
    assert "100" in browser.get(f"{FLAGS}{flag.pk}/history/").content.decode()


@pytest.mark.django_db
def test_a_flag_that_the_environment_overrides_says_so_with_both_percentages(browser: Client, settings: Any) -> None:
    flag, plain = Flag.objects.create(name="new_crm", percentage=25), Flag.objects.create(name="plain", percentage=7)
    settings.FLAGS = {"new_crm": 60, "elsewhere": 100}
    page = browser.get(FLAGS).content.decode()
    assert "60% by TOOLHUB_FLAGS" in page and "7%" in page and "25%" not in page
    page = browser.get(f"{FLAGS}{flag.pk}/change/").content.decode()
    assert "60%: TOOLHUB_FLAGS overrides the percentage above." in page and 'value="25"' in page
    assert "TOOLHUB_FLAGS" not in browser.get(f"{FLAGS}{plain.pk}/change/").content.decode()


@pytest.mark.django_db
def test_a_list_of_flags_names_the_grants_that_use_each(browser: Client, alice: User) -> None:
    for name in ("new_crm", "beta"):
        Flag.objects.create(name=name)
    grant = factories.grant(alice, factories.make_tool(), flags=["beta"])
    row = browser.get(f"{FLAGS}?q=beta").content.decode()
    assert f'href="/admin/catalog/grant/{grant.pk}/change/"' in row
    assert f"/admin/catalog/grant/{grant.pk}/" not in browser.get(f"{FLAGS}?q=crm").content.decode()
