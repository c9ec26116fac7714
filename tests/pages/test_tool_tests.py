"""Test cases in the admin: run by a button and on save, by whom they may be run, and made from calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest

from tests.pages import tool_test_seed as seed
from tests.pages import try_seed
from tests.pages.try_person import Person
from tests.polling import wait_until
from tests.real_servers import Hub

MODULES = {"TOOLHUB_TOOL_MODULES": "catalog.examples,tests.pages.try_tools"}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=seed.seed, env=MODULES) as hub:
        yield hub


@pytest.fixture
def root(hub: Hub) -> Iterator[Person]:
    with Person(hub, "root") as person:
        yield person


@pytest.fixture
def helper(hub: Hub) -> Iterator[Person]:
    with Person(hub, "helper") as person:
        yield person


def address(hub: Hub, tool: str = "add") -> str:
    return f"/admin/catalog/tool/{hub.seeded[tool]}/tests/"


def run(person: Person, hub: Hub, *tests: str, tool: str = "add", **fields: Any) -> None:
    chosen = [hub.seeded[name] if name != "all" else "all" for name in tests]
    answer = person.post(address(hub, tool), test=chosen, **fields)
    assert answer.status_code == 302, answer.text[-2000:]


def wait_for(hub: Hub, *names: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}

    def ended() -> bool:
        found.update(hub.call(seed.results))
        return all(found[name][0] in ("passed", "failed") for name in names)

    wait_until(ended, what="the end of the test cases")
    return found


def test_a_button_runs_them_and_the_page_says_what_each_found(hub: Hub, root: Person) -> None:
    run(root, hub, "all")
    found = wait_for(hub, "passes", "fails", "own")
    assert [found[name][0] for name in ("passes", "fails", "own")] == ["passed", "failed", "passed"]
    html = unescape(root.http.get(address(hub)).text)
    assert "The result does not contain “four”." in html
    form = unescape(root.http.get(f"/admin/catalog/tooltest/{hub.seeded['fails']}/change/").text)
    assert "failed: The result does not contain “four”." in form and "('failed'" not in form and " UTC" in form
    call = found["passes"][2]
    assert f"/admin/audit/call/{call}/change/" in html
    logged = {row["id"]: row for row in hub.call(try_seed.list_calls)}
    assert logged[call]["transport"] == "test" and logged[call]["username"] == "alice"
    assert logged[call]["credential"] == "test case 'passes', run by root"
    assert "Test case run by" in root.http.get(f"/admin/audit/call/{call}/change/").text


def test_who_may_not_try_as_others_runs_only_what_they_saved_for_themselves(hub: Hub, helper: Person) -> None:
    run(helper, hub, "passes", "own")
    found = wait_for(hub, "passes", "own")
    assert found["passes"][0] == "failed" and "test.not_permitted" in found["passes"][1]
    # root saved it for root. What somebody else chose to send does not run as helper, and the reverse.
    assert "test.not_yours" in found["own"][1] and found["own"][2] == ""
    assert "root saved it for their own account" in unescape(helper.http.get(address(hub)).text)


def test_nobody_runs_what_somebody_else_chose_as_themselves(hub: Hub, root: Person, helper: Person) -> None:
    """Whether it passed would tell its editor what the account of who runs it can see."""
    csrf = helper.http.cookies.get("toolhub_csrf")
    form = {"tool": hub.seeded["add"], "name": "a trap", "arguments": '{"a": 1}', "status": "ok"}
    fields = {**form, "match": "text", "expected": "3", "csrfmiddlewaretoken": csrf}
    assert helper.http.post("/admin/catalog/tooltest/add/", data=fields).status_code == 302
    run(root, hub, "all")
    found = wait_for(hub, "a trap")
    assert found["a trap"][0] == "failed" and "test.not_yours" in found["a trap"][1] and found["a trap"][2] == ""


def test_a_test_that_runs_as_somebody_else_is_changed_only_by_who_may_try_as_others(hub: Hub, helper: Person) -> None:
    page = helper.http.get(f"/admin/catalog/tooltest/{hub.seeded['passes']}/change/")
    assert page.status_code in (200, 403) and 'name="arguments"' not in page.text
    csrf = helper.http.cookies.get("toolhub_csrf")
    form = {"tool": hub.seeded["add"], "name": "passes", "arguments": '{"a": 9}', "status": "ok", "match": "status"}
    answer = helper.http.post(
        f"/admin/catalog/tooltest/{hub.seeded['passes']}/change/", data={**form, "csrfmiddlewaretoken": csrf}
    )
    assert answer.status_code == 403


def test_a_tool_that_may_change_something_is_run_after_a_confirmation(hub: Hub, root: Person) -> None:
    before = hub.call(seed.results)["changing"]
    asked = root.post(address(hub, "limited"), test="all")
    assert asked.status_code == 200 and "may change or delete data" in asked.text and 'name="confirmed"' in asked.text
    assert hub.call(seed.results)["changing"] == before
    run(root, hub, "changing", tool="limited", confirmed="yes")
    assert '"got":"refused"' in wait_for(hub, "changing")["changing"][1], "root has no grant"


def test_saving_a_read_only_tool_runs_its_tests(hub: Hub, root: Person) -> None:
    page = f"/admin/catalog/tool/{hub.seeded['add']}/change/"
    before = hub.call(seed.results)["passes"][2]
    form = read_form(root.http.get(page).text)
    answer = root.http.post(page, data={**form, "description": "Add two numbers exactly."}, follow_redirects=True)
    assert re.search(r"\d test cases are running\.", answer.text)
    wait_until(lambda: hub.call(seed.results)["passes"][2] != before, what="the run after the save")
    assert wait_for(hub, "passes", "fails")["passes"][0] == "passed"


def read_form(html: str) -> dict[str, str]:
    """The values of a form as a browser without scripts would send them."""
    found = {}
    for tag in re.findall(r"<input\b[^>]*>", html):
        name, kind = re.search(r'name="([^"]*)"', tag), re.search(r'type="([^"]*)"', tag)
        value = re.search(r'value="([^"]*)"', tag)
        checkable = kind is not None and kind[1] in ("checkbox", "radio")
        if name is None or (kind is not None and kind[1] in ("submit", "file")) or (checkable and "checked" not in tag):
            continue
        found[unescape(name[1])] = unescape(value[1]) if value is not None else ("on" if checkable else "")
    for name, text in re.findall(r'<textarea\b[^>]*name="([^"]*)"[^>]*>(.*?)</textarea>', html, re.DOTALL):
        found[name] = unescape(text).removeprefix("\r\n").removeprefix("\n")
    for name, options in re.findall(r'<select\b[^>]*name="([^"]*)"[^>]*>(.*?)</select>', html, re.DOTALL):
        chosen = re.search(r'<option value="([^"]*)"[^>]*selected', options) or re.search(r'value="([^"]*)"', options)
        if chosen is not None:
            found[name] = unescape(chosen[1])
    return {name: value for name, value in found.items() if not name.startswith("_") and "__prefix__" not in name}


def test_a_tried_call_becomes_a_test_case_with_what_it_sent_and_got(hub: Hub, root: Person) -> None:
    state = root.outcome(root.try_tool(hub.seeded["add"], a=4))
    assert f"/admin/catalog/tooltest/add/?call={state['id']}" in unescape(state["outcome"])
    detail = unescape(root.http.get(f"/admin/audit/call/{state['id']}/change/").text)
    assert f"/admin/catalog/tooltest/add/?call={state['id']}" in detail
    form = read_form(root.http.get(f"/admin/catalog/tooltest/add/?call={state['id']}").text)
    assert form["tool"] == str(hub.seeded["add"]) and form["status"] == "ok"
    assert '"a": 4' in form["arguments"] and "6" in form["expected"]
    answer = root.http.post("/admin/catalog/tooltest/add/", data={**form, "name": "from a try"})
    assert answer.status_code == 302, unescape(answer.text)[-3000:]
    assert "from a try" in hub.call(seed.results)


def test_somebody_elses_call_fills_in_nothing_without_the_audit_log(hub: Hub, root: Person, helper: Person) -> None:
    state = root.outcome(root.try_tool(hub.seeded["add"], a=77))
    form = read_form(helper.http.get(f"/admin/catalog/tooltest/add/?call={state['id']}").text)
    assert "77" not in form["arguments"] and form.get("tool", "") == ""
    for nothing in ("x", "0" * 32, ""):
        assert helper.http.get(f"/admin/catalog/tooltest/add/?call={nothing}").status_code == 200


def test_only_who_may_try_as_others_decides_as_whom_a_test_runs(hub: Hub, helper: Person) -> None:
    form = {"tool": hub.seeded["add"], "name": "as alice", "arguments": "{}", "status": "ok", "match": "status"}
    csrf = helper.http.cookies.get("toolhub_csrf")
    fields = {**form, "expected": "", "user": hub.seeded["alice"], "csrfmiddlewaretoken": csrf}
    assert helper.http.post("/admin/catalog/tooltest/add/", data=fields).status_code == 302
    rows = helper.http.get(address(hub)).text.split("<tr ")
    assert ">helper<" in next(row for row in rows if ">as alice</a>" in row)


def test_a_server_that_stops_marks_what_ran_and_what_waited() -> None:
    with Hub(seed=seed.seed, env={**MODULES, "TOOLHUB_STOP_SECONDS": "1"}) as hub, Person(hub, "root") as root:
        tool = hub.call(seed.add_endless_tests)
        answer = root.post(f"/admin/catalog/tool/{tool}/tests/", test="all", confirmed="yes")
        assert answer.status_code == 302
        found = hub.call(seed.results)
        assert {found[name][0] for name in ("first", "second")} == {"running"}
        wait_until(lambda: any(row["name"] == "try_steps" for row in hub.call(try_seed.list_calls)))
        hub.stop()
        found = hub.call(seed.results)
        assert [found[name][0] for name in ("first", "second")] == ["failed", "failed"]
        assert "test." in found["first"][1] and "test.interrupted" in found["second"][1]


def test_a_run_whose_process_is_gone_does_not_run_for_ever(hub: Hub, root: Person) -> None:
    hub.call(mark_running, pk=hub.seeded["own"])
    assert "The server stopped while it ran." in root.http.get(address(hub)).text


def mark_running(pk: int) -> None:
    from datetime import timedelta

    from django.utils import timezone

    from catalog.models import ToolTest

    ToolTest.objects.filter(pk=pk).update(result="running", last_run=timezone.now() - timedelta(hours=3))
