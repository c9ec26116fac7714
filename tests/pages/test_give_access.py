"""Giving access: who, what, until when, where and why; and what is shown before it is saved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from audit.models import Action
from catalog.models import Grant, Tool, Toolset
from catalog.policy import effects, grant_changes
from tests import factories
from tests.pages.test_access_lists import make_staff
from toolhub.pages.access import give_form
from toolhub.pages.access.giving import GIVE_PERMISSIONS, give

pytestmark = pytest.mark.django_db
GIVE = "/admin/access/give/"


@pytest.fixture
def feed() -> Tool:
    return factories.make_tool("feed_pet", toolset="Pets", destructive=False)


@pytest.fixture
def drop() -> Tool:
    return factories.make_tool("drop_pet", toolset="Danger", destructive=True)


def send(client: Client, **values: Any) -> Any:
    factories.load()
    return client.post(GIVE, {"do": "give", **values}, follow=True)


def read(answer: Any) -> str:
    text: str = answer.content.decode()
    return text


def test_every_permission_of_the_form_is_needed(feed: Tool, alice: User) -> None:
    names = [name.partition(".")[2] for name in GIVE_PERMISSIONS]
    for number, left_out in enumerate(names):
        client = make_staff(f"staff{number}", *(name for name in names if name != left_out))
        assert client.get(GIVE).status_code == client.get(f"{GIVE}pick/").status_code == 403
        assert send(client, who=f"user:{alice.pk}", what=f"tool:{feed.pk}").status_code == 403
    assert not Grant.objects.exists()
    assert send(make_staff("giver", *names), who=f"user:{alice.pk}", what=f"tool:{feed.pk}").status_code == 200
    assert Grant.objects.get().user == alice


def test_giving_needs_a_post_with_its_csrf_token(root: User, feed: Tool, alice: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(root)
    data = {"do": "give", "who": f"user:{alice.pk}", "what": f"tool:{feed.pk}"}
    assert strict.post(GIVE, data).status_code == 403
    assert strict.get(GIVE, data).status_code == 200
    assert not Grant.objects.exists()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"who": ""}, "Choose at least one group or user."),
        ({"who": ["user:999", "tool:1", "user:x"]}, "Choose at least one group or user."),
        ({"what": "toolset:999"}, "Choose at least one toolset or tool."),
        ({"effect": "own"}, "Choose what to do."),
        ({"until": "date", "date": ""}, "Choose until when, or enter a date."),
        ({"until": "date", "date": "2026-02-30"}, "Choose until when, or enter a date."),
        ({"until": "never"}, "Choose until when, or enter a date."),
        ({"until": "date", "date": "2001-01-01"}, "The end must be in the future."),
        ({"environments": "prod/x y"}, "Enter environment names"),
    ],
)
def test_what_is_missing_or_wrong_is_named_and_nothing_is_saved(
    browser: Client, feed: Tool, alice: User, values: dict[str, Any], problem: str
) -> None:
    chosen = {"who": f"user:{alice.pk}", "what": f"tool:{feed.pk}", "note": "Ticket 7"}
    page = read(send(browser, **{**chosen, **values}))
    assert problem in page and "Ticket 7" in page
    assert not Grant.objects.exists()


def test_access_is_given_to_users_groups_and_everyone_at_once(browser: Client, feed: Tool, alice: User) -> None:
    group, pets = factories.make_group("keepers"), Toolset.objects.get()
    page = read(
        send(
            browser,
            who=[f"user:{alice.pk}", f"group:{group.pk}", "everyone:0"],
            what=[f"tool:{feed.pk}", f"toolset:{pets.pk}"],
            environments="staging, production",
            note="Ticket 7",
            place=f"toolset:{pets.pk}",
        )
    )
    assert "6 grants were created." in page and 'id="access-toolset"' in page
    made = Grant.objects.first()
    assert made is not None and (made.note, made.environments) == ("Ticket 7", ["staging", "production"])
    assert not Grant.objects.exclude(effect="allow").exists() and not Grant.objects.exclude(ends=None).exists()


def test_the_end_is_the_end_of_a_day_where_the_reader_is(browser: Client, feed: Tool, alice: User) -> None:
    browser.cookies["zone"] = ""
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    cases = {"today": midnight, "week": midnight + timedelta(days=7), "date": datetime(2100, 1, 2, tzinfo=UTC)}
    for until, ends in cases.items():
        Grant.objects.all().delete()
        send(browser, who=f"user:{alice.pk}", what=f"tool:{feed.pk}", until=until, date="2100-01-01")
        assert Grant.objects.get().ends == ends


def test_a_denial_is_previewed_with_whom_it_changes(browser: Client, feed: Tool, alice: User, bob: User) -> None:
    factories.grant(alice, feed)
    values = {"who": "everyone:0", "what": f"tool:{feed.pk}", "effect": "deny"}
    answer = send(browser, **values)
    assert "1 user loses access in" in read(answer) and "Deny tool feed_pet to everyone" in read(answer)
    assert Grant.objects.count() == 1
    send(browser, **values, sure=answer.context["plan"].digest)
    assert Grant.objects.get(effect="deny").everyone


def test_a_destructive_tool_is_previewed_also_when_a_toolset_holds_it(browser: Client, drop: Tool, alice: User) -> None:
    for what in (f"tool:{drop.pk}", f"toolset:{drop.toolsets.get().pk}"):
        answer = send(browser, who=f"user:{alice.pk}", what=what)
        assert "1 of the tools is destructive:" in read(answer) and "drop_pet" in read(answer)
        assert "1 user gets access in" in read(answer)
        assert not Grant.objects.exists()
    send(browser, who=f"user:{alice.pk}", what=f"tool:{drop.pk}", sure=answer.context["plan"].digest)
    assert not Grant.objects.exists(), "the preview was of another change"
    send(browser, who=f"user:{alice.pk}", what=what, sure=answer.context["plan"].digest)
    assert Grant.objects.get().toolset is not None


def test_a_read_only_tool_is_not_destructive_whatever_else_it_says(browser: Client, drop: Tool, alice: User) -> None:
    Tool.objects.filter(pk=drop.pk).update(read_only=True)
    send(browser, who=f"user:{alice.pk}", what=f"tool:{drop.pk}")
    assert Grant.objects.count() == 1


def test_a_tool_that_does_not_say_whether_it_destroys_is_previewed_as_destructive(
    browser: Client, drop: Tool, alice: User
) -> None:
    """destructiveHint is true by default in MCP."""
    Tool.objects.filter(pk=drop.pk).update(destructive=None)
    page = read(send(browser, who=f"user:{alice.pk}", what=f"tool:{drop.pk}"))
    assert "1 of the tools is destructive:" in page and "not declared, so it counts as destructive" in page
    assert not Grant.objects.exists()
    Tool.objects.filter(pk=drop.pk).update(read_only=True)
    send(browser, who=f"user:{alice.pk}", what=f"tool:{drop.pk}")
    assert Grant.objects.count() == 1


@pytest.mark.parametrize("through", ["group", "everyone", "toolset"])
def test_a_denial_through_a_group_everyone_or_a_toolset_is_shown_first(
    browser: Client, feed: Tool, alice: User, bob: User, through: str
) -> None:
    group = factories.make_group("interns", [alice])
    match through:
        case "group":
            Grant.objects.create(tool=feed, group=group, effect="deny")
        case "everyone":
            Grant.objects.create(tool=feed, everyone=True, effect="deny")
        case _:
            Grant.objects.create(toolset=feed.toolsets.get(), group=group, effect="deny")
    page = read(send(browser, who=f"user:{alice.pk}", what=f"tool:{feed.pk}"))
    assert "These deny grants stay and override what you allow:" in page
    assert Grant.objects.count() == 1
    if through != "everyone":
        send(browser, who=f"user:{bob.pk}", what=f"tool:{feed.pk}")
        assert Grant.objects.count() == 2, "bob is in no group that is denied"


def test_all_denials_are_counted_and_the_first_are_listed(browser: Client, feed: Tool, alice: User) -> None:
    groups = Group.objects.bulk_create(Group(name=f"interns {number}") for number in range(600))
    alice.groups.add(*groups)
    Grant.objects.bulk_create(Grant(tool=feed, group=group, effect="deny") for group in groups)
    text = read(send(browser, who=f"user:{alice.pk}", what=f"tool:{feed.pk}"))
    assert "and 580 more" in text and "interns 19" in text and "interns 20" not in text
    factories.deny(alice, feed)
    assert "and 581 more" in read(send(browser, who=f"user:{alice.pk}", what=f"tool:{feed.pk}"))


def test_a_denial_elsewhere_or_past_needs_no_look(browser: Client, feed: Tool, alice: User) -> None:
    group = factories.make_group("interns", [alice])
    Grant.objects.create(tool=feed, group=group, effect="deny", environments=["elsewhere"])
    Grant.objects.create(tool=feed, group=group, effect="deny", ends=timezone.now() - timedelta(days=1))
    send(browser, who=f"user:{alice.pk}", what=f"tool:{feed.pk}", environments=settings.ENVIRONMENT)
    assert Grant.objects.filter(user=alice).exists()


def test_many_grants_of_each_person_bound_the_preview_too(
    browser: Client, drop: Tool, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3 * effects.GRANTS_PER_DECISION):
        factories.grant(alice, factories.make_tool(f"tool{number}"))
    monkeypatch.setattr(effects, "MAX_DECISIONS", 4)
    values = {"who": f"user:{alice.pk}", "what": f"tool:{drop.pk}"}
    assert "1 user gets access in" in read(send(browser, **values))
    monkeypatch.setattr(effects, "MAX_DECISIONS", 3)
    page = read(send(browser, **values))
    assert "It reaches 1 user." in page and "cannot be previewed for so many people and items" in page


def test_a_preview_that_is_out_of_date_is_shown_again(browser: Client, drop: Tool, alice: User) -> None:
    values = {"who": f"user:{alice.pk}", "what": f"tool:{drop.pk}"}
    digest = send(browser, **values).context["plan"].digest
    factories.grant(alice, drop)
    assert "Grants have changed since" in read(send(browser, **values, sure=digest))
    assert Grant.objects.count() == 1


def test_a_denial_that_overrides_the_new_access_is_shown_first(browser: Client, feed: Tool, alice: User) -> None:
    factories.deny(alice, feed)
    page = read(send(browser, who=f"user:{alice.pk}", what=f"tool:{feed.pk}"))
    assert "These deny grants stay and override what you allow:" in page
    assert "No one's access in" in page.replace("&#x27;", "'")
    assert Grant.objects.count() == 1


def test_a_grant_that_exists_is_not_doubled(browser: Client, feed: Tool, alice: User) -> None:
    factories.grant(alice, feed)
    page = read(send(browser, who=f"user:{alice.pk}", what=f"tool:{feed.pk}"))
    assert "1 grant already exists." in page
    assert Grant.objects.count() == 1


def test_more_grants_than_one_change_may_make_are_refused(browser: Client) -> None:
    tools = [factories.make_tool(f"tool{number}") for number in range(30)]
    users = [User.objects.create_user(f"user{number}") for number in range(20)]
    page = read(send(browser, who=[f"user:{one.pk}" for one in users], what=[f"tool:{one.pk}" for one in tools]))
    assert f"at most {grant_changes.MAX_PAIRS} grants" in page
    assert not Grant.objects.exists()


def test_the_function_that_other_pages_use_makes_the_grant(feed: Tool, alice: User) -> None:
    who, what = grant_changes.subjects([alice.pk], []), grant_changes.targets([feed.pk], [])
    end = timezone.now() + timedelta(days=1)
    plan, done = give(who, what, until=end, where=["staging"], why="asked for")
    made = Grant.objects.get()
    assert done and len(plan.to_create) == 1
    assert (made.user, made.tool, made.ends, made.environments, made.note) == (
        alice,
        feed,
        end,
        ["staging"],
        "asked for",
    )
    assert give(who, what, reviewed="other")[1] is False


# --- pickers -------------------------------------------------------------------------------------------------------


def pick(client: Client, kind: str, query: str) -> list[str]:
    found = client.get(f"{GIVE}pick/", {"kind": kind, "q": query}).json()["results"]
    return [one["name"] for one in found]


def test_the_exact_name_comes_first_then_prefixes_then_words_then_the_rest(browser: Client) -> None:
    for name in ("outfeed", "cat_feed", "feed_pet", "feed", "feed_all", "starve"):
        factories.make_tool(name)
    ranked = ["feed", "feed_all", "feed_pet", "cat_feed", "outfeed"]
    assert pick(browser, "what", "FEED") == [f"tool {name}" for name in ranked]
    asked = {"app_label": "catalog", "model_name": "grant", "field_name": "tool", "term": "feed"}
    found = browser.get("/admin/autocomplete/", asked).json()["results"]
    assert [one["text"] for one in found] == ranked


def test_pickers_say_what_is_destructive_switched_off_or_quarantined(browser: Client, drop: Tool) -> None:
    Tool.objects.filter(pk=drop.pk).update(enabled=False, quarantined_since=timezone.now())
    words = "drop_pet (destructive, switched off, quarantined)"
    assert f"tool {words}" in pick(browser, "what", "drop")
    asked = {"app_label": "catalog", "model_name": "grant", "field_name": "tool", "term": "drop"}
    assert browser.get("/admin/autocomplete/", asked).json()["results"][0]["text"] == words
    assert words in read(browser.get(GIVE, {"what": f"tool:{drop.pk}"}))


def test_people_and_groups_are_in_one_picker_without_inactive_users(browser: Client, alice: User, bob: User) -> None:
    factories.make_group("alpine")
    User.objects.filter(pk=bob.pk).update(is_active=False)
    assert pick(browser, "who", "al") == ["group alpine", "user alice"]
    assert pick(browser, "who", "bob") == []
    assert pick(browser, "who", "every") == ["everyone"]


def test_a_tool_that_is_chosen_offers_its_toolsets(browser: Client, feed: Tool) -> None:
    factories.make_toolset("Other")
    what = browser.get(GIVE, {"what": f"tool:{feed.pk}"}).context["pickers"][1]
    assert [words for _value, words in what.chosen] == ["tool feed_pet"]
    assert [words for _value, words in what.found] == ["toolset Pets"]
    assert settings.ENVIRONMENT in read(browser.get(GIVE))


def test_a_group_is_created_on_the_form_only_by_those_who_may_add_groups(feed: Tool) -> None:
    names = [name.partition(".")[2] for name in GIVE_PERMISSIONS]
    wish = {"do": "new_group", "who_q": "Keepers", "what": f"tool:{feed.pk}"}
    giver = make_staff("giver", *names)
    assert "New group" not in read(giver.get(GIVE))
    assert send(giver, **wish).status_code == 403
    assert not Group.objects.filter(name="Keepers").exists()
    grouper = make_staff("grouper", *names, "add_group")
    page = send(grouper, **wish)
    group = Group.objects.get(name="Keepers")
    assert f'name="who" value="group:{group.pk}" checked' in read(page)
    assert f'name="what" value="tool:{feed.pk}" checked' in read(page), "the other choices stay"
    assert not group.permissions.exists() and not Grant.objects.exists()
    assert Action.objects.filter(actor="grouper", verb="created", kind="group").exists()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "Enter the name of the new group in the search box."),
        (" \0 ", "Enter the name of the new group in the search box."),
        ("auditor", "Group with this Name already exists."),
        ("g" * 151, "at most 150 characters"),
    ],
)
def test_a_group_that_cannot_be_created_is_explained_and_the_form_stays(
    browser: Client, feed: Tool, name: str, problem: str
) -> None:
    before = Group.objects.count()
    text = read(send(browser, do="new_group", who_q=name, what=f"tool:{feed.pk}"))
    assert problem in text and f'name="what" value="tool:{feed.pk}" checked' in text
    assert Group.objects.count() == before


def test_no_group_is_created_for_which_the_form_has_no_room(
    browser: Client, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(give_form, "MAX_CHOSEN", 2)
    data = {"do": "new_group", "who_q": "Keepers", "who": [f"user:{alice.pk}", f"user:{bob.pk}"]}
    page = read(browser.post(GIVE, data))
    assert "You can choose at most 2 users and groups at once." in page
    assert not Group.objects.filter(name="Keepers").exists()
    data["who"] = data["who"][:1]
    group_page = read(browser.post(GIVE, data))
    assert f'value="group:{Group.objects.get(name="Keepers").pk}" checked' in group_page


def test_the_way_back_may_be_the_overview(browser: Client, feed: Tool, alice: User) -> None:
    data = {"do": "give", "who": f"user:{alice.pk}", "what": f"tool:{feed.pk}", "place": "overview"}
    assert browser.post(GIVE, data)["Location"] == "/admin/"


def test_searching_keeps_the_choices_without_scripts(browser: Client, feed: Tool, alice: User) -> None:
    page = browser.post(GIVE, {"do": "search", "who": f"user:{alice.pk}", "who_q": "ali", "what_q": "feed"})
    who, what = page.context["pickers"]
    assert [words for _value, words in who.chosen] == ["user alice"] and who.found == []
    assert [words for _value, words in what.found] == ["tool feed_pet"]
    assert not Grant.objects.exists()


def test_conditions_are_for_one_grant(browser: Client, feed: Tool, drop: Tool, alice: User) -> None:
    several = {"who": f"user:{alice.pk}", "what": [f"tool:{feed.pk}", f"tool:{drop.pk}"]}
    assert "Conditions belong to one grant." in read(send(browser, **several, do="conditions"))
    assert "Choose at least one toolset or tool." in read(send(browser, who=f"user:{alice.pk}", do="conditions"))
    assert not Grant.objects.exists()


def test_the_form_of_one_grant_opens_with_the_choices(browser: Client, feed: Tool, alice: User) -> None:
    chosen = {"who": f"user:{alice.pk}", "what": f"tool:{feed.pk}", "until": "date", "date": "2999-12-30"}
    chosen |= {"environments": "production staging", "note": "TICKET-7"}
    answer = send(browser, **chosen, do="conditions")
    form = answer.context["adminform"].form
    assert (str(form["user"].value()), str(form["tool"].value())) == (str(alice.pk), str(feed.pk))
    assert (form["effect"].value(), form["note"].value()) == ("allow", "TICKET-7")
    assert form["environments"].value() == "production, staging"
    assert form["ends"].value() == datetime(2999, 12, 31, tzinfo=UTC)
    everyone = send(browser, who="everyone:0", what=f"tool:{feed.pk}", effect="deny", do="conditions")
    assert everyone.context["adminform"].form["everyone"].value() == "1"
    assert not Grant.objects.exists()


def test_what_the_fields_of_a_grant_cannot_hold_in_the_address_is_left_out(browser: Client) -> None:
    wrong = {
        "starts": "soon",
        "ends": "x" * 100,
        "environments": "[",
        "conditions": "{",
        "windows": "[1]",
        "flags": "x",
    }
    answer = browser.get("/admin/catalog/grant/add/", wrong)
    assert answer.status_code == 200
    form = answer.context["adminform"].form
    assert form["ends"].value() is None
    assert form["conditions"].value() == form["windows"].value() == "[]" and form["flags"].value() == ""
