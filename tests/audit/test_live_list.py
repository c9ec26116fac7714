"""The list of calls can be live: when it can, how its address and views say so, and what its reads leave behind."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from audit.models import Action, Call, Link, SavedView, Writer
from audit.queries import live_calls
from tests.audit.rows import NOON, build_call, save

pytestmark = pytest.mark.django_db
LIST, STEP, NEW = "/admin/audit/call/", "/admin/audit/call/search/", "/admin/audit/call/views/new/"
RUNNING_MARK = "<span data-running>"


def live(page):
    return page.context["live"]


# --- refusals ----------------------------------------------------------------------------------------------------


def test_a_live_list_is_for_those_who_may_view_calls(client, alice):
    client.force_login(User.objects.create_user("clerk", is_staff=True))
    for address in (LIST, STEP):
        assert client.get(address, {"live": "1", "rows": "50"}).status_code == 403
    client.force_login(alice)
    for address in (LIST, STEP):
        assert client.get(address, {"live": "1", "rows": "50"}).status_code == 302


@pytest.mark.parametrize("value", ["", "0", "2", "yes", "<script>"])
def test_any_other_value_leaves_the_switch_off(reader, value):
    page = reader.get(LIST, {"live": value})
    assert page.status_code == 200
    assert not live(page)["wanted"] and "data-wanted" not in page.content.decode()


@pytest.mark.parametrize("cursor", ["before", "after"])
def test_a_later_page_is_not_live_and_says_so(reader, cursor):
    calls = save(*(build_call(number) for number in range(3)))
    page = reader.get(LIST, {"live": "1", "tool": "calculate_sum", cursor: calls[1].pk.hex})
    text = page.content.decode()
    assert "data-obstacle" in text and "this is an older page" in text
    assert live(page)["newest_url"] == "?live=1&tool=calculate_sum"


@pytest.mark.parametrize(
    ("query", "ended"),
    [
        ({}, False),
        ({"until": "2026-03-01T12:00Z"}, True),
        ({"since": "2026-03-01"}, False),
        ({"until": "2999-01-01"}, False),
        ({"period": "yesterday"}, True),
        ({"period": "last_week"}, True),
        ({"period": "last_month"}, True),
        ({"period": "today"}, False),
        ({"period": "1h"}, False),
        ({"period": "1h", "until": "2026-03-01"}, True),
    ],
)
def test_a_period_that_has_ended_is_not_live_and_says_so(reader, query, ended):
    page = reader.get(LIST, {"live": "1", **query})
    assert ("This period has ended, so no new calls appear." in page.context["live"]["reason"]) == ended
    assert ("data-obstacle" in page.content.decode()) == ended
    assert reader.get(STEP, {"rows": "50", **query}).json()["ended"] is ended


def test_a_period_that_ends_while_the_page_is_open_is_told_with_the_rows(reader):
    end = timezone.now() + timedelta(hours=1)
    query = {"rows": "50", "until": end.isoformat()}
    assert reader.get(STEP, query).json()["ended"] is False
    query["until"] = (timezone.now() - timedelta(seconds=1)).isoformat()
    assert reader.get(STEP, query).json()["ended"] is True


# --- the address -------------------------------------------------------------------------------------------------


def test_the_switch_is_off_until_the_address_says_otherwise(reader):
    save(build_call(1))
    assert 'aria-checked="false"' in reader.get(LIST).content.decode()
    assert not live(reader.get(LIST))["wanted"]
    assert live(reader.get(LIST, {"live": "1"}))["wanted"]


def test_being_live_is_no_filter(reader):
    save(build_call(1))
    page = reader.get(LIST, {"live": "1", "column": "address"})
    assert len(page.context["cl"].result_list) == 1
    assert not page.context["chips"] and not page.context["cl"].has_active_filters
    assert "live" not in page.context["search_url"]


def test_a_pasted_id_opens_its_call_from_a_live_list_too(reader):
    (call,) = save(build_call(1))
    assert reader.get(LIST, {"live": "1", "q": str(call.pk)}).url == f"{LIST}{call.pk}/change/"
    assert reader.get(LIST, {"live": "1", "q": str(call.pk), "tool": "x"}).status_code == 200


def test_a_relative_period_of_a_live_list_moves_with_time(reader):
    now = timezone.now()
    save(
        build_call(1, started_at=now - timedelta(minutes=61), name="past_call"),
        build_call(2, started_at=now - timedelta(minutes=1), name="recent_call"),
    )
    rows = reader.get(STEP, {"rows": "50", "period": "1h", "live": "1"}).json()["rows"]
    assert "recent_call" in rows and "past_call" not in rows


def test_running_calls_are_marked_for_the_page_and_others_are_not(reader):
    save(build_call(1), build_call(2, outcome="running", ended_at=None, duration_us=None))
    assert reader.get(LIST).content.decode().count(RUNNING_MARK) == 1
    assert reader.get(STEP, {"rows": "50"}).json()["rows"].count(RUNNING_MARK) == 1


# --- views -------------------------------------------------------------------------------------------------------


def test_a_view_opens_live_only_if_its_owner_says_so(reader):
    reader.post(NEW, {"name": "quiet", "tool": "a"})
    answer = reader.post(NEW, {"name": "watched", "tool": "a", "live": "1"})
    assert answer.url == f"{LIST}?tool=a&live=1"
    views = {one.name: one for one in reader.get(LIST).context["views"]}
    assert (views["quiet"].url, views["quiet"].filters_text) == (f"{LIST}?tool=a", "tool: a")
    assert (views["watched"].url, views["watched"].filters_text) == (f"{LIST}?tool=a&live=1", "tool: a, Live")


@pytest.mark.parametrize("value", ["0", "true", True, 1, ["1"], {"live": "1"}, None])
def test_a_forged_view_is_not_live(reader, value):
    owner = User.objects.get(username="audrey")
    SavedView.objects.create(owner=owner, name="x", filters=json.dumps({"tool": "a", "live": value}))
    (view,) = reader.get(LIST).context["views"]
    assert view.url == f"{LIST}?tool=a"


# --- what a live list leaves behind ------------------------------------------------------------------------------


def test_the_reads_of_a_live_list_are_not_logged_and_the_view_of_a_call_is(reader):
    (call,) = save(build_call(1))
    reader.get(LIST, {"live": "1"})
    before = Action.objects.count(), Call.objects.count(), Link.objects.count()
    for _ in range(5):
        assert reader.get(STEP, {"rows": "50"}).status_code == 200
    assert (Action.objects.count(), Call.objects.count(), Link.objects.count()) == before
    reader.get(f"{LIST}{call.pk}/change/")
    assert Action.objects.filter(verb="viewed", target=str(call.pk)).count() == 1


# --- the position of the log -------------------------------------------------------------------------------------


def build_writer(number, **values):
    row = {"host": "h", "pid": 1, "born": 1, "started": NOON, "heartbeat": NOON, "covered": 0, "sealed": False} | values
    return Writer.objects.create(id=number, **row)


def add_link(writer, sequence):
    Link.objects.create(
        id=(writer << 40) + sequence, writer=writer, sequence=sequence, kind="begin", subject="", content="", hash=""
    )


def test_the_position_moves_with_every_entry_of_a_running_process_and_with_no_other(django_assert_num_queries):
    for number in (101, 102, 103):
        build_writer(number, ended=NOON if number == 103 else None)
        add_link(number, 1)
    first = live_calls.read_position()
    assert first == {101: (101 << 40) + 1, 102: (102 << 40) + 1}
    add_link(103, 2)
    assert live_calls.read_position() == first, "its process has ended"
    for sequence in range(2, 30):
        add_link(101, sequence)
    with django_assert_num_queries(1):
        second = live_calls.read_position()
    assert second == first | {101: (101 << 40) + 29}


def test_admin_activity_does_not_move_the_position(reader):
    build_writer(101)
    (call,) = save(build_call(1))
    before = live_calls.read_position()
    reader.get(f"{LIST}{call.pk}/change/")
    assert Action.objects.exists()
    assert live_calls.read_position() == before == {101: None}


def test_a_process_that_ends_moves_the_position():
    writer = build_writer(101)
    before = live_calls.read_position()
    writer.ended = NOON
    writer.save()
    assert live_calls.read_position() != before
