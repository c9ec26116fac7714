"""Why not: the reasons on the pages of access, and the one-click changes that remove them. Refusals first."""

from __future__ import annotations

import json
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from audit.models import Action
from catalog.models import Flag, Grant, Tool, Upstream
from catalog.policy import snapshot, visibility
from tests import factories
from toolhub.access.models import AccessToken
from toolhub.identity.models import GroupMapping, Identity, Provider

pytestmark = pytest.mark.django_db
ADDRESS = "/admin/access/remedy/"
PAGES = ("auth.view_user", "catalog.view_tool", "catalog.view_grant", "catalog.view_limit")
"""What both pages need."""
HOSTILE = '"><script>alert(1)</script>'


@pytest.fixture
def tool() -> Tool:
    return factories.make_tool("invoices")


def sign_in(*permissions: str, name: str = "helper") -> Client:
    """Staff with exactly these permissions."""
    user = User.objects.create_user(name, is_staff=True)
    codes = [one.partition(".")[2] for one in permissions]
    user.user_permissions.set(Permission.objects.filter(codename__in=codes))
    client = Client()
    client.force_login(user)
    return client


def read_advice(client: Client, user: User, name: str = "invoices", **query: Any) -> Any:
    page = client.get("/admin/view-as/?" + urlencode({"user": user.username, **query}))
    assert page.status_code == 200
    return next(row.advice for row in page.context["rows"] if row.entry.name == name)


def read_buttons(client: Client, user: User, name: str = "invoices", **query: Any) -> list[str]:
    return [one.value for line in read_advice(client, user, name, **query).lines for one in line.remedies]


def press(client: Client, user: User, item: Any, value: str, /, **fields: Any) -> Any:
    kind = type(item).__name__.lower()
    data = {"page": "view-as", "user": user.pk, "kind": kind, "item": item.pk, "remedy": value}
    return client.post(ADDRESS, {**data, **fields})


def read_messages(client: Client, user: User) -> str:
    page = client.get("/admin/view-as/?" + urlencode({"user": user.username}))
    return " ".join(str(one) for one in page.context["messages"])


def is_visible(user: User, item: Any) -> bool:
    found = snapshot.refresh()
    shown = visibility.in_snapshot(found, visibility.page_credential(user.pk), timezone.now().timestamp())
    return item.name in shown.tools


def stored() -> list[tuple[Any, ...]]:
    """Everything that a change could touch."""
    grants = list(Grant.objects.order_by("pk").values_list("pk", "effect", "starts", "ends", "user", "group"))
    members = list(User.groups.through.objects.values_list("user", "group"))
    return [*grants, *members, *Tool.objects.values_list("pk", "enabled")]


def expire(user: Any, target: Any, **fields: Any) -> Grant:
    return factories.grant(user, target, ends=timezone.now() - timedelta(days=1), **fields)


# --- refusals ------------------------------------------------------------------------------------------------------


def test_a_change_is_posted_with_a_csrf_token_by_staff_who_may_open_the_page(
    browser: Client, alice: User, tool: Tool
) -> None:
    assert browser.get(ADDRESS).status_code == 405
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(User.objects.get(username="root"))
    before = stored()
    assert press(careful, alice, tool, "give").status_code == 403
    assert press(sign_in("catalog.add_grant", "catalog.view_tool"), alice, tool, "give").status_code == 403
    assert press(Client(), alice, tool, "give").url.startswith("/sign-in/")
    assert stored() == before


def test_an_item_of_a_kind_that_the_viewer_may_not_view_is_not_changed_or_named(alice: User) -> None:
    resource = factories.make_resource("file:///salaries")
    client = sign_in(*PAGES, "catalog.add_grant")
    before = stored()
    assert press(client, alice, resource, "give").status_code == 403
    assert stored() == before


def test_whoever_may_only_look_finds_the_reasons_without_buttons_and_can_change_nothing(
    alice: User, tool: Tool
) -> None:
    client, group = sign_in(*PAGES), factories.make_group("sales")
    off = factories.make_tool("off", enabled=False)
    old = expire(alice, tool)
    factories.grant(group, factories.make_tool("shared"))
    before = stored()
    for name in ("invoices", "shared", "off"):
        assert read_advice(client, alice, name).lines and read_buttons(client, alice, name) == []
    for value in (f"extend:{old.pk}", f"remove-end:{old.pk}", f"start:{old.pk}", f"apply-here:{old.pk}", "give"):
        assert press(client, alice, tool, value).status_code == 403, value
    assert press(client, alice, tool, f"join:{old.pk}").status_code == 403
    assert press(client, alice, off, "switch-on").status_code == 403
    assert stored() == before


@pytest.mark.parametrize("permission", ["add_grant", "change_grant", "delete_grant", "change_user", "change_tool"])
def test_one_permission_opens_exactly_the_changes_that_it_is_for(permission: str, alice: User, tool: Tool) -> None:
    opened = {
        "add_grant": {"give"},
        "change_grant": {"extend", "remove-end"},
        "delete_grant": set(),
        "change_user": set(),  # the group gives access: its members are chosen by those who may change grants
        "change_tool": {"switch-on"},
    }[permission]
    client = sign_in(*PAGES, "auth.view_group", f"catalog.{permission}")
    expire(alice, tool)
    factories.make_tool("new")
    factories.grant(factories.make_group("sales"), factories.make_tool("shared"))
    factories.make_tool("off", enabled=False)
    found = {
        name: {value.partition(":")[0] for value in read_buttons(client, alice, name)}
        for name in ("invoices", "new", "shared", "off")
    }
    assert set().union(*found.values()) == opened
    assert found["invoices"] <= {"extend", "remove-end"} and found["new"] | found["shared"] <= {"give"}


def test_a_denial_is_linked_and_never_removed_and_nothing_that_would_not_help_is_offered(
    browser: Client, alice: User, tool: Tool
) -> None:
    old, denied = expire(alice, tool), factories.deny(None, tool)
    other = factories.make_tool("denied")
    factories.deny(alice, other)
    advice = read_advice(browser, alice)
    assert [line.link for line in advice.lines] == [
        f"/admin/catalog/grant/{denied.pk}/change/",
        f"/admin/catalog/grant/{old.pk}/change/",
    ]
    assert read_buttons(browser, alice) == read_buttons(browser, alice, "denied") == []
    before = stored()
    for value in (f"extend:{old.pk}", f"remove-end:{denied.pk}", f"extend:{denied.pk}", "give"):
        press(browser, alice, tool, value)
        assert "This change no longer applies. Nothing was changed." in read_messages(browser, alice)
    assert stored() == before


def test_a_form_that_names_another_grant_or_a_change_that_does_not_apply_changes_nothing(
    browser: Client, alice: User, bob: User, tool: Tool
) -> None:
    expire(alice, tool)
    others = expire(bob, factories.make_tool("others"))
    current = factories.grant(bob, factories.make_tool("current"))
    before = stored()
    wrong = [f"extend:{others.pk}", f"extend:{current.pk}", f"start:{others.pk}", "give", "switch-on", "join:1"]
    for value in [
        *wrong,
        "extend",
        "extend:",
        "extend:x",
        "extend:999999999999999999999",
        "extend:²",
        "drop",
        "",
        "a:b",
    ]:
        assert press(browser, alice, tool, value).status_code == 302, value
        assert "Nothing was changed." in read_messages(browser, alice), value
    for fields in (
        {"kind": "user"},
        {"kind": ""},
        {"item": "x"},
        {"item": "9" * 30},
        {"user": "-1"},
        {"user": "99999"},
    ):
        assert press(browser, alice, tool, "give", **fields).status_code == 302, fields
        assert "Nothing was changed." in read_messages(browser, alice), fields
    assert stored() == before


def test_the_second_of_two_clicks_changes_nothing_more(browser: Client, alice: User, tool: Tool) -> None:
    press(browser, alice, tool, "give")
    press(browser, alice, tool, "give")
    assert Grant.objects.count() == 1
    assert "This change no longer applies." in read_messages(browser, alice)


def test_a_return_address_never_leaves_the_page(browser: Client, alice: User, tool: Tool) -> None:
    for back in ("https://evil.test/", "//evil.test", "user=alice&q=%22%3E<script>", "\r\nSet-Cookie: x=1", "a" * 9000):
        answer = press(browser, alice, tool, "nothing", back=back)
        assert answer.url.startswith("/admin/view-as/?") and len(answer.url) < 7000
        assert "\r" not in answer.url and "<" not in answer.url
        answer = press(browser, alice, tool, "nothing", back=back, page="access-tool")
        assert answer.url.startswith(f"/admin/access/tool/{tool.pk}/?")


def test_the_members_of_a_group_are_chosen_only_by_those_who_may_choose_them_on_the_page_of_the_user(
    alice: User, tool: Tool
) -> None:
    group = factories.make_group("sales")
    grant = factories.grant(group, tool)
    needs = (*PAGES, "auth.view_group", "auth.change_user")
    clerk, changes = (
        sign_in(*needs, name="clerk"),
        ("catalog.add_grant", "catalog.change_grant", "catalog.delete_grant"),
    )
    assert f"join:{grant.pk}" not in read_buttons(clerk, alice), "the group gives access that the clerk cannot give"
    press(clerk, alice, tool, f"join:{grant.pk}")
    assert "no longer applies" in read_messages(clerk, alice)
    manager = sign_in(*needs, *changes, name="manager")
    assert f"join:{grant.pk}" in read_buttons(manager, alice)
    group.permissions.add(Permission.objects.get(codename="delete_user"))
    assert f"join:{grant.pk}" not in read_buttons(manager, alice), "nor may they give a permission that they lack"
    press(manager, alice, tool, f"join:{grant.pk}")
    group.permissions.clear()
    alice.user_permissions.add(Permission.objects.get(codename="delete_user"))
    assert f"join:{grant.pk}" not in read_buttons(manager, alice), "an account above the manager's is left alone"
    press(manager, alice, tool, f"join:{grant.pk}")
    assert not alice.groups.exists()


def test_a_group_that_an_identity_provider_decides_about_is_named_without_a_button(
    browser: Client, alice: User, bob: User, tool: Tool
) -> None:
    group = factories.make_group("sales")
    grant = factories.grant(group, tool)
    provider = Provider.objects.create(slug="company", name="Company login")
    GroupMapping.objects.create(provider=provider, value="sales-people", group=group)
    Identity.objects.create(user=alice, provider=provider, issuer="https://id.test", subject="1")
    advice = read_advice(browser, alice)
    assert "Company login decides who is in this group. Add alice there." in advice.text
    assert read_buttons(browser, alice) == ["give"]
    press(browser, alice, tool, f"join:{grant.pk}")
    assert not alice.groups.exists()
    assert read_buttons(browser, bob) == [f"join:{grant.pk}", "give"], "who has no identity there is added here"


def test_switching_on_a_tool_needs_the_permission_for_its_type_too(alice: User) -> None:
    client = sign_in(*PAGES, "catalog.change_tool")
    shell = factories.make_tool("shell", enabled=False, runner="command", settings={"command": ["/bin/true"]})
    assert read_buttons(client, alice, "shell") == []
    press(client, alice, shell, "switch-on")
    shell.refresh_from_db()
    assert not shell.enabled


def make_upstream_tool(name: str = "foreign", **connection: Any) -> Tool:
    """A tool of an upstream server that is switched off."""
    connection = {"transport": "streamable_http", "url": "https://forge.example/mcp"} | connection
    server = Upstream.objects.create(name=f"{name}-server", enabled=False, **connection)
    fields: dict[str, Any] = {"pinned": "0" * 64, "approved": json.dumps({"name": name}), "origin": server.origin}
    return factories.make_tool(name, runner="upstream_mcp", settings={"upstream": server.name, "tool": name}, **fields)


def test_a_tool_whose_upstream_server_is_switched_off_is_listed_with_that_reason(alice: User) -> None:
    foreign = make_upstream_tool()
    factories.grant(alice, foreign)
    browser = sign_in(*PAGES)
    assert not is_visible(alice, foreign)
    assert read_advice(browser, alice, "foreign").text == "It is not available from its upstream server."
    assert read_advice(browser, alice, "foreign", sees="no").lines and read_buttons(browser, alice, "foreign") == []
    page = browser.get("/admin/view-as/", {"user": "alice", "sees": "yes"})
    assert page.context["rows"] == []
    viewer = sign_in(*PAGES, "catalog.view_upstream", name="viewer")
    (line,) = read_advice(viewer, alice, "foreign").lines
    assert line.text == "Its upstream server foreign-server is switched off."
    assert [words for _address, words in line.pages] == ["View upstream server"] and line.remedies == ()
    by_tool = viewer.get(f"/admin/access/tool/{foreign.pk}/?sees=no").content.decode()
    assert "Its upstream server foreign-server is switched off." in by_tool


def test_an_upstream_server_is_switched_on_by_those_who_may_change_it(alice: User) -> None:
    foreign = make_upstream_tool()
    grant = factories.grant(alice, foreign)
    reader = sign_in(*PAGES, "catalog.view_upstream", "catalog.change_tool", name="reader")
    before = stored()
    assert press(reader, alice, foreign, "switch-on-server").status_code == 403
    changer = sign_in(*PAGES, "catalog.view_upstream", "catalog.change_upstream", name="changer")
    assert read_buttons(changer, alice, "foreign") == ["switch-on-server"]
    assert stored() == before and not Upstream.objects.get().enabled
    press(changer, alice, foreign, "switch-on-server")
    said = read_messages(changer, alice)
    assert "foreign-server is switched on." in said and "View upstream server" in said and "still hidden" not in said
    assert Upstream.objects.get().enabled and is_visible(alice, foreign)
    assert Action.objects.filter(kind="upstream", actor="changer", verb="changed").count() == 1
    press(changer, alice, foreign, "switch-on-server")
    assert "no longer applies" in read_messages(changer, alice)
    assert Grant.objects.get() == grant


def test_an_upstream_server_that_runs_a_program_is_switched_on_only_by_those_who_may_run_programs(alice: User) -> None:
    local = make_upstream_tool("local", transport="stdio", url="", command="true")
    client = sign_in(*PAGES, "catalog.view_upstream", "catalog.change_upstream")
    assert "is switched off" in read_advice(client, alice, "local").text
    assert "switch-on-server" not in read_buttons(client, alice, "local")
    press(client, alice, local, "switch-on-server")
    assert not Upstream.objects.get().enabled


def test_resources_and_prompts_of_such_a_server_are_listed_too(browser: Client, alice: User) -> None:
    make_upstream_tool()
    factories.make_prompt("theirs", upstream="foreign-server", source="theirs")
    factories.make_resource("docs://theirs", upstream="foreign-server", source="docs://theirs")
    for kind, name in (("prompt", "theirs"), ("resource", "docs://theirs")):
        assert read_buttons(browser, alice, name, show=kind)[0] == "switch-on-server"


def test_names_are_for_those_who_may_view_what_they_name(browser: Client, alice: User, bob: User, tool: Tool) -> None:
    group = factories.make_group("redundancies-2027")
    grant = factories.grant(group, tool)
    factories.grant(bob, factories.make_tool("private"))
    client = sign_in(*PAGES)
    page = client.get("/admin/view-as/?user=alice").content.decode()
    assert "redundancies" not in page and "bob" not in page.replace("combobox", "")
    assert f"Grant {grant.pk}. alice is not in a group that has access." in read_advice(client, alice).text
    assert "alice is not in the group redundancies-2027." in read_advice(browser, alice).text
    assert read_advice(browser, alice, "private").text == "Only other people have access."


# --- what is offered and done --------------------------------------------------------------------------------------


def test_each_obstacle_of_a_grant_is_named_with_its_own_change(browser: Client, alice: User, tool: Tool) -> None:
    old = expire(alice, tool, environments=["staging"])
    advice = read_advice(browser, alice)
    assert advice.text.startswith(f"Grant {old.pk}: allow tool invoices to user alice. It ended yesterday (")
    assert advice.text.endswith(f"It applies only in staging, not in {settings.ENVIRONMENT}.")
    assert read_buttons(browser, alice) == [f"extend:{old.pk}", f"remove-end:{old.pk}", f"apply-here:{old.pk}"]
    press(browser, alice, tool, f"extend:{old.pk}")
    said = read_messages(browser, alice)
    assert f"Grant {old.pk} now ends on " in said and f"/admin/catalog/grant/{old.pk}/history/" in said
    assert "invoices is still hidden from alice." in said and "It applies only in staging" in said
    old.refresh_from_db()
    assert old.ends is not None
    assert timedelta(days=29, hours=23) < old.ends - timezone.now() <= timedelta(days=30)
    press(browser, alice, tool, f"apply-here:{old.pk}")
    assert "still hidden" not in read_messages(browser, alice)
    old.refresh_from_db()
    assert old.environments == ["staging", settings.ENVIRONMENT]
    assert is_visible(alice, tool)


NEVER = [{"path": "/a", "op": "equals", "value": "a text"}]
"""What no argument of the tool can be: it was a text when the grant was made."""


def closed_today() -> list[dict[str, Any]]:
    """A window on the weekday of three days from now, whatever today is."""
    day = (timezone.now() + timedelta(days=3)).strftime("%a").lower()
    return [{"days": [day], "from": "00:00", "to": "24:00", "zone": "UTC"}]


def test_flags_and_their_page_are_named_only_to_those_who_may_view_them(alice: User, tool: Tool) -> None:
    Flag.objects.create(name="beta", percentage=0)
    granted = factories.grant(alice, tool, flags=["beta"])
    (line,) = read_advice(sign_in(*PAGES), alice).lines
    assert line.sentence == f"{granted}. It applies only where these flags are on: beta."
    assert line.pages == () and line.remedies == ()
    (line,) = read_advice(sign_in(*PAGES, "catalog.view_flag", name="other"), alice).lines
    assert line.pages == (("/admin/catalog/flag/", "Flags"),)


def test_closed_windows_say_when_they_open_and_change_nothing(browser: Client, alice: User, tool: Tool) -> None:
    granted = factories.grant(alice, tool, windows=closed_today())
    advice = read_advice(browser, alice)
    assert advice.text.startswith(f"{granted}. Its time windows open again in ")
    assert read_buttons(browser, alice) == []
    assert read_advice(sign_in("auth.view_user", *PAGES), alice).lines[0].link.endswith(f"/{granted.pk}/change/")


def test_conditions_that_do_not_fit_are_named_with_the_grant(browser: Client, alice: User, tool: Tool) -> None:
    granted = factories.grant(alice, tool, conditions=NEVER)
    assert read_advice(browser, alice).text == (
        f"{granted}, with conditions. Its conditions do not fit: No arguments of the tool satisfy the conditions."
    )
    assert read_buttons(browser, alice) == []


def test_a_denial_with_conditions_is_named_where_it_leaves_nothing_and_giving_access_is_not_offered(
    browser: Client, alice: User, tool: Tool
) -> None:
    every_number = [{"path": "/a", "op": "range", "minimum": -1e15, "maximum": 1e15}]
    denied = factories.deny(None, tool, conditions=[{"path": "/gone", "op": "equals", "value": 1}])
    advice = read_advice(browser, alice)
    assert advice.lines[0].sentence == f"{denied}, with conditions. Its conditions apply to every call."
    assert read_buttons(browser, alice) == []
    factories.grant(alice, tool)
    assert not is_visible(alice, tool), "the tool has lost the argument, so that the denial is in doubt"
    Grant.objects.filter(pk=denied.pk).update(conditions=every_number)
    assert is_visible(alice, tool), "it narrows what may be sent"


def test_the_message_after_a_change_names_conditions_that_still_hide_the_item(
    browser: Client, alice: User, tool: Tool
) -> None:
    Flag.objects.create(name="beta", percentage=0)
    old = expire(alice, tool, flags=["beta"], environments=["staging"])
    assert read_buttons(browser, alice) == [f"extend:{old.pk}", f"remove-end:{old.pk}", f"apply-here:{old.pk}"]
    press(browser, alice, tool, f"extend:{old.pk}")
    said = read_messages(browser, alice)
    assert "invoices is still hidden from alice." in said and "these flags are on: beta." in said


def test_a_change_is_logged_and_in_the_history_like_every_change_of_a_grant(
    browser: Client, alice: User, tool: Tool
) -> None:
    old = expire(alice, tool)
    press(browser, alice, tool, f"remove-end:{old.pk}")
    action = Action.objects.filter(kind="grant", verb="changed").latest("pk")
    assert (action.actor, action.target) == ("root", f"{old} (id {old.pk})")
    assert [one.ends is None for one in old.history.order_by("history_id")] == [False, True]
    assert is_visible(alice, tool)


def test_a_grant_that_starts_later_starts_now(browser: Client, alice: User, tool: Tool) -> None:
    later = factories.grant(alice, tool, starts=timezone.now() + timedelta(days=3))
    assert "It starts in 3 days (" in read_advice(browser, alice).text
    press(browser, alice, tool, f"start:{later.pk}")
    assert is_visible(alice, tool)


def test_a_person_joins_the_group_that_has_access(browser: Client, alice: User, tool: Tool) -> None:
    group = factories.make_group("sales")
    grant = factories.grant(group, factories.make_toolset("Files"))
    tool.toolsets.add(factories.make_toolset("Files"))
    press(browser, alice, tool, f"join:{grant.pk}", page="access-tool")
    assert "alice is now in the group sales." in read_messages(browser, alice)
    assert list(alice.groups.all()) == [group]
    assert Action.objects.filter(target=f"alice (id {alice.pk})", actor="root").exists()
    assert is_visible(alice, tool)


def test_access_is_given_to_one_person_by_a_grant_of_their_own(
    browser: Client, alice: User, bob: User, tool: Tool
) -> None:
    factories.grant(bob, tool)
    assert read_buttons(browser, alice) == ["give"]
    press(browser, alice, tool, "give")
    made = Grant.objects.get(user=alice)
    assert (made.tool, made.effect, made.starts, made.ends, made.environments) == (tool, "allow", None, None, [])
    said = read_messages(browser, alice)
    assert f"Access given. {made}." in said and f"/admin/catalog/grant/{made.pk}/change/" in said
    for item, kind in ((factories.make_resource(), "resource"), (factories.make_prompt(), "prompt")):
        assert read_buttons(browser, alice, str(item), show=kind) == ["give"]
        press(browser, alice, item, "give")
        assert Grant.objects.filter(user=alice, **{kind: item}).exists()


def test_an_item_is_switched_on_unless_it_would_not_be_valid(browser: Client, alice: User, tool: Tool) -> None:
    factories.grant(alice, tool)
    Tool.objects.filter(pk=tool.pk).update(enabled=False)
    assert read_advice(browser, alice).text == "It is switched off."
    press(browser, alice, tool, "switch-on")
    assert is_visible(alice, tool)
    handbook = factories.make_resource(enabled=False)
    assert read_buttons(browser, alice, str(handbook), show="resource") == ["switch-on", "give"]
    press(browser, alice, handbook, "switch-on")
    assert read_buttons(browser, alice, str(handbook), show="resource") == ["give"]
    broken = factories.make_tool("broken", enabled=False)
    Tool.objects.filter(pk=broken.pk).update(settings={})
    press(browser, alice, broken, "switch-on")
    assert "Nothing was changed: " in read_messages(browser, alice)
    broken.refresh_from_db()
    assert not broken.enabled


def test_what_is_no_matter_of_a_grant_leads_to_its_own_page(browser: Client, alice: User, tool: Tool) -> None:
    factories.grant(alice, tool)
    token, _ = AccessToken.objects.issue(alice, "laptop", toolsets=[factories.make_toolset("Sales")])
    (line,) = read_advice(browser, alice, token=token.pk).lines
    assert line.text == "The token is restricted to Sales."
    assert line.pages[0][0] == f"/admin/access/accesstoken/{token.pk}/change/"
    Tool.objects.filter(pk=tool.pk).update(quarantined_since=timezone.now(), proposed="null")
    (line,) = read_advice(browser, alice).lines
    assert line.pages[0][0] == f"/admin/catalog/tool/{tool.pk}/review/"
    assert read_advice(sign_in(*PAGES), alice).lines[0].pages == (), "a review needs its own permission"
    Tool.objects.filter(pk=tool.pk).update(quarantined_since=None, proposed="")
    User.objects.filter(pk=alice.pk).update(is_active=False)
    (line,) = read_advice(browser, alice).lines
    assert (line.text, line.pages[0][0]) == ("The user is not active.", f"/admin/auth/user/{alice.pk}/change/")


def test_another_time_or_environment_is_explained_without_buttons(browser: Client, alice: User, tool: Tool) -> None:
    grant = factories.grant(alice, tool, environments=["staging"], starts=timezone.now() + timedelta(days=2))
    at = (timezone.now() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    advice = read_advice(browser, alice, at=at)
    assert "It starts tomorrow (" in advice.text
    assert read_buttons(browser, alice, at=at) == []
    assert read_buttons(browser, alice, environment="elsewhere") == []
    assert read_buttons(browser, alice) == [f"start:{grant.pk}", f"apply-here:{grant.pk}"]


def test_the_access_page_of_a_tool_explains_and_offers_the_same(browser: Client, alice: User, tool: Tool) -> None:
    old = expire(alice, tool)
    page = browser.get(f"/admin/access/tool/{tool.pk}/?sees=no").content.decode()
    assert f'value="extend:{old.pk}"' in page and "It ended yesterday" in page
    answer = press(browser, alice, tool, f"extend:{old.pk}", page="access-tool", back="sees=no")
    assert answer.url == f"/admin/access/tool/{tool.pk}/?sees=no"
    assert is_visible(alice, tool)


def test_hostile_names_are_text(browser: Client, alice: User, tool: Tool) -> None:
    group = factories.make_group(HOSTILE)
    factories.grant(group, tool)
    press(browser, alice, tool, read_buttons(browser, alice)[0])
    page = browser.get("/admin/view-as/?user=alice").content.decode()
    assert HOSTILE not in page and HOSTILE in unescape(page)
    factories.grant(factories.make_group(HOSTILE + "2"), factories.make_tool("second"))
    page = browser.get("/admin/view-as/?user=alice").content.decode()
    assert HOSTILE not in page and "is not in the group" in page


# --- try it --------------------------------------------------------------------------------------------------------

TRIES = ("catalog.view_tool", "catalog.try_tool")


def test_a_new_tool_of_ones_own_is_granted_from_try_it_and_what_was_typed_stays(tool: Tool) -> None:
    client = sign_in(*TRIES, "catalog.add_grant")
    helper, address = User.objects.get(username="helper"), f"/admin/catalog/tool/{tool.pk}/try/"
    page = client.get(address).content.decode()
    assert "You don't have access to this tool: no grant matches." in unescape(page)
    assert 'value="give"' in page and "Grant it to me" in page
    assert page.index('id="try-run"') < page.index('value="give"'), "Enter in a field runs the tool and grants nothing"
    page = client.post(address, {"remedy": "give", "mode": "form", "argument.a": "41.5"}).content.decode()
    assert 'value="41.5"' in page and "Access given." in page and "no grant matches" not in page
    assert (Grant.objects.get().user, Grant.objects.get().tool) == (helper, tool)
    page = client.post(address, {"remedy": "give", "mode": "json", "arguments": '{"a": 7}'}).content.decode()
    assert "This change no longer applies." in page and "{&quot;a&quot;: 7}" in page
    assert Grant.objects.count() == 1


def test_without_the_permission_try_it_says_why_and_grants_nothing(tool: Tool) -> None:
    client, address = sign_in(*TRIES), f"/admin/catalog/tool/{tool.pk}/try/"
    page = client.get(address).content.decode()
    assert "no grant matches." in page and 'name="remedy"' not in page
    assert client.post(address, {"remedy": "give"}).status_code == 403
    assert not Grant.objects.exists()


def test_try_it_grants_nothing_to_somebody_whom_the_viewer_may_not_try_as(alice: User, tool: Tool) -> None:
    client, address = sign_in(*TRIES, "catalog.add_grant"), f"/admin/catalog/tool/{tool.pk}/try/"
    assert client.post(address, {"remedy": "give", "user": "alice"}).status_code == 403
    assert not Grant.objects.exists()
    deputy = sign_in(*TRIES, "catalog.add_grant", "catalog.try_tool_as_other", name="deputy")
    assert "alice does not have access to this tool." in deputy.get(f"{address}?user=alice").content.decode()
    assert deputy.post(address, {"remedy": "give", "user": "alice"}).status_code == 200
    assert Grant.objects.get().user == alice


def test_try_it_names_no_grant_to_somebody_who_may_not_view_grants(alice: User, bob: User, tool: Tool) -> None:
    group = factories.make_group("redundancies-2027")
    factories.grant(group, tool)
    client = sign_in(*TRIES, "catalog.try_tool_as_other")
    address = f"/admin/catalog/tool/{tool.pk}/try/?user=alice"
    page = client.get(address).content.decode()
    assert "redundancies" not in page and "No grant allows it." in page
    factories.deny(factories.make_group("suspended-2027", [alice]), tool)
    page = client.get(address).content.decode()
    assert "2027" not in page and "A grant denies it." in page
