"""The admin's home page: numbers with their lists, only what the person may see, and what to do next."""

from __future__ import annotations

import itertools
import json
import re
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.utils import timezone

from audit.models import Call
from audit.queries import rollups, statistics
from catalog.models import StoredResult
from tests.audit.rows import build_call, save
from tests.factories import make_tool
from toolhub.access.models import ServingProcess

pytestmark = pytest.mark.django_db
_numbers = itertools.count(1)
HOSTILE = '"><script>alert(1)</script>'


def build_recent_call(number: int, **values):
    return build_call(
        next(_numbers), started_at=timezone.now() - timedelta(seconds=100 + number), **{"target_id": 1, **values}
    )


def sign_in_staff(client, *permissions: str) -> User:
    user = User.objects.create_user("sam", password="correct horse battery", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(user)
    return user


def page(client, **query) -> str:
    response = client.get("/admin/", query)
    assert response.status_code == 200
    return response.content.decode()


def numbers(html: str) -> dict[str, tuple[str, str]]:
    """The cards: label -> (value, address)."""
    part = html.split('id="numbers"')[1]
    cards = re.findall(r'<a [^>]*href="([^"]*)">\s*<span[^>]*>(.*?)</span>\s*<span[^>]*>(.*?)</span>', part, re.DOTALL)
    return {label: (value, unescape(href)) for href, label, value in cards}


def test_a_stranger_is_sent_to_the_sign_in(client):
    response = client.get("/admin/")
    assert response.status_code == 302 and "/login/" in response["Location"]


def test_users_without_permissions_get_no_numbers(client):
    save(build_recent_call(1))
    sign_in_staff(client)
    html = page(client)
    assert 'id="numbers"' not in html and "data-type=" not in html and 'id="chain-state"' not in html


def test_an_auditor_sees_calls_the_verification_and_the_numbers_of_the_catalogue_and_no_next_steps(client):
    save(build_recent_call(1))
    user = User.objects.create_user("audrey", is_staff=True)
    user.groups.add(Group.objects.get(name="auditor"))
    client.force_login(user)
    html = page(client)
    found = numbers(html)
    assert found["Calls"][0] == "1"
    assert {"Quarantined", "Connected clients"} <= set(found)
    assert 'id="chain-state"' in html and "Next steps" not in html


def test_catalogue_managers_see_no_calls(client):
    save(build_recent_call(1, username="alice", name="secret_tool"))
    sign_in_staff(client, "view_tool", "view_connections")
    html = page(client)
    assert set(numbers(html)) == {"Quarantined", "Connected clients"}
    assert "secret_tool" not in html and "alice" not in html and "data-type=" not in html


def test_without_calls_the_page_leads_to_connecting_a_client(client, root):
    client.force_login(root)
    html = page(client)
    assert "No calls in this period" in html and 'href="/connect/"' in html


@pytest.mark.parametrize("period", statistics.PERIODS)
def test_every_number_is_that_of_the_list_it_leads_to(client, root, alice, period):
    client.force_login(root)
    save(
        *(build_recent_call(number, user=alice, name="add") for number in range(4)),
        build_recent_call(5, user=alice, name="add", outcome="limited"),
        build_recent_call(6, user=root, name="weather", outcome="tool_error"),
        build_recent_call(7, outcome="refused", target_id=None),
    )
    rollups.catch_up()
    html = page(client, period=period)
    assert [numbers(html)[label][0] for label in ("Calls", "Rate limited", "Denied")] == ["7", "1", "1"]
    links = re.findall(
        r'href="([^"]*/audit/call/\?[^"]*)">\s*(?:<span[^>]*>[^<]*</span>\s*<span[^>]*>)?([\d,]+)<', html
    )
    assert len(links) >= 9
    for href, number in links:
        listed = client.get(unescape(href)).context["cl"].page.rows
        assert len(listed) == int(number), href


def test_the_chart_and_the_table_say_the_same(client, root):
    client.force_login(root)
    save(
        build_recent_call(1),
        build_recent_call(2, outcome="timeout", duration_us=30_000_000),
        build_recent_call(3, outcome="unknown_tool", target_id=None),
    )
    html = page(client)
    charts = [json.loads(unescape(data)) for data in re.findall(r'<canvas[^>]*data-value="([^"]*)"', html)]
    assert len(charts) == 2 and len(charts[0]["labels"]) == 24
    sums = {one["label"]: sum(one["data"]) for one in charts[0]["datasets"]}
    assert sums == {"Success": 1, "Failed": 1, "Rejected": 1, "Other": 0}
    assert html.count('<th class="font-normal p-2 text-left whitespace-nowrap"') == 24


def test_stored_values_are_text(client, root):
    client.force_login(root)
    save(build_recent_call(1, name=HOSTILE, username=HOSTILE), build_recent_call(2, name=HOSTILE))
    rollups.catch_up()
    html = page(client)
    assert "<script>alert" not in html and "&lt;script&gt;alert(1)" in html
    href = next(found for found in re.findall(r'href="([^"]*tool=[^"]*)"', html))
    assert parse_qs(urlsplit(unescape(href)).query)["tool"] == [HOSTILE]


def test_an_unknown_period_is_the_first_one(client, root):
    client.force_login(root)
    assert re.search(r'aria-current="page" href="\?period=24h"', page(client, period=HOSTILE))


def test_the_page_says_when_its_numbers_are_not_current(client, root, monkeypatch):
    client.force_login(root)
    monkeypatch.setattr(rollups, "start_update", lambda: None)
    monkeypatch.setattr(statistics, "MAX_TAIL_CALLS", 1)
    save(*(build_recent_call(10 + number) for number in range(5)))
    html = page(client)
    assert "Reload the page in a minute." in html and "No calls in this period" not in html
    rollups.catch_up()
    save(*(build_recent_call(-90 - number) for number in range(3)))
    html = page(client)
    assert "Newer calls are still being counted." in html and numbers(html)["Calls"][0] == "5"


def test_clients_of_a_process_that_is_silent_do_not_count(client, root):
    client.force_login(root)
    now = timezone.now()
    row = {"kind": "session", "key": "k", "seen": 1.0, "called": 0, "streams": 0}
    for name, age in (("alive", 3), ("gone", 3600)):
        peers = json.dumps([{**row, "key": name}])
        beat = now - timedelta(seconds=age)
        ServingProcess.objects.create(pk=name, host="h", pid=1, started=now, beat=beat, peers=peers)
    assert numbers(page(client))["Connected clients"][0] == "1"


def test_the_page_makes_a_bounded_number_of_queries(client, root, django_assert_max_num_queries):
    client.force_login(root)
    for number in range(40):
        user = User.objects.create(username=f"user{number}")
        make_tool(f"tool_{number}")
        save(build_recent_call(number, user=user, name=f"tool_{number}"))
    with django_assert_max_num_queries(26):
        page(client)
    rollups.catch_up()
    save(build_recent_call(1000), build_recent_call(1001))
    with django_assert_max_num_queries(26):
        page(client)
    assert Call.objects.count() == 42


def test_the_space_of_stored_results_is_shown_to_whoever_may_see_them(client, settings):
    settings.STORED_RESULTS_BYTES = 10_000_000
    sam = sign_in_staff(client, "view_storedresult")
    expires = timezone.now() + timedelta(hours=1)
    StoredResult.objects.create(user=sam, body=b"x", size=9_500_000, expires_at=expires)
    StoredResult.objects.create(user=sam, body=b"", size=0, removed=True, expires_at=expires)
    html = page(client)
    assert numbers(html) == {"Stored results": ("10 MB", "/admin/catalog/storedresult/")}
    assert "of 10 MB" in html
    assert client.get("/admin/catalog/storedresult/?removed__exact=1").status_code == 200
