"""The pages of limits: a wrong combination is refused beside its field, and quotas show what is used of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from audit.models import Action
from catalog.conditions import periods
from catalog.exchange import importer
from catalog.exchange.values import FileError
from catalog.models import Limit, LimitUsage
from tests import factories

pytestmark = pytest.mark.django_db
ADD = "admin:catalog_limit_add"
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"rate": "often"}, "rate", "Enter a rate such as 30/m"),
    ({"rate": "1000/year"}, "rate", "Enter a rate such as 30/m"),
    ({"measure": "cost", "rate": "30/m"}, "rate", "such as 5000/month"),
    ({"measure": "cost", "rate": "3"}, "rate", "such as 5000/month"),
    ({"measure": "running", "rate": "3/m"}, "rate", "how many calls may run at a time, such as 3"),
    ({"measure": "running", "rate": "0"}, "rate", "how many calls may run at a time, such as 3"),
    ({"measure": "repeats", "rate": "5/day"}, "rate", "such as 5/10m"),
    ({"measure": "repeats", "rate": "0/m"}, "rate", "Enter at least 1"),
    ({"measure": "errors", "rate": "3"}, "rate", "such as 5/10m"),
    ({"measure": "errors", "rate": "3/m", "scope": "everyone_together"}, "scope", "Choose one user, each user"),
    ({"measure": "cost", "rate": "5/day", "all_tools": "", "method": "tools/list"}, "method", "such as 30/m only"),
    ({"rate": "5/day", "all_tools": "", "method": "tools/list"}, "method", "such as 30/m only"),
    ({"zone": "Europe/Berlin"}, "zone", "Leave it empty"),
    ({"measure": "running", "rate": "3", "zone": "Europe/Berlin"}, "zone", "Leave it empty"),
    ({"rate": "5/day", "zone": "Mars/Olympus"}, "zone", "Enter a time zone such as Europe/Berlin"),
    ({"measure": "running", "rate": "3", "scope": "group_together"}, "group", "Choose the group"),
]
PLAIN = {"measure": "calls", "rate": "30/m", "scope": "each_user", "all_tools": "on"}


@pytest.fixture
def browser(root: User) -> Client:
    client = Client()
    client.force_login(root)
    return client


def make_reader(name: str, *names: str) -> Client:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize(("change", "field", "words"), REFUSED)
def test_an_amount_that_does_not_fit_the_measure_is_refused_beside_its_field(
    browser: Client, change: dict[str, Any], field: str, words: str
) -> None:
    answer = browser.post(reverse(ADD), PLAIN | change)
    assert answer.status_code == 200
    found = answer.context["adminform"].form.errors
    assert set(found) == {field} and words in str(found)
    assert not Limit.objects.exists()


@pytest.mark.parametrize(("change", "field", "words"), REFUSED)
def test_a_file_and_the_model_refuse_the_same(change: dict[str, Any], field: str, words: str) -> None:
    given = {name: value for name, value in (PLAIN | change).items() if value}
    given |= {"all_tools": True} if "all_tools" in given else {}
    with pytest.raises(ValidationError, match=words) as refused:
        Limit(**given).full_clean()
    assert set(refused.value.message_dict) == {field}
    with pytest.raises(FileError, match=rf"^limits\[0\] \(.*\)\.{field}: .*{words}"):
        importer.run({"toolhub": 1, "limits": [given]})


@pytest.mark.parametrize(
    ("change", "amount"),
    [
        ({}, "30/m"),
        ({"rate": "1000/day", "zone": "Europe/Berlin"}, "1000/day"),
        ({"measure": "cost", "rate": "5000/month"}, "cost 5000/month"),
        ({"measure": "running", "rate": "3", "scope": "everyone_together"}, "3 at a time"),
        ({"measure": "repeats", "rate": "5/10m"}, "same call 5/10m"),
        ({"measure": "errors", "rate": "3/10m", "advice": "Ask the data team."}, "same error 3/10m"),
    ],
)
def test_a_limit_of_each_measure_is_saved_listed_and_found_by_its_measure(
    browser: Client, change: dict[str, Any], amount: str
) -> None:
    assert browser.post(reverse(ADD), PLAIN | change).status_code == 302
    row = Limit.objects.get()
    for name, value in change.items():
        assert getattr(row, name) == value
    address = reverse("admin:catalog_limit_changelist")
    page = browser.get(address, {"measure__exact": row.measure}).content.decode()
    assert f">{amount}<" in page
    other = "cost" if row.measure != "cost" else "calls"
    assert f">{amount}<" not in browser.get(address, {"measure__exact": other}).content.decode()


def test_the_form_works_without_its_script(browser: Client) -> None:
    page = browser.get(reverse(ADD)).content.decode()
    assert 'type="module"' in page and "catalog/limit_form.js" in page
    for name in ("measure", "rate", "zone", "method", "scope", "user", "group", "advice"):
        assert f'name="{name}"' in page


def test_a_limit_of_a_whole_group_keeps_its_scope_on_the_page_of_the_group(browser: Client) -> None:
    group = factories.make_group("analysts")
    row = factories.limit("1000/day", group=group, scope="group_together", measure="cost")
    form = {"name": "analysts", "catalog_grants-TOTAL_FORMS": "0", "catalog_grants-INITIAL_FORMS": "0"}
    form |= {"catalog_limits-TOTAL_FORMS": "1", "catalog_limits-INITIAL_FORMS": "1"}
    mine = {"id": row.pk, "group": group.pk, "measure": "cost", "rate": "2000/day", "scope": "group_together"}
    form |= {f"catalog_limits-0-{name}": str(value) for name, value in {**mine, "all_tools": "on"}.items()}
    address = reverse("admin:auth_group_change", args=[group.pk])
    assert "everyone_together" not in browser.get(address).content.decode()
    assert browser.post(address, form).status_code == 302
    row.refresh_from_db()
    assert (row.scope, row.rate) == ("group_together", "2000/day")


# --- files ------------------------------------------------------------------------------------------------------------


def import_limits(*rows: dict[str, Any], prune: bool = False) -> list[tuple[str, str]]:
    outcome = importer.run({"toolhub": 1, "limits": list(rows)}, prune=prune)
    return [(change.mark, change.what) for change in outcome.changes]


def test_a_file_refuses_a_measure_that_does_not_exist() -> None:
    with pytest.raises(FileError, match=r"^limits\[0\] .*\.measure: .*money"):
        import_limits({"all_tools": True, "measure": "money", "rate": "3/m"})


def test_a_file_of_before_is_imported_as_before() -> None:
    assert import_limits({"all_tools": True, "rate": "3/m"}) == [("+", "limit 3/m all tools, scope each_user")]
    row = Limit.objects.get()
    assert (row.measure, row.zone, row.advice) == ("calls", "", "")
    assert import_limits({"all_tools": True, "rate": "3/m"}) == []


def test_a_rate_and_a_quota_of_one_subject_are_two_rows_that_change_apart() -> None:
    rate, quota = {"all_tools": True, "rate": "3/m"}, {"all_tools": True, "rate": "1000/day", "zone": "Europe/Berlin"}
    import_limits(rate, quota)
    assert import_limits(quota | {"rate": "2000/day"}, rate | {"rate": "4/m"}) == [
        ("~", "limit 2000/day all tools, scope each_user"),
        ("~", "limit 4/m all tools, scope each_user"),
    ]
    assert sorted(Limit.objects.values_list("rate", "zone")) == [("2000/day", "Europe/Berlin"), ("4/m", "")]
    cost = {"all_tools": True, "measure": "cost", "rate": "50/week"}
    assert import_limits(cost, prune=True) == [
        ("-", "limit 4/m all tools, scope each_user"),
        ("-", "limit 2000/day all tools, scope each_user"),
        ("+", "limit cost 50/week all tools, scope each_user"),
    ]


# --- what is used of a quota ------------------------------------------------------------------------------------------


def use(limit: Limit, subject: str, used: int, *, days_ago: int = 0) -> LimitUsage:
    quota = periods.parse(limit.rate)
    assert quota is not None
    period = periods.find(quota.period, limit.zone, timezone.now() - timedelta(days=days_ago))
    counter = f"{limit.measure} {quota.period} {subject}"
    return LimitUsage.objects.create(limit=limit, counter=counter, starts=period.starts, ends=period.ends, used=used)


def open_limit(client: Client, limit: Limit) -> str:
    answer = client.get(reverse("admin:catalog_limit_change", args=[limit.pk]))
    assert answer.status_code == 200
    return answer.content.decode()


def test_who_may_not_change_limits_resets_nothing(alice: User) -> None:
    limit = factories.limit("1000/day")
    use(limit, f"user {alice.pk}", 10)
    reader = make_reader("reader", "view_limit", "view_user")
    assert "Reset all" not in open_limit(reader, limit)
    assert reader.post(reverse("admin:catalog_limit_reset", args=[limit.pk])).status_code == 403
    assert LimitUsage.objects.get().used == 10


def test_a_reset_needs_a_form_of_ours(root: User, browser: Client) -> None:
    limit = factories.limit("1000/day")
    address = reverse("admin:catalog_limit_reset", args=[limit.pk])
    assert browser.get(address).status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(root)
    assert strict.post(address).status_code == 403
    assert browser.post(address, {"row": "x"}).status_code == 404
    assert browser.post(reverse("admin:catalog_limit_reset", args=[limit.pk + 1])).status_code == 404


def test_a_reader_who_may_not_view_users_sees_no_names(alice: User) -> None:
    limit = factories.limit("1000/day")
    use(limit, f"user {alice.pk}", 1_234)
    blind = open_limit(make_reader("blind", "view_limit"), limit)
    assert "alice" not in blind and "name hidden" in blind and "1,234 of 1,000" in blind
    assert "alice" in open_limit(make_reader("reader", "view_limit", "view_user"), limit)


def test_cost_units_of_others_are_hidden_from_who_may_not_read_calls(alice: User) -> None:
    """An argument can decide about the cost: whoever edits tools could read it from the numbers."""
    limit = factories.limit("1000/day", measure="cost")
    use(limit, f"user {alice.pk}", 737)
    editor = make_reader("editor", "view_limit", "change_limit", "view_user")
    page = open_limit(editor, limit)
    assert "737" not in page and "you may not read calls" in page and "Reset all" in page
    assert "737 of 1,000" in open_limit(make_reader("auditor", "view_limit", "view_user", "view_call"), limit)
    editor.post(reverse("admin:catalog_limit_reset", args=[limit.pk]))
    logged = Action.objects.filter(verb="reset").get()
    assert logged.before == '{"alice":"used"}', "nor does the admin activity tell"


def test_a_quota_shows_what_this_period_used_most_first(browser: Client, alice: User, bob: User) -> None:
    limit = factories.limit("1000/day", zone="Europe/Berlin")
    use(limit, f"user {alice.pk}", 250)
    use(limit, f"user {bob.pk}", 1_000)
    use(limit, f"user {bob.pk}", 777, days_ago=1)
    other = factories.limit("9/day")
    use(other, f"user {alice.pk}", 5)
    page = open_limit(browser, limit)
    assert page.index("1,000 of 1,000") < page.index("250 of 1,000")
    assert "25%" in page and "100%" in page and "used up" in page and "Resets on" in page
    assert "777" not in page and "5 of 9" not in page
    assert 'id="limit-usage"' not in open_limit(browser, factories.limit("3/m"))


def test_the_table_has_twenty_rows_and_counts_the_others(browser: Client) -> None:
    limit = factories.limit("1000/day")
    for number in range(23):
        use(limit, f"user {9_000 + number}", 100 + number)
    page = open_limit(browser, limit)
    assert "deleted user 9022" in page and "deleted user 9002" not in page
    assert "3 more" in page


def test_one_row_or_all_are_reset_and_the_admin_activity_has_it(browser: Client, alice: User, bob: User) -> None:
    limit = factories.limit("1000/day")
    mine, theirs = use(limit, f"user {alice.pk}", 250), use(limit, f"user {bob.pk}", 40)
    earlier = use(limit, f"user {bob.pk}", 7, days_ago=1)
    address = reverse("admin:catalog_limit_reset", args=[limit.pk])
    page = browser.post(address, {"row": mine.pk}, follow=True).content.decode()
    assert "1 row was reset." in page
    assert list(LimitUsage.objects.order_by("pk").values_list("used", flat=True)) == [0, 40, 7]
    logged = Action.objects.filter(verb="reset").get()
    assert (logged.actor, logged.kind, logged.before, logged.after) == ("root", "limit", '{"alice":250}', '{"alice":0}')
    assert logged.target == str(limit)
    browser.post(address)
    for row in (theirs, earlier):
        row.refresh_from_db()
    assert (theirs.used, earlier.used) == (0, 7)
    assert "There was nothing left to reset." in browser.post(address, follow=True).content.decode()
