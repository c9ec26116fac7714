"""The list of calls as a search: steps that go on, totals, chips, columns, and periods that mean the same next week."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from audit.actions import actor
from audit.admin import calls, saved_views
from audit.checks import check_text_index
from audit.export import rows as export_rows
from audit.models import Action, Call, SavedView
from audit.queries import periods, search, text_index, walk
from audit.queries.search import CallSearch
from tests.audit.rows import NOON, build_call, save

pytestmark = pytest.mark.django_db

LIST, STEP = "/admin/audit/call/", "/admin/audit/call/search/"


class FilterForm(HTMLParser):
    """What the form of the filters sends without anything changed in it: its hidden fields, wherever they stand."""

    def __init__(self, text):
        super().__init__()
        self.fields, self._inside = [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "form":
            self._inside = given.get("id") == "filter-form"
        belongs = given["form"] == "filter-form" if "form" in given else self._inside
        if tag == "input" and given.get("type") == "hidden" and belongs:
            self.fields.append((given["name"], given["value"]))

    def handle_endtag(self, tag):
        self._inside = self._inside and tag != "form"


def add_up(reader, tool, part):
    """Return this part of the whole count of a search, and its number of steps."""
    total: Counter[str] = Counter()
    older, steps = "", 0
    while steps == 0 or older:
        answer = reader.get(STEP, {"tool": tool, "before": older}).json()
        older, steps = answer["older"], steps + 1
        total.update(answer[part])
    return total, steps


# --- refusals ----------------------------------------------------------------------------------------------------


def test_only_those_who_may_read_the_audit_log_continue_a_search(client, alice):
    save(build_call(1, arguments='{"a":"needle"}'))
    client.force_login(User.objects.create_user("clerk", is_staff=True))
    assert client.get(STEP, {"q": "needle"}).status_code == 403
    client.force_login(alice)
    assert client.get(STEP, {"q": "needle"}).status_code == 302


@pytest.mark.parametrize("query", [{"before": "x"}, {"rows": "x"}, {"rows": "5", "before": "'"}])
def test_an_invalid_step_is_rejected(reader, query):
    assert reader.get(STEP, query).status_code == 400


def test_a_step_changes_nothing_and_is_read_with_get_only(reader):
    assert reader.post(STEP).status_code == 405


def test_no_step_returns_more_rows_than_a_page(reader):
    save(*(build_call(number) for number in range(60)))
    assert reader.get(STEP, {"rows": "100000"}).json()["found"] == 50


def test_what_is_in_arguments_is_text_in_the_list(reader):
    attack = '<img src=x onerror=alert(1)>\u202e{"'
    save(build_call(1, arguments=json.dumps({"a": attack}), result=json.dumps(attack), rule=attack, detail=attack))
    columns = ["rule_text", "arguments_start", "result_start", "detail_text"]
    for page in (
        reader.get(LIST, {"column": columns}).content.decode(),
        reader.get(STEP, {"column": columns, "rows": "5"}).json()["rows"],
    ):
        assert "<img src=x" not in page and "\u202e" not in page
        assert "&lt;img src=x" in page and "U+202E" in page
    page = reader.get(LIST, {"q": attack, "user": attack}).content.decode()
    assert "<img src=x" not in page and "U+202E" in page, "a chip"


# --- steps and totals --------------------------------------------------------------------------------------------


def test_a_search_goes_on_in_steps_until_the_page_is_full_or_the_log_is_searched(reader, monkeypatch):
    monkeypatch.setattr(walk, "_FIRST_SLICE_ROWS", 10)
    monkeypatch.setattr(search, "MAX_SEARCH_SECONDS", -1)
    calls = save(*(build_call(number, arguments=json.dumps(f"number {number}")) for number in range(35)))
    page = reader.get(LIST, {"q": "number 2"})
    listed = [row.pk for row in page.context["cl"].result_list]
    assert 'id="search-state"' in page.content.decode()
    older, steps, rows = page.context["cl"].page.older, 0, ""
    assert page.context["cl"].page.stopped_at == calls[25].started_at
    while older:
        answer = reader.get(STEP, {"q": "number 2", "before": older, "rows": 50 - len(listed)}).json()
        assert (answer["back_to"] == "") == (answer["older"] == "")
        older, steps, rows = answer["older"], steps + 1, rows + answer["rows"]
    assert steps == 3 and len(listed) == 5
    assert [str(call.pk) in rows for call in calls] == [n == 2 or 20 <= n < 25 for n in range(35)]


def test_a_count_adds_up_by_status(reader, monkeypatch):
    monkeypatch.setattr(search, "COUNTED_ROWS", 4)
    save(
        *(build_call(number, outcome="timeout" if number % 3 else "ok", name=f"t{number % 2}") for number in range(20))
    )
    counts, steps = add_up(reader, "t0", "counts")
    assert counts == {"timeout": 6, "ok": 4} and steps == 3


def test_a_count_adds_up_by_client_and_shows_what_clients_call_themselves_harmlessly(reader, monkeypatch):
    monkeypatch.setattr(search, "COUNTED_ROWS", 4)
    names = ["claude-code", "\u202eevil", "", "claude-code", "Cursor"]
    save(*(build_call(number, client_name=names[number % 5]) for number in range(10)))
    counts, steps = add_up(reader, "calculate_sum", "clients")
    assert counts == {"claude-code": 4, "Cursor": 2, "(not given)": 2, "⟨U+202E RIGHT-TO-LEFT OVERRIDE⟩evil": 2}
    assert steps == 3


def test_a_client_that_invents_names_gets_no_sums_by_client(reader, monkeypatch):
    monkeypatch.setattr(calls, "MAX_COUNTED_CLIENTS", 3)
    save(*(build_call(number, client_name=f"client {number}") for number in range(4)))
    answer = reader.get(STEP, {"tool": "calculate_sum"}).json()
    assert answer["clients"] is None and answer["found"] == 4


def test_a_database_without_the_index_says_so(reader, monkeypatch):
    assert not check_text_index(databases=["default"])
    monkeypatch.setattr(text_index, "exists", lambda: False)
    assert "no text index" in reader.get(LIST, {"q": "needle"}).content.decode()
    assert "no text index" not in reader.get(LIST, {"tool": "needle"}).content.decode()
    (warning,) = check_text_index(databases=["default"])
    assert warning.id == "audit.W003"
    assert ("pg_trgm" if connection.vendor == "postgresql" else "FTS5") in str(warning.hint)


# --- chips, columns, matching ------------------------------------------------------------------------------------


def test_every_filter_is_a_chip_that_removes_it_and_keeps_the_others(reader):
    page = reader.get(LIST, {"outcome": "not_ok", "tool": "a&b", "period": "last_week", "column": "rule_text"})
    assert dict(page.context["chips"]) == {
        "status: All except Success": "?tool=a%26b&period=last_week&column=rule_text",
        "tool: a&b": "?outcome=not_ok&period=last_week&column=rule_text",
        "period: Last week": "?outcome=not_ok&tool=a%26b&column=rule_text",
    }
    assert reader.get(LIST).context["chips"] == []


def test_the_usual_columns_show_rule_and_arguments_and_others_are_chosen_in_the_address(reader):
    long = json.dumps({"note": "查询" + "x" * 300})
    save(build_call(1, rule="everyone may use Basics", arguments=long, result='"the result"', address="192.0.2.99"))
    page = reader.get(LIST).content.decode()
    assert "everyone may use Basics" in page and "查询xxx" in page and "x" * 130 not in page
    assert "192.0.2.99" not in page and "the result" not in page
    page = reader.get(LIST, {"column": ["address", "result_start", "nonsense"]}).content.decode()
    assert "192.0.2.99" in page and "the result" in page and "everyone may use Basics" not in page


@pytest.mark.parametrize("chosen", [[], ["method"], ["address", "method", "result_start"]])
def test_a_changed_filter_keeps_every_chosen_column_once(reader, chosen):
    page = reader.get(LIST, {"column": [*chosen, "nonsense"], "q": "a", "live": "1"})
    fields = FilterForm(page.content.decode()).fields
    assert sorted(value for name, value in fields if name == "column" and value != "nonsense") == chosen
    assert {("q", "a"), ("live", "1")} <= set(fields)


def test_the_list_reads_the_start_of_the_arguments_only(reader, django_assert_max_num_queries):
    save(*(build_call(number, arguments=json.dumps("x" * 100_000)) for number in range(3)))
    row = reader.get(LIST).context["cl"].result_list[0]
    assert len(row.arguments_text) < 1_000 and "arguments" in row.get_deferred_fields()


def test_removed_arguments_have_no_preview(reader):
    save(build_call(1, arguments="pruned:sha256:" + "a" * 64, body_state="pruned"))
    assert "pruned:sha256" not in reader.get(LIST).content.decode()


@pytest.mark.parametrize(
    ("name", "field"), [("user", "username"), ("tool", "name"), ("client", "client_name"), ("credential", "credential")]
)
def test_names_match_whole_or_in_part_with_an_asterisk_in_the_same_way(name, field, alice):
    values = ["weather", "get_weather", "Weather_2", "100%_x", "weatherman"]
    save(*(build_call(number, **{field: value}) for number, value in enumerate(values)))

    def found(text: str) -> set[str]:
        page = CallSearch.from_parameters({name: text}).page(columns=(field,))
        return {getattr(row, field) for row in page.rows}

    assert found("weather") == {"weather"}
    assert found("weath") == set()
    assert found("weather*") == {"weather", "Weather_2", "weatherman"}
    assert found("*WEATHER") == {"weather", "get_weather"}
    assert found("*w*t*r*") == {"weather", "get_weather", "Weather_2", "weatherman"}
    assert found("100%*") == {"100%_x"} and found("1%_x") == set() == found("*_m_n*")
    if name in {"tool", "client"}:
        Call.objects.update(user_id=alice.pk)
        assert len(search.page_for_user(alice.pk, {name: "*weather"}).rows) == 2


# --- periods -----------------------------------------------------------------------------------------------------

WEDNESDAY = datetime(2026, 3, 4, 22, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("period", "start", "end"),
    [
        ("1h", "2026-03-04T21:30", ""),
        ("7d", "2026-02-25T22:30", ""),
        ("today", "2026-03-04T23:00", ""),  # in Zurich it is Thursday already
        ("yesterday", "2026-03-03T23:00", "2026-03-04T23:00"),
        ("this_week", "2026-03-01T23:00", ""),
        ("last_week", "2026-02-22T23:00", "2026-03-01T23:00"),
        ("this_month", "2026-02-28T23:00", ""),
        ("last_month", "2026-01-31T23:00", "2026-02-28T23:00"),
        ("nonsense", "", ""),
        ("", "", ""),
    ],
)
def test_a_period_is_one_of_the_readers_zone(period, start, end):
    now = WEDNESDAY + timedelta(hours=1) if period in {"today", "yesterday"} else WEDNESDAY
    with timezone.override("Europe/Zurich"):
        found = periods.interval(period, now)
    assert [at.strftime("%Y-%m-%dT%H:%M") if at else "" for at in found] == [start, end]


def test_a_period_combines_with_times_and_bounds_the_search(alice):
    now = timezone.now()
    save(*(build_call(number, started_at=now - timedelta(hours=number)) for number in (1, 5, 30)))
    assert len(CallSearch(period="24h").page().rows) == 2
    assert len(CallSearch(period="24h", since=(now - timedelta(hours=2)).isoformat()).page().rows) == 1
    assert len(CallSearch(period="nonsense").page().rows) == 3


def test_a_saved_view_with_a_period_moves_with_time(reader, monkeypatch):
    recent = build_call(1, started_at=timezone.now() - timedelta(days=2))
    save(recent, build_call(2))
    reader.post("/admin/audit/call/views/new/", {"name": "Week", "period": "7d"})
    assert json.loads(SavedView.objects.get().filters) == {"period": "7d"}
    (view,) = reader.get(LIST).context["views"]
    assert view.filters_text == "period: Last 7 days"
    assert [row.pk for row in reader.get(view.url).context["cl"].result_list] == [recent.pk]
    monkeypatch.setattr(timezone, "now", lambda: NOON + timedelta(days=1))
    assert [row.pk for row in CallSearch.from_parameters(saved_views.filters_of(view.view)).page().rows][-1:] == [
        build_call(2).pk
    ]


def test_the_log_of_an_export_says_which_times_a_period_meant():
    with actor.override("auditor"):
        export_rows.log_export(CallSearch(period="last_month"), "csv", "download")
    filters = json.loads(Action.objects.get(verb="exported").after)["filters"]
    assert filters["period"] == "last_month" and filters["since"] < filters["until"] <= timezone.now().isoformat()
