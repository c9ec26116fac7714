"""The access pages of a tool, a toolset and a group: grants as sentences, members, and what may be changed there."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.utils import timezone

from audit.models import Action
from catalog.models import Grant, Tool, Toolset
from tests import factories

pytestmark = pytest.mark.django_db


def make_staff(name: str, *codenames: str) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
    assert user.user_permissions.count() == len(codenames)
    client = Client()
    client.force_login(user)
    return client


def read_lines(client: Client, address: str, **query: str) -> list[str]:
    """The text of each grant of the list."""
    page = client.get(address, query).content.decode()
    listed = page.partition('class="plain th-grants"')[2].partition("</ul>")[0]
    return [" ".join(re.sub(r"<[^>]*>", "", line).split()) for line in listed.split("<li>")[1:]]


@pytest.fixture
def pets() -> Toolset:
    return factories.make_toolset("Pets")


@pytest.fixture
def feed(pets: Toolset) -> Tool:
    return factories.make_tool("feed_pet", toolset=pets, destructive=False)


def test_a_tool_lists_its_grants_and_those_of_its_toolsets_as_sentences(
    browser: Client, alice: User, bob: User, feed: Tool, pets: Toolset
) -> None:
    other = factories.make_tool("other")
    now = timezone.now()
    factories.grant(factories.make_group("keepers"), pets, note="Ticket 7", environments=["staging"])
    factories.grant(alice, feed, ends=now + timedelta(days=2))
    factories.deny(bob, feed)
    factories.grant(None, feed, ends=now - timedelta(days=2))
    factories.grant(bob, other)
    factories.load()
    address = f"/admin/access/tool/{feed.pk}/"
    denied, own, group = read_lines(browser, address)
    assert denied.startswith("deny User bob may not use tool feed_pet.")
    assert own.startswith("allow User alice may use tool feed_pet.") and "until " in own
    assert group.startswith("allow Group keepers may use toolset Pets.")
    assert "only in staging" in group and "Ticket 7" in group and "in other environments" in group
    (ended,) = set(read_lines(browser, address, ended="1")) - {denied, own, group}
    assert ended.startswith("allow Everyone may use tool feed_pet.") and "expired" in ended
    assert "Revoke" in own and "Revoke" not in ended


def test_the_list_says_who_gave_each_grant(browser: Client, feed: Tool, alice: User) -> None:
    data = {"who": f"user:{alice.pk}", "what": f"tool:{feed.pk}", "do": "give", "place": f"tool:{feed.pk}"}
    answer = browser.post("/admin/access/give/", data)
    assert answer["Location"] == f"/admin/access/tool/{feed.pk}/"
    (line,) = read_lines(browser, f"/admin/access/tool/{feed.pk}/")
    assert "given by root, " in line


def test_a_grant_that_another_one_covers_is_pointed_out(
    browser: Client, alice: User, feed: Tool, pets: Toolset
) -> None:
    keepers = factories.make_group("keepers", [alice])
    wide = factories.grant(keepers, pets)
    factories.grant(alice, feed)
    factories.load()
    own, group = read_lines(browser, f"/admin/access/tool/{feed.pk}/")
    assert f"Already covered by Grant {wide.pk}: allow toolset Pets to group keepers." in own
    assert "covered" not in group
    alice.groups.clear()
    factories.load()
    assert "covered" not in "".join(read_lines(browser, f"/admin/access/tool/{feed.pk}/"))


def test_the_list_of_grants_finds_those_that_are_covered(
    browser: Client, alice: User, feed: Tool, pets: Toolset
) -> None:
    wide = factories.grant(None, pets)
    narrow = factories.grant(alice, feed)
    over = factories.grant(alice, feed, ends=timezone.now() - timedelta(days=1))
    factories.load()
    page = browser.get("/admin/catalog/grant/", {"redundant": "yes"})
    assert [row.pk for row in page.context["cl"].result_list] == [narrow.pk], f"{over.pk} is over, nobody needs to act"
    assert f"covered by grant {wide.pk} <a" in page.content.decode()
    assert f"/admin/access/grant/{narrow.pk}/revoke/" in page.content.decode()
    page = browser.get("/admin/catalog/grant/")
    assert page.context["cl"].result_count == 3 and page.content.decode().count("covered by grant") == 1
    watcher = make_staff("watcher", "view_grant")
    assert "/revoke/" not in watcher.get("/admin/catalog/grant/").content.decode()


def test_names_are_text_and_invisible_characters_are_shown(browser: Client, pets: Toolset) -> None:
    group = factories.make_group("<b>x</b>\u202eevil")
    factories.grant(group, pets)
    page = browser.get(f"/admin/access/toolset/{pets.pk}/").content.decode()
    assert "<b>x</b>" not in page and "\u202e" not in page and "&lt;b&gt;x&lt;/b&gt;" in page


def test_viewers_find_no_buttons_and_change_nothing(feed: Tool, pets: Toolset, alice: User) -> None:
    group = factories.make_group("keepers", [alice])
    made = factories.grant(group, pets)
    names = ("view_grant", "view_tool", "view_toolset", "view_user", "view_group")
    watcher = make_staff("watcher", *names)
    for kind, key in (("tool", feed.pk), ("toolset", pets.pk), ("group", group.pk)):
        page = watcher.get(f"/admin/access/{kind}/{key}/")
        text = page.content.decode()
        assert page.status_code == 200 and "Group <" in text
        assert not re.search("Give access|Revoke|Add members|Add tools|Remove from group|Take out", text)
    assert watcher.post(f"/admin/access/grant/{made.pk}/revoke/").status_code == 403
    assert watcher.get(f"/admin/access/grant/{made.pk}/revoke/").status_code == 403
    assert watcher.get("/admin/access/give/").status_code == 403
    assert watcher.get("/admin/access/give/pick/").status_code == 403
    assert (
        watcher.post(f"/admin/access/group/{group.pk}/members/", {"do": "remove", "user": alice.pk}).status_code == 403
    )
    assert watcher.get(f"/admin/access/group/{group.pk}/pick/").status_code == 403
    assert watcher.get(f"/admin/access/toolset/{pets.pk}/pick/").status_code == 403
    made.refresh_from_db()
    assert made.ends is None and alice.groups.exists()


def test_grants_are_shown_only_to_those_who_may_view_them(pets: Toolset, feed: Tool) -> None:
    group = factories.make_group("keepers")
    factories.grant(group, pets, note="Ticket 7")
    tools = make_staff("tools", "view_tool", "view_toolset")
    people = make_staff("people", "view_user", "view_group")
    for client, address in ((tools, f"toolset/{pets.pk}"), (people, f"group/{group.pk}")):
        page = client.get(f"/admin/access/{address}/")
        assert page.status_code == 200 and "Ticket 7" not in page.content.decode()
        assert "feed_pet" in page.content.decode() or client is people


# --- revoking ------------------------------------------------------------------------------------------------------


def test_revoking_shows_whom_it_changes_and_ends_the_grant(
    browser: Client, alice: User, bob: User, feed: Tool, pets: Toolset
) -> None:
    made = factories.grant(factories.make_group("keepers", [alice, bob]), pets)
    factories.grant(bob, feed)
    factories.load()
    address = f"/admin/access/grant/{made.pk}/revoke/"
    page = browser.get(address, {"place": f"tool:{feed.pk}"}).content.decode()
    assert "1 user loses access in" in page, "bob has a grant of his own"
    open_grants = Grant.objects.filter(pk=made.pk, ends=None)
    assert open_grants.exists()
    answer = browser.post(address, {"place": f"tool:{feed.pk}"})
    assert answer["Location"] == f"/admin/access/tool/{feed.pk}/"
    first = Grant.objects.get(pk=made.pk).ends
    assert first is not None and first <= timezone.now() and not open_grants.exists()
    browser.post(address)
    assert Grant.objects.get(pk=made.pk).ends == first, "it was over already"
    assert Action.objects.filter(kind="grant", verb="changed", actor="root").count() == 1


def test_revoking_a_denial_says_who_gets_access(browser: Client, alice: User, feed: Tool) -> None:
    factories.grant(alice, feed)
    made = factories.deny(alice, feed)
    factories.load()
    assert "1 user gets access in" in browser.get(f"/admin/access/grant/{made.pk}/revoke/").content.decode()


def test_revoking_a_grant_beside_one_with_conditions_says_that_people_keep_access(
    browser: Client, alice: User, feed: Tool
) -> None:
    name = next(iter(feed.input_schema["properties"]))
    factories.grant(alice, feed, conditions=[{"path": f"/{name}", "op": "equals", "value": 1}])
    made = factories.grant(alice, feed)
    factories.load()
    page = browser.get(f"/admin/access/grant/{made.pk}/revoke/").content.decode()
    assert "1 user keeps access in" in page and "with other conditions" in page and "No one" not in page


def test_a_grant_that_has_not_started_is_deleted(browser: Client, alice: User, feed: Tool) -> None:
    made = factories.grant(alice, feed, starts=timezone.now() + timedelta(days=1))
    browser.post(f"/admin/access/grant/{made.pk}/revoke/")
    assert not Grant.objects.exists()


def test_a_grant_that_is_not_there_is_absent(browser: Client) -> None:
    assert browser.get("/admin/access/grant/999/revoke/").status_code == 404


@pytest.mark.parametrize(
    "place", ["", "https://evil.example", "//evil.example", "tool:x", "tool:" + "9" * 30, "user:1"]
)
def test_the_way_back_leads_only_to_pages_of_access(browser: Client, alice: User, feed: Tool, place: str) -> None:
    made = factories.grant(alice, feed)
    answer = browser.post(f"/admin/access/grant/{made.pk}/revoke/", {"place": place})
    assert answer["Location"] == "/admin/catalog/grant/"


# --- a toolset -----------------------------------------------------------------------------------------------------


def test_a_toolset_lists_its_tools_with_what_to_know_of_them(browser: Client, pets: Toolset, feed: Tool) -> None:
    factories.make_tool("drop_pet", toolset=pets, destructive=True, enabled=False, quarantined_since=timezone.now())
    factories.make_tool("other")
    context = browser.get(f"/admin/access/toolset/{pets.pk}/").context
    assert [(name, marks) for _tool, name, _link, _kind, _upstream, marks in context["rows"]] == [
        ("drop_pet", ["destructive", "switched off", "quarantined"]),
        ("feed_pet", []),
    ]
    assert [name for _key, name in context["found"]] == ["other"], "what can be added is not in it"
    found = browser.get(f"/admin/access/toolset/{pets.pk}/", {"q": "feed"}).context["rows"]
    assert [name for _tool, name, *_rest in found] == ["feed_pet"]
    change = browser.get(f"/admin/catalog/toolset/{pets.pk}/change/").content.decode()
    assert "drop_pet</a> (destructive, switched off, quarantined)" in change


def test_tools_are_added_from_the_page_of_the_toolset_after_a_confirmation(
    browser: Client, pets: Toolset, feed: Tool
) -> None:
    page = browser.get(f"/admin/access/toolset/{pets.pk}/").content.decode()
    assert 'action="/admin/catalog/tool/"' in page
    other, more = factories.make_tool("other"), factories.make_tool("more")
    data = {"action": "add_to_toolset", "toolset": pets.pk, "back": "toolset", "_selected_action": [other.pk, more.pk]}
    confirmation = browser.post("/admin/catalog/tool/", data)
    assert 'id="toolset-members"' in confirmation.content.decode() and pets.tools.count() == 1
    answer = browser.post("/admin/catalog/tool/", {**data, "confirmed": pets.pk})
    assert answer["Location"] == f"/admin/access/toolset/{pets.pk}/"
    assert pets.tools.count() == 3


# --- a group -------------------------------------------------------------------------------------------------------


def change(client: Client, group: Group, do: str, *users: Any) -> str:
    answer = client.post(f"/admin/access/group/{group.pk}/members/", {"do": do, "user": users}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def test_members_join_and_leave_and_each_change_is_logged(browser: Client, alice: User, bob: User) -> None:
    group = factories.make_group("keepers")
    assert "2 users added to keepers." in change(browser, group, "add", alice.pk, bob.pk, 999, "x", "9" * 40)
    assert set(group.user_set.all()) == {alice, bob}
    assert "1 user removed from keepers." in change(browser, group, "remove", bob.pk)
    assert set(group.user_set.all()) == {alice}
    assert Action.objects.filter(verb="added to", actor="root").count() == 2
    assert Action.objects.filter(verb="removed from", actor="root").count() == 1
    assert "Choose at least one user." in change(browser, group, "add")
    assert "Choose at least one user." in change(browser, group, "destroy", alice.pk)


def test_people_above_the_administrator_and_reserved_groups_stay_as_they_are(root: User, alice: User) -> None:
    names = ("view_user", "view_group", "change_user", "view_grant")
    manager = make_staff("manager", *names)
    plain, granted = factories.make_group("plain"), factories.make_group("granted")
    factories.grant(granted, factories.make_toolset("Pets"))
    assert "Add members" in manager.get(f"/admin/access/group/{plain.pk}/").content.decode()
    assert "Add members" not in manager.get(f"/admin/access/group/{granted.pk}/").content.decode()
    change(manager, granted, "add", alice.pk)
    change(manager, plain, "add", alice.pk, root.pk)
    assert not granted.user_set.exists()
    assert not plain.user_set.exists(), "all of a change is made, or nothing"
    change(manager, plain, "add", alice.pk)
    assert list(plain.user_set.all()) == [alice]


def test_a_member_whom_an_identity_provider_manages_is_not_removed(browser: Client) -> None:
    from toolhub.identity.models import GroupMapping, Identity, Provider

    group = factories.make_group("keepers")
    provider = Provider.objects.create(slug="corp", name="Corp", issuer="https://corp.example", enabled=True)
    user = User.objects.create_user("ada")
    Identity.objects.create(user=user, provider=provider, issuer=provider.issuer, subject="ada")
    GroupMapping.objects.create(provider=provider, value="keepers", group=group)
    user.groups.add(group)
    assert "Corp decides" in browser.get(f"/admin/access/group/{group.pk}/").content.decode()
    assert "An identity provider decides" in change(browser, group, "remove", user.pk)
    assert user.groups.exists()


def test_a_group_says_which_tools_it_reaches_by_itself(browser: Client, alice: User, feed: Tool, pets: Toolset) -> None:
    group = factories.make_group("keepers", [alice])
    other, everyones = factories.make_tool("other"), factories.make_tool("everyones")
    factories.make_tool("denied", toolset=pets)
    factories.grant(group, pets)
    factories.deny(group, Tool.objects.get(name="denied"))
    factories.grant(alice, other)
    factories.grant(None, everyones)
    factories.load()
    tools = browser.get(f"/admin/access/group/{group.pk}/").context["tools"]
    assert [name for name, _link, _destructive in tools["listed"]] == ["everyones", "feed_pet"]
    assert "Members and access" in browser.get(f"/admin/auth/group/{group.pk}/change/").content.decode()


def test_lists_are_bounded_and_have_pages(browser: Client, pets: Toolset) -> None:
    group = factories.make_group("keepers")
    users = User.objects.bulk_create(User(username=f"user{number:03}") for number in range(60))
    group.user_set.set(users[:55])
    Grant.objects.bulk_create(Grant(toolset=pets, user=user) for user in users)
    context = browser.get(f"/admin/access/group/{group.pk}/").context
    assert len(context["rows"]) == 50 and context["newer"] == "?p=2"
    assert len(browser.get(f"/admin/access/group/{group.pk}/?p=2").context["rows"]) == 5
    context = browser.get(f"/admin/access/toolset/{pets.pk}/").context
    assert len(context["grant_lines"]) == 20 and context["grants_count"] == 60
    assert len(browser.get(f"/admin/access/toolset/{pets.pk}/?gp=3").context["grant_lines"]) == 20
