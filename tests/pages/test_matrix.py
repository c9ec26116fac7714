"""The matrix of toolsets and groups, one cell of it, and changes of many grants at once."""

from __future__ import annotations

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.utils import timezone

from audit.models import Action
from catalog.models import Grant, Toolset
from catalog.policy import grant_changes
from tests import factories

pytestmark = pytest.mark.django_db
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
MATRIX, BULK = "/admin/access/matrix/", "/admin/access/change/"


@pytest.fixture
def analysts() -> Group:
    return factories.make_group("analysts")


def read_cell(browser: Client, toolset: Toolset, group: Group | None) -> tuple[str, int]:
    """What the cell says, and how many grants are behind it."""
    context = browser.get(MATRIX).context
    column = [number for number, _name in context["columns"]].index(group.pk if group else 0)
    (cells,) = [cells for row, cells in context["rows"] if row.pk == toolset.pk]
    return cells[column].state, cells[column].count


def test_pages_that_tell_of_the_environment_keep_its_badge(browser: Client, analysts: Group) -> None:
    tool = factories.make_tool("add", toolset="Numbers")
    for address in (MATRIX, f"{MATRIX}{tool.toolsets.get().pk}/{analysts.pk}/", f"/admin/access/tool/{tool.pk}/"):
        assert browser.get(address).context["environment"][0] == settings.ENVIRONMENT


def choose(browser: Client, **query: Any) -> Any:
    return browser.get(BULK, query)


def set_cell(browser: Client, toolset: Toolset, group: Group | None, wanted: str) -> None:
    answer = browser.post(f"{MATRIX}{toolset.pk}/{group.pk if group else 0}/set/", {"set": wanted})
    assert answer.status_code == 302


def test_users_who_may_only_view_find_no_buttons_and_can_set_nothing(analysts: Group) -> None:
    watcher = User.objects.create_user("watcher", is_staff=True)
    names = ("view_grant", "view_toolset", "view_group")
    watcher.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(watcher)
    toolset = factories.make_toolset()
    address = f"{MATRIX}{toolset.pk}/{analysts.pk}/"
    assert client.get(MATRIX).status_code == 200
    assert 'method="post"' not in client.get(address).content.decode().partition('id="cell"')[2]
    assert client.post(f"{address}set/", {"set": "allow"}).status_code == 403
    assert client.get(BULK).status_code == 403
    assert not Grant.objects.exists()


def test_setting_a_cell_needs_a_post_with_its_csrf_token(root: User, analysts: Group) -> None:
    toolset = factories.make_toolset()
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(root)
    address = f"{MATRIX}{toolset.pk}/{analysts.pk}/set/"
    assert strict.get(address).status_code == 405
    assert strict.post(address, {"set": "allow"}).status_code == 403
    assert not Grant.objects.exists()


def test_a_cell_shows_current_access_in_this_environment(browser: Client, analysts: Group) -> None:
    toolset = factories.make_toolset()
    now = timezone.now()
    assert read_cell(browser, toolset, analysts) == ("none", 0)
    factories.grant(analysts, toolset, ends=now - timedelta(days=1))
    assert read_cell(browser, toolset, analysts) == ("none", 0)
    factories.grant(analysts, toolset, starts=now + timedelta(days=1))
    factories.grant(analysts, toolset, environments=["production"])
    assert read_cell(browser, toolset, analysts) == ("later", 2)
    factories.grant(analysts, toolset)
    assert read_cell(browser, toolset, analysts) == ("allow", 3)
    factories.deny(analysts, toolset)
    assert read_cell(browser, toolset, analysts) == ("deny", 4)
    assert read_cell(browser, toolset, None) == ("none", 0)
    factories.grant(None, toolset)
    assert read_cell(browser, toolset, None) == ("allow", 1)
    page = browser.get(f"{MATRIX}{toolset.pk}/{analysts.pk}/").content.decode()
    assert all(word in page for word in ("expired", "scheduled", "in other environments", "in force"))


EMEA = [{"path": "/region", "op": "equals", "value": "emea"}]


def make_windows(days_from_now: int) -> list[dict[str, Any]]:
    """The whole day that is so many days from now, of each week."""
    day = (timezone.now() + timedelta(days=days_from_now)).strftime("%a").lower()
    return [{"days": [day], "from": "00:00", "to": "24:00", "zone": "UTC"}]


def test_a_cell_with_only_restricted_grants_is_limited_and_never_allowed_or_denied(
    browser: Client, analysts: Group
) -> None:
    cases: list[tuple[Any, dict[str, Any]]] = [
        (factories.grant, {"conditions": EMEA}),
        (factories.grant, {"flags": ["beta"]}),
        (factories.deny, {"conditions": EMEA}),
        (factories.deny, {"flags": ["beta"]}),
    ]
    for number, (make, fields) in enumerate(cases):
        toolset = factories.make_toolset(f"Set {number}")
        make(analysts, toolset, **fields)
        assert read_cell(browser, toolset, analysts) == ("limited", 1), fields
        factories.grant(analysts, toolset)
        expected = "allow" if make is factories.grant else "limited"
        assert read_cell(browser, toolset, analysts) == (expected, 2), fields
        factories.deny(analysts, toolset)
        assert read_cell(browser, toolset, analysts) == ("deny", 3), fields
    page = browser.get(f"{MATRIX}{toolset.pk}/{analysts.pk}/").content.decode()
    assert page.count("limited") == 1, "the badge of the one restricted grant"


def test_a_cell_outside_the_time_windows_is_not_in_force(browser: Client, analysts: Group) -> None:
    toolset = factories.make_toolset()
    factories.grant(analysts, toolset, windows=make_windows(3))
    assert read_cell(browser, toolset, analysts) == ("later", 1)
    page = browser.get(f"{MATRIX}{toolset.pk}/{analysts.pk}/").content.decode()
    assert "outside its time windows" in page and "in its time windows" in page and "always" not in page
    factories.grant(analysts, toolset, windows=make_windows(0) + make_windows(1))
    assert read_cell(browser, toolset, analysts) == ("allow", 2)


@pytest.mark.parametrize(
    "fields", [{"conditions": EMEA}, {"flags": ["beta"]}, {"windows": make_windows(0) + make_windows(1)}]
)
def test_allowing_a_cell_adds_an_unrestricted_grant_and_keeps_the_restricted_one(
    browser: Client, analysts: Group, fields: dict[str, Any]
) -> None:
    toolset = factories.make_toolset()
    restricted = factories.grant(analysts, toolset, **fields)
    set_cell(browser, toolset, analysts, "allow")
    assert read_cell(browser, toolset, analysts) == ("allow", 2)
    made = Grant.objects.exclude(pk=restricted.pk).get()
    assert (made.conditions, made.windows, made.flags, made.ends) == ([], [], [], None)
    assert Grant.objects.filter(pk=restricted.pk, ends=None).exists()
    set_cell(browser, toolset, analysts, "deny")
    restricted.refresh_from_db()
    assert restricted.ends is not None and getattr(restricted, next(iter(fields))), "ended, with what it was"
    assert read_cell(browser, toolset, analysts) == ("deny", 1)


def test_allowing_a_cell_ends_a_denial_with_conditions_too(browser: Client, analysts: Group) -> None:
    toolset = factories.make_toolset()
    denied = factories.deny(analysts, toolset, conditions=EMEA)
    answer = browser.post(f"{MATRIX}{toolset.pk}/{analysts.pk}/set/", {"set": "allow"}, follow=True)
    assert "1 grant was created. 1 grant was ended." in answer.content.decode()
    denied.refresh_from_db()
    assert denied.ends is not None
    assert read_cell(browser, toolset, analysts) == ("allow", 1)


def test_setting_a_cell_creates_and_ends_grants_and_is_logged(browser: Client, analysts: Group) -> None:
    toolset = factories.make_toolset()
    set_cell(browser, toolset, analysts, "allow")
    assert read_cell(browser, toolset, analysts) == ("allow", 1)
    made = Grant.objects.get()
    set_cell(browser, toolset, analysts, "allow")
    assert Grant.objects.get() == made, "it was so already"
    set_cell(browser, toolset, analysts, "deny")
    assert read_cell(browser, toolset, analysts) == ("deny", 1)
    made.refresh_from_db()
    assert made.ends is not None, "ended and not deleted"
    set_cell(browser, toolset, analysts, "end")
    assert read_cell(browser, toolset, analysts) == ("none", 0)
    assert Grant.objects.count() == 2
    set_cell(browser, toolset, None, "allow")
    assert Grant.objects.filter(everyone=True).count() == 1
    verbs = list(Action.objects.filter(kind="grant").order_by("pk").values_list("actor", "verb"))
    assert verbs == [("root", verb) for verb in ("created", "created", "changed", "changed", "created")]
    assert made.history.count() == 2
    assert made.history.first().history_user.username == "root"


def test_setting_a_cell_leaves_other_environments_as_they_are(browser: Client, analysts: Group) -> None:
    toolset = factories.make_toolset()
    elsewhere = factories.deny(analysts, toolset, environments=["production"])
    planned = factories.deny(analysts, toolset, starts=timezone.now() + timedelta(days=1))
    set_cell(browser, toolset, analysts, "allow")
    elsewhere.refresh_from_db()
    assert elsewhere.ends is None
    assert not Grant.objects.filter(pk=planned.pk).exists(), "what has not begun is deleted"


def test_after_setting_a_cell_one_is_back_where_the_table_was(browser: Client, analysts: Group) -> None:
    toolset = factories.make_toolset()
    form = {"set": "allow", "back": "toolset=Num&tp=2&next=//evil.example"}
    answer = browser.post(f"{MATRIX}{toolset.pk}/{analysts.pk}/set/", form)
    assert answer["Location"] == f"{MATRIX}?toolset=Num&tp=2"
    assert browser.post(f"{MATRIX}{toolset.pk}/999999/set/", form).status_code == 404


def test_two_hundred_toolsets_and_groups_come_in_small_pages_that_can_be_searched(
    browser: Client, django_assert_max_num_queries: Any
) -> None:
    toolsets = [factories.make_toolset(f"A toolset with a rather long name {number:03}") for number in range(200)]
    groups = [factories.make_group(f"A group with a rather long name {number:03}") for number in range(200)]
    Grant.objects.bulk_create(Grant(toolset=row, group=column) for row in toolsets[:30] for column in groups[:12])
    browser.get(MATRIX)
    with django_assert_max_num_queries(12):
        page = browser.get(MATRIX)
    assert len(page.content) < 200_000
    assert len(page.context["rows"]) == 25 and len(page.context["columns"]) == 11
    found = browser.get(MATRIX, {"toolset": "name 150", "group": "name 199"})
    assert [row.name for row, _ in found.context["rows"]] == ["A toolset with a rather long name 150"]
    assert [name for _, name in found.context["columns"]][1:] == ["A group with a rather long name 199"]
    last = browser.get(MATRIX, {"tp": "8", "gp": "99"})
    assert last.context["rows"][-1][0].name.endswith("199")
    assert [name for _, name in last.context["columns"]][1:] == ["auditor"], "the group that is always there"


def test_names_are_text_on_every_page(browser: Client, alice: User) -> None:
    toolset, group = factories.make_toolset(HOSTILE), factories.make_group(HOSTILE[:100])
    tool = factories.make_tool(title=HOSTILE)
    factories.grant(group, toolset, note=HOSTILE)
    User.objects.filter(pk=alice.pk).update(username=HOSTILE)
    chosen: dict[str, Any] = {
        "toolset": toolset.pk,
        "tool": tool.pk,
        "group": group.pk,
        "user": alice.pk,
        "note": HOSTILE,
    }
    for answer in (
        browser.get(MATRIX),
        browser.get(f"{MATRIX}{toolset.pk}/{group.pk}/"),
        choose(browser, **chosen),
        choose(browser, **chosen, look="1"),
    ):
        assert answer.status_code == 200
        assert "<script>alert" not in answer.content.decode()


# --- many at once --------------------------------------------------------------------------------------------------


def test_a_search_keeps_what_is_chosen(browser: Client, alice: User, bob: User) -> None:
    toolset = factories.make_toolset("Files")
    page = choose(browser, toolset=toolset.pk, user=alice.pk, user_q="bo")
    pickers = {picker.key: picker for picker in page.context["pickers"]}
    assert pickers["user"].chosen == [(alice.pk, "alice")]
    assert pickers["user"].found == [(bob.pk, "bob")]
    assert f'name="toolset" value="{toolset.pk}" checked' in page.content.decode()
    assert browser.get("/admin/access/pick/?kind=user&q=ali").json() == {"results": [{"id": alice.pk, "name": "alice"}]}


def test_missing_and_invalid_input_is_reported_and_nothing_happens(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    whole: dict[str, Any] = {"tool": tool.pk, "user": alice.pk, "look": "1"}
    for change, said in (
        ({"tool": ""}, "at least one toolset or tool"),
        ({"user": ""}, "at least one group or user"),
        ({"starts": "2026-02-02T10:00", "ends": "2026-02-01T10:00"}, "end must be after"),
        ({"starts": "soon"}, "is not a valid date and time"),
        ({"effect": "destroy"}, "Choose what to do"),
        ({"environments": "pro/duction"}, "Enter environment names"),
    ):
        page = choose(browser, **{**whole, **change}).content.decode()
        assert said in page, change
        assert 'id="bulk-confirm"' not in page
    assert not Grant.objects.exists()


def confirm_change(browser: Client, chosen: dict[str, Any]) -> Any:
    page = choose(browser, **chosen, look="1")
    form = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.content.decode())
    kept: dict[str, list[str]] = {}
    for name, value in form:
        kept.setdefault(name, []).append(value)
    return browser.post(BULK, kept)


def test_a_change_does_exactly_what_its_preview_says(browser: Client, alice: User, analysts: Group) -> None:
    files, mail = factories.make_toolset("Files"), factories.make_toolset("Mail")
    tool = factories.make_tool()
    there = factories.grant(analysts, files)
    denial = factories.deny(alice, tool)
    chosen: dict[str, Any] = {
        "toolset": [files.pk, mail.pk],
        "tool": tool.pk,
        "group": analysts.pk,
        "user": alice.pk,
        "ends": "2099-01-01T00:00",
        "note": "the spring project",
    }
    looked = choose(browser, **chosen, look="1")
    plan = looked.context["plan"]
    assert (len(plan.to_create), plan.existing, plan.overriding) == (5, [there], [denial])
    assert Grant.objects.count() == 2, "looking changes nothing"
    assert confirm_change(browser, chosen)["Location"] == MATRIX
    made = Grant.objects.filter(note="the spring project")
    assert made.count() == 5
    assert {grant.ends.year for grant in made if grant.ends} == {2099}
    assert Action.objects.filter(kind="grant", verb="created", actor="root").count() == 5
    again = choose(browser, **chosen, look="1").context["plan"]
    assert (again.changes, len(again.existing)) == (0, 6), "the second time there is nothing to do"


def test_ending_ends_open_grants_and_leaves_the_rest(browser: Client, alice: User, bob: User) -> None:
    toolset = factories.make_toolset()
    mine, others = factories.grant(alice, toolset), factories.grant(bob, toolset)
    confirm_change(browser, {"toolset": toolset.pk, "user": alice.pk, "effect": "end"})
    mine.refresh_from_db()
    others.refresh_from_db()
    assert mine.ends is not None and others.ends is None


def test_concurrent_changes_are_shown_again_and_not_applied(browser: Client, alice: User) -> None:
    tool = factories.make_tool()
    stale = browser.post(BULK, {"tool": tool.pk, "user": alice.pk, "sure": "what it was before"})
    assert "Grants have changed since you opened this page" in stale.content.decode()
    assert not Grant.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("effect", ["allow", "end"])
def test_of_two_confirmations_of_one_change_one_applies_and_the_other_gets_a_message(
    root: User, alice: User, effect: str
) -> None:
    """Both have looked before either writes: the barrier stands after the first look of each at the grants."""
    tool = factories.make_tool()
    if effect == "end":
        factories.grant(alice, tool)
    chosen = {"tool": tool.pk, "user": alice.pk, "effect": effect}
    browsers = [Client(), Client()]
    for browser in browsers:
        browser.force_login(root)
    sure = choose(browsers[0], **chosen, look="1").context["plan"].digest
    looked = threading.Barrier(2, timeout=120)

    def confirm(browser: Client) -> Any:
        waited = False

        def meet(execute: Any, sql: str, *rest: Any) -> Any:
            nonlocal waited
            result = execute(sql, *rest)
            if not waited and sql.startswith("SELECT") and 'FROM "catalog_grant"' in sql:
                waited = True
                looked.wait()
            return result

        try:
            with connection.execute_wrapper(meet):
                return browser.post(BULK, {**chosen, "sure": sure})
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as both:
        answers = list(both.map(confirm, browsers))
    assert sorted(answer.status_code for answer in answers) == [200, 302]
    (told,) = [answer.content.decode() for answer in answers if answer.status_code == 200]
    assert "Grants have changed since you opened this page" in told
    assert Grant.objects.count() == 1 and Grant.history.filter(history_type="+").count() == 1
    assert Grant.history.filter(history_type="~").count() == (effect == "end")


def test_ending_a_grant_keeps_concurrent_edits_of_it(alice: User) -> None:
    grant = factories.grant(alice, factories.make_tool())
    looked_at = Grant.objects.get(pk=grant.pk)
    grant.note, grant.environments = "why", ["production"]
    grant.save()
    grant_changes.end_grant(looked_at)
    grant.refresh_from_db()
    assert grant.ends is not None
    assert (grant.note, grant.environments) == ("why", ["production"])


def test_a_target_that_is_gone_meanwhile_is_granted_to_nobody(alice: User) -> None:
    tool = factories.make_tool()
    wish = grant_changes.GrantChange(
        "allow", grant_changes.targets([tool.pk], []), grant_changes.subjects([alice.pk], [])
    )
    digest = grant_changes.Plan.build(wish).digest
    tool.delete()
    assert grant_changes.carry_out(wish, digest)[1] is False


def test_a_grant_counts_as_existing_only_when_it_covers_the_whole_request(alice: User) -> None:
    tool = factories.make_tool()
    now = timezone.now()
    targets, subjects = grant_changes.targets([tool.pk], []), grant_changes.subjects([alice.pk], [])

    def made(**wish: Any) -> int:
        return len(grant_changes.Plan.build(grant_changes.GrantChange("allow", targets, subjects, **wish)).to_create)

    factories.grant(alice, tool, environments=["production"], ends=now + timedelta(days=10))
    assert made() == 1
    assert made(environments=("production",)) == 1
    assert made(environments=("production",), ends=now + timedelta(days=5)) == 0
    assert made(environments=("staging",), ends=now + timedelta(days=5)) == 1
    factories.grant(alice, tool, conditions=EMEA)
    factories.grant(alice, tool, flags=["beta"])
    factories.grant(alice, tool, windows=make_windows(0) + make_windows(1))
    factories.grant(alice, tool, starts=now + timedelta(days=2))
    assert made() == 1
    assert made(starts=now + timedelta(days=3)) == 0


def test_more_than_a_page_can_confirm_is_refused(browser: Client) -> None:
    tools = [factories.make_tool(f"tool{number}").pk for number in range(26)]
    users = User.objects.bulk_create([User(username=f"user{number}") for number in range(20)])
    page = choose(browser, tool=tools, user=[user.pk for user in users], look="1")
    assert "at most 500 grants" in page.content.decode()


# --- the ways here -------------------------------------------------------------------------------------------------


def test_rows_selected_in_a_list_are_selected_on_the_page_that_changes_grants(browser: Client, alice: User) -> None:
    tools = [factories.make_tool(f"tool{number}") for number in range(2)]
    for address, name, rows in (
        ("/admin/catalog/tool/", "tool", tools),
        ("/admin/catalog/toolset/", "toolset", [factories.make_toolset()]),
        ("/admin/auth/group/", "group", [factories.make_group()]),
        ("/admin/auth/user/", "user", [alice]),
    ):
        ticked = {"action": "change_grants", "_selected_action": [row.pk for row in rows]}
        assert browser.post(address, ticked)["Location"] == BULK + "?" + "&".join(f"{name}={row.pk}" for row in rows)


def test_users_who_may_not_change_grants_get_no_link_to_it(alice: User) -> None:
    keeper = User.objects.create_user("keeper", is_staff=True)
    keeper.user_permissions.set(Permission.objects.filter(codename__in=("view_tool", "change_tool", "view_grant")))
    client = Client()
    client.force_login(keeper)
    factories.make_tool()
    assert "change_grants" not in client.get("/admin/catalog/tool/").content.decode()
    grants = client.get("/admin/catalog/grant/").content.decode()
    assert MATRIX not in grants and BULK not in grants


def test_lists_and_pages_lead_to_the_table_and_to_what_a_user_sees(browser: Client, alice: User) -> None:
    for address in ("/admin/catalog/grant/", "/admin/catalog/limit/"):
        page = browser.get(address).content.decode()
        assert f'href="{MATRIX}"' in page and 'href="/admin/view-as/"' in page and f'href="{BULK}"' in page
    user = browser.get(f"/admin/auth/user/{alice.pk}/change/").content.decode()
    assert f'href="/admin/access/user/{alice.pk}/"' in user


def test_grants_can_be_listed_by_whether_they_are_in_force(browser: Client, alice: User) -> None:
    tool, now = factories.make_tool(), timezone.now()
    day = timedelta(days=1)
    grants = {
        "now": factories.grant(alice, tool, starts=now - day, ends=now + day),
        "later": factories.grant(alice, tool, starts=now + day),
        "over": factories.grant(alice, tool, ends=now - day, windows=make_windows(3)),
        "closed": factories.grant(alice, tool, windows=make_windows(3)),
    }
    for when, grant in grants.items():
        assert list(browser.get("/admin/catalog/grant/", {"when": when}).context["cl"].queryset) == [grant], when
