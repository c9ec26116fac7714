"""The admin on the clock of whoever looks, and the audit log, exports and addresses in UTC."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from django.urls import reverse

from audit.models import Action, SavedView
from catalog.models import Grant
from tests import factories
from tests.access.test_pages import log_call
from tests.audit.rows import build_call, save
from toolhub.access.models import Preference

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from django.test import Client

Browser = Callable[..., "Client"]
CALLS = "/admin/audit/call/"
LATE = datetime(2026, 1, 2, 23, 30, tzinfo=UTC)
"""Already the third in Shanghai, where it is half past seven."""


@pytest.fixture
def shanghai(root: User, browser: Browser) -> Client:
    client = browser(root)
    client.cookies["toolhub_zone"] = "Asia/Shanghai"
    return client


def body(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200, path
    return b"".join(answer).decode() if answer.streaming else answer.content.decode()


def test_without_a_chosen_or_browser_zone_pages_use_and_name_utc(root: User, browser: Browser) -> None:
    log_call(root, started_at=LATE)
    page = body(browser(root), CALLS)
    assert "2026-01-02 23:30:00" in page
    assert "Start (UTC)" in page


def test_the_chosen_zone_goes_before_the_browsers(root: User, browser: Browser) -> None:
    Preference.objects.create(user=root, time_zone="America/New_York")
    client = browser()
    client.cookies["toolhub_zone"] = "Asia/Shanghai"
    client.post("/sign-in/", {"username": "root", "password": "correct horse battery"})
    log_call(root, started_at=LATE)
    assert "2026-01-02 18:30:00" in body(client, CALLS)


def test_audit_log_pages_are_in_the_viewers_zone(root: User, shanghai: Client) -> None:
    (row,) = save(build_call(1, user=root, started_at=LATE))
    Action.objects.create(id=row.pk, at=LATE, actor="a", verb="v", kind="k", link=1)
    assert "2026-01-03 07:30:00" in body(shanghai, "/admin/audit/action/")
    assert "2026-01-03 07:30:00 CST" in body(shanghai, f"/admin/audit/action/{row.pk}/change/")
    page = body(shanghai, f"{CALLS}{row.pk}/change/")
    assert "2026-01-03 07:30:00.000000 CST" in page
    assert 'title="2026-01-02T23:30:00Z"' in page


def test_a_filter_is_in_the_viewers_zone_and_its_address_means_the_same_to_everybody(
    root: User, browser: Browser, shanghai: Client
) -> None:
    save(build_call(1, started_at=LATE, name="at_half_past_seven"))
    save(build_call(2, started_at=LATE + timedelta(hours=1), name="at_half_past_eight"))
    address = f"{CALLS}?since=2026-01-03T08:00"
    page = body(shanghai, address)
    assert "at_half_past_eight" in page
    assert "at_half_past_seven" not in page
    assert 'value="2026-01-03T08:00' in page
    everywhere = f"{CALLS}?since=2026-01-03T00:00:00Z"
    for client, shown in ((shanghai, "2026-01-03T08:00"), (browser(root), "2026-01-03T00:00")):
        page = body(client, everywhere)
        assert "at_half_past_seven" not in page
        assert f'value="{shown}' in page
    exported = body(shanghai, f"{CALLS}export/?since=2026-01-03T08:00&until=2026-01-03")
    assert [json.loads(line)["name"] for line in exported.splitlines()] == ["at_half_past_eight"]
    assert json.loads(exported.splitlines()[0])["started_at"].endswith("+00:00")
    kept = Action.objects.get(verb="exported")
    assert "2026-01-03T00:00:00Z" in kept.after
    assert "2026-01-03T16:00:00Z" in kept.after  # to the end of the third, in Shanghai


def test_a_saved_view_covers_the_same_time_in_every_zone(root: User, browser: Browser, shanghai: Client) -> None:
    shanghai.post(f"{CALLS}views/new/", {"name": "New year", "since": "2026-01-01T08:00"})
    assert json.loads(SavedView.objects.get().filters) == {"since": "2026-01-01T00:00:00Z"}
    assert "started from: 2026-01-01 08:00:00 CST" in body(shanghai, f"{CALLS}views/")
    assert "started from: 2026-01-01 00:00:00 UTC" in body(browser(root), f"{CALLS}views/")


def test_a_view_that_was_saved_when_pages_were_in_utc_keeps_its_meaning(root: User, shanghai: Client) -> None:
    SavedView.objects.create(owner=root, name="Old", filters='{"since": "2026-01-01T00:00"}')
    (view,) = shanghai.get(CALLS).context["views"]
    assert "since=2026-01-01T00%3A00%3A00Z" in view.url


def test_a_grant_is_entered_in_the_administrators_zone_and_logged_in_utc(
    alice: User, root: User, shanghai: Client
) -> None:
    tool = factories.make_tool("hers")
    fields = {"tool": [str(tool.pk)], "user": [str(alice.pk)], "starts": ["2026-01-03T07:30"]}
    page = shanghai.post("/admin/access/change/", fields).content.decode()
    assert "2026-01-03 07:30 CST" in page
    form = {"user": alice.pk, "tool": tool.pk, "effect": "allow", "starts_0": "2026-01-03", "starts_1": "07:30:00"}
    shanghai.post(reverse("admin:catalog_grant_add"), form)
    grant = Grant.objects.get(tool=tool)
    assert grant.starts == LATE
    assert "07:30" in body(shanghai, reverse("admin:catalog_grant_change", args=(grant.pk,)))
    made = Action.objects.get(kind="grant", verb="created")
    assert json.loads(made.after)["starts"] == "2026-01-02T23:30:00Z"


def test_form_values_that_are_not_read_back_are_logged_in_utc_too(alice: User) -> None:
    tool = factories.make_tool("hers")
    Grant.objects.bulk_create([Grant(user=alice, tool=tool, starts=LATE.astimezone(ZoneInfo("Asia/Shanghai")))])
    assert "2026-01-02T23:30:00Z" in Action.objects.get(kind="grant").after


def test_view_as_takes_a_time_in_the_viewers_zone(alice: User, root: User, shanghai: Client) -> None:
    tool = factories.make_tool("hers")
    factories.grant(alice, tool, starts=LATE)
    for minute, sees in (("07:29", False), ("07:31", True)):
        page = shanghai.get("/admin/view-as/", {"user": "alice", "at": f"2026-01-03T{minute}", "sees": "yes"})
        assert ("hers" in page.content.decode()) is sees, minute


def test_the_overview_and_its_links_agree_about_the_hour(root: User, shanghai: Client) -> None:
    log_call(root)
    page = shanghai.get("/admin/")
    assert "From (Asia/Shanghai)" in page.content.decode()
    newest = page.context["rows"][0]
    start = page.context["report"].slots[-1].start
    assert newest["label"].endswith(f"{(start.hour + 8) % 24:02d}:00")
    assert f"since={start:%Y-%m-%dT%H}%3A00%3A00Z" in newest["href"]
