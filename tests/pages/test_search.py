"""The search of the admin: each person finds what they may open, and hears of nothing else."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from audit.models import Action
from catalog.models import Flag, Secret, Upstream
from tests import factories
from tests.audit import rows
from toolhub.pages.search import sources
from toolhub.pages.settings_table import read_settings

pytestmark = pytest.mark.django_db
PAGE = "/admin/search/"


def sign_in(*permissions: str) -> Client:
    staff = User.objects.create_user(f"staff{User.objects.count()}", is_staff=True)
    for name in permissions:
        app, _, codename = name.partition(".")
        staff.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    client = Client()
    client.force_login(staff)
    return client


def ask(client: Client, query: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = client.get(PAGE, {"q": query}, headers={"accept": "application/json"}).json()[
        "results"
    ]
    return found


def titles(client: Client, query: str, kind: str = "") -> list[str]:
    return [row["title"] for row in ask(client, query) if kind in {"", row["kind"]}]


def fill() -> dict[str, Any]:
    """One row of each kind with the word "ledger" in its name."""
    return {
        "catalog.view_tool": factories.make_tool("ledger_tool"),
        "catalog.view_toolset": factories.make_toolset("ledger toolset"),
        "catalog.view_resource": factories.make_resource("docs://ledger"),
        "catalog.view_prompt": factories.make_prompt("ledger_prompt"),
        "catalog.view_upstream": Upstream.objects.create(
            name="ledger-upstream", transport="streamable_http", url="https://example.com/mcp"
        ),
        "auth.view_user": User.objects.create_user("ledger_user"),
        "auth.view_group": factories.make_group("ledger group"),
        "catalog.view_secret": Secret.objects.create(name="ledger_secret"),
        "catalog.view_valuelist": factories.make_value_list("ledger_list", {None: ["journal"]}),
        "catalog.view_flag": Flag.objects.create(name="ledger_flag"),
    }


def test_whoever_is_no_staff_is_sent_to_the_sign_in(alice: User) -> None:
    client = Client()
    client.force_login(alice)
    for somebody in (client, Client()):
        response = somebody.get(PAGE, {"q": "ledger"}, headers={"accept": "application/json"})
        assert response.status_code == 302 and response["Location"].startswith("/admin/login/?next=")


def test_staff_without_permissions_find_no_row_no_setting_and_no_call(alice: User) -> None:
    things = fill()
    (call,) = rows.save(rows.build_call(user=alice, name="ledger_tool"))
    grant = factories.grant(alice, things["catalog.view_tool"])
    client = sign_in()
    for query in ("ledger", "alice", "TOOLHUB_PUBLIC_URL", str(call.pk), str(grant.pk), "Toolsets"):
        assert ask(client, query) == [], query
    assert titles(client, "Overview") == ["Overview"]


@pytest.mark.parametrize(
    "permission",
    [
        *("catalog.view_tool", "catalog.view_toolset", "catalog.view_resource", "catalog.view_prompt"),
        *("catalog.view_upstream", "catalog.view_secret", "auth.view_user", "auth.view_group"),
    ],
)
def test_each_permission_finds_its_own_kind_and_no_other(permission: str) -> None:
    thing = fill()[permission]
    (row,) = ask(sign_in(permission), "ledger")
    app, model = type(thing)._meta.app_label, type(thing)._meta.model_name
    assert row["url"] == f"/admin/{app}/{model}/{thing.pk}/change/"


def test_the_dialog_opens_what_it_found(browser: Client) -> None:
    fill()
    found = ask(browser, "ledger")
    assert len(found) == 11  # and the link to the audit log
    for row in found:
        assert browser.get(row["url"]).status_code == 200, row


def test_the_whole_name_comes_before_its_beginning_a_word_and_any_other_place(browser: Client) -> None:
    for name in ("a_billing", "rebilling", "billing_b", "billing", "zbilling"):
        factories.make_tool(name)
    assert titles(browser, "Billing", "Tool") == ["billing", "billing_b", "a_billing", "rebilling", "zbilling"]


def test_an_exact_user_comes_before_tools_that_contain_the_name(browser: Client) -> None:
    factories.make_tool("ask_bob_smith")
    User.objects.create_user("bob")
    assert titles(browser, "bob")[:2] == ["bob", "ask_bob_smith"]


def test_a_tool_is_found_by_its_title_and_words_in_any_order(browser: Client) -> None:
    factories.make_tool("crm_17", title="List open invoices")
    (row,) = [row for row in ask(browser, "invoices open") if row["kind"] == "Tool"]
    assert (row["title"], row["detail"]) == ("crm_17", "List open invoices")


def test_more_than_a_handful_of_one_kind_leads_to_the_list(browser: Client) -> None:
    for number in range(sources.MAX_ROWS + 2):
        factories.make_tool(f"many_{number}")
    found = [row for row in ask(browser, "many_") if row["kind"] == "Tool"]
    assert len(found) == sources.MAX_ROWS + 1
    assert found[-1]["url"] == "/admin/catalog/tool/?q=many_"


def test_the_id_of_a_call_or_change_opens_it_for_those_who_may_read_it(alice: User) -> None:
    (call,) = rows.save(rows.build_call(user=alice))
    change = Action.objects.create(id=uuid.uuid4(), at=timezone.now(), actor="a", verb="v", kind="k", link=1)
    calls, activity = sign_in("audit.view_call"), sign_in("audit.view_action")
    assert ask(calls, f"call {call.pk} failed")[0]["url"] == f"/admin/audit/call/{call.pk}/change/"
    assert ask(activity, change.pk.hex)[0]["url"] == f"/admin/audit/action/{change.pk}/change/"
    assert [row["kind"] for row in ask(calls, str(change.pk))] == ["Audit log"]
    assert ask(activity, str(call.pk)) == []


def test_the_number_of_a_grant_opens_it_for_those_who_may_view_grants(alice: User) -> None:
    grant = factories.grant(alice, factories.make_tool("add"))
    (row,) = ask(sign_in("catalog.view_grant"), f"#{grant.pk}")
    assert row["url"] == f"/admin/catalog/grant/{grant.pk}/change/" and "add" in row["detail"]
    assert ask(sign_in("catalog.view_limit"), str(grant.pk)) == []


def test_other_text_is_one_step_from_the_audit_log_for_auditors_only() -> None:
    (row,) = ask(sign_in("audit.view_call"), "order 66 & more")
    assert row["url"] == "/admin/audit/call/?q=order+66+%26+more"
    assert ask(sign_in("audit.view_action"), "order 66 & more") == []


def test_pages_are_found_by_those_who_may_open_them() -> None:
    assert titles(sign_in("access.view_connections"), "jobs") == ["Background jobs"]
    assert titles(sign_in("audit.view_action"), "jobs") == []


def test_settings_are_found_by_name_and_open_at_their_row() -> None:
    client = sign_in("pages.view_settings")
    row = ask(client, "toolhub_public_url")[0]
    assert row["title"] == "TOOLHUB_PUBLIC_URL" and row["url"] == "/admin/settings/#TOOLHUB_PUBLIC_URL"
    assert 'id="TOOLHUB_PUBLIC_URL"' in client.get("/admin/settings/").content.decode()


@pytest.mark.parametrize(
    "query", ["", "  ", "\x00", "'", "%", "_", "\\", "a\ud800b", "9" * 40, "²", "x" * 5_000, "<b>"]
)
def test_any_text_is_answered(browser: Client, query: str) -> None:
    factories.make_tool("add")
    sent = query.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    assert browser.get(PAGE, {"q": sent}).status_code == 200
    assert len(ask(browser, sent)) <= sources.MAX_RESULTS + 1


def test_signs_of_a_pattern_are_text(browser: Client) -> None:
    factories.make_tool("add")
    assert titles(browser, "a%d", "Tool") == titles(browser, "a_d", "Tool") == []


def test_names_with_hidden_characters_show_them_and_stay_short(browser: Client) -> None:
    User.objects.create_user("bob\u202e", first_name="x")
    factories.make_tool("add", title="t" * 250)
    assert titles(browser, "bob", "User") == ["bob⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩"]
    (row,) = [row for row in ask(browser, "add") if row["kind"] == "Tool"]
    assert len(row["detail"]) == sources.MAX_TITLE_CHARACTERS and row["detail"].endswith("…")


def test_the_page_works_without_scripts_and_shows_texts_as_text(browser: Client) -> None:
    factories.make_group("<b>ledger</b>")
    html = browser.get(PAGE, {"q": "<b>led"}).content.decode()
    assert "&lt;b&gt;ledger&lt;/b&gt;" in html and "<b>led" not in html
    assert "Nothing matches." in sign_in().get(PAGE, {"q": "ledger"}).content.decode()


def test_what_was_taken_away_is_not_found_any_more() -> None:
    factories.make_tool("ledger")
    client = sign_in("catalog.view_tool")
    assert titles(client, "ledger") == ["ledger"]
    User.objects.get(pk=client.session["_auth_user_id"]).user_permissions.clear()
    assert titles(client, "ledger") == []
    assert "no-store" in client.get(PAGE)["Cache-Control"]


def test_the_settings_page_is_closed_without_its_permission_and_never_shows_a_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOOLHUB_SMTP_URL", "smtp://user:hunter2@mail.example")
    monkeypatch.setenv("TOOLHUB_SQL_DATABASES_FILE", "/run/secrets/databases")
    assert sign_in("pages.manage_backups").get("/admin/settings/").status_code == 403
    html = sign_in("pages.view_settings").get("/admin/settings/").content.decode()
    assert "hunter2" not in html and "/run/secrets" not in html
    assert html.count(">set<") >= 1 and html.count("set by a file") == 2, "once for telephones"
    assert len(read_settings()) > 60
