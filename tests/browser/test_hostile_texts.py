"""Whatever is stored, no page and no export runs it: every address of the resolver, in a browser, full of attacks."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator

import pytest

from tests import census
from tests.browser import hostile
from tests.browser.conftest import Window, call_as_client
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
WATCH_SCRIPT = """
window.p = () => { window.pwned = true; };
window.broken = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.broken.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
"""
FIND_SCRIPT = """(record) => {
  const found = [...window.broken];
  if (window.pwned) found.push("a stored text was run");
  for (const element of document.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      if (/^(on|x-|@|:)/.test(name) && value.includes("p()")) found.push(`<${element.localName} ${name}=${value}>`);
      const leads = /^(href|src|action|formaction|data|xlink:href)$/.test(name);
      if (leads && /^\\s*(javascript|vbscript|data:text)/i.test(value)) {
        found.push(`<${element.localName} ${name}=${value}>`);
      }
    }
    if (/^(script|style|iframe|object|embed|base)$/.test(element.localName) && element.outerHTML.includes("p()")) {
      found.push(`<${element.localName}> holds a stored text`);
    }
  }
  const words = document.body.innerText;
  const turned = words.match(/.{0,40}[\\u202a-\\u202e\\u2066-\\u2069]/);
  if (words.includes("1776889")) found.push("a template in a stored text was filled in");
  if (record && turned) found.push(`marks that turn the direction of the line: ${JSON.stringify(turned[0])}`);
  return found;
}"""
NO_PAGES = ("sign-out/", "logout/", "<path:object_id>/")
"""Routes that end the session, or lead to a page that has a route of its own."""
REFUSED = ("admin/login/", "admin/password_change/", "password/")
"""Routes that refuse whoever is signed in, or has no password."""


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=hostile.seed_everything) as hub:
        yield hub


@pytest.fixture
def person(hub: Hub, window: Windows) -> Callable[[str], Window]:
    """A window of somebody whose own name is hostile too, so that nobody types it."""

    def make(name: str) -> Window:
        mine = window(viewport={"width": 1280, "height": 900})
        value = hub.seeded["sessions"][name]
        mine.page.context.add_cookies([{"name": "toolhub_session", "value": value, "url": hub.url}])
        mine.page.add_init_script(WATCH_SCRIPT)
        return mine

    return make


def addresses(hub: Hub, *, staff: bool) -> list[str]:
    """Of every route that answers a GET with a page, as the census knows to fill it in."""
    paths = []
    for rule in census.every_rule():
        offered = census.verb_of(rule.route)
        nobody_may = offered is not None and offered[1] not in offered[0].verbs.split()
        if "GET" not in rule.methods or rule.who.is_staff != staff or nobody_may or rule.empty:
            continue
        if not rule.route.endswith(NO_PAGES) and rule.route not in REFUSED and not rule.route.startswith("scim/"):
            paths.append(rule.path(hub.seeded["things"]))
    return list(dict.fromkeys(paths))


def find_problems(mine: Window, path: str) -> list[str]:
    """What is wrong with the page, or with the file that the address gives instead of one."""
    from playwright.sync_api import Error

    try:
        answer = mine.page.goto(mine.url + path, wait_until="domcontentloaded")
    except Error as error:
        if "Download is starting" not in str(error) and "ERR_ABORTED" not in str(error):
            raise
        return check_file(mine, path)
    kind = answer.headers.get("content-type", "") if answer else ""
    if not kind.startswith("text/html"):
        mine.shows_data = True
        safe = (
            kind.startswith(("application/json", "application/scim+json", "text/javascript"))
            and answer.headers.get("x-content-type-options") == "nosniff"
        )
        return [] if safe else [f"{path}: neither a page, data, a script of ours nor a download: {kind}"]
    # Texts of the audit log come from anybody, past every form and every import.
    record = path.startswith(("/calls/", "/admin/audit/"))
    return [f"{path}: {problem}" for problem in mine.page.evaluate(FIND_SCRIPT, record)]


def check_file(mine: Window, path: str) -> list[str]:
    answer = mine.page.context.request.get(mine.url + path)
    kind = answer.headers["content-type"]
    wrong = []
    if not answer.headers.get("content-disposition", "").startswith("attachment"):
        wrong.append(f"{path}: neither a page nor a download")
    if answer.headers.get("x-content-type-options") != "nosniff" or "html" in kind or "svg" in kind:
        wrong.append(f"{path}: a browser could take the download for a page: {kind}")
    return wrong


@pytest.mark.parametrize(("name", "staff"), [("alice", False), ("root", True)], ids=["user", "admin"])
def test_no_page_runs_stored_texts(hub: Hub, person: Callable[[str], Window], name: str, staff: bool) -> None:
    assert hub.seeded["count"] > 300
    mine = person(name)
    wrong = [problem for path in addresses(hub, staff=staff) for problem in find_problems(mine, path)]
    assert not wrong, "\n".join(wrong)


def test_every_kind_of_call_and_every_difference_is_text(hub: Hub, person: Callable[[str], Window]) -> None:
    mine, calls = person("root"), hub.seeded["calls"]
    paths = [f"/admin/audit/call/{call}/change/" for call in calls[:4]]
    paths += [f"/admin/audit/call/compare/?call={calls[0]}&call={calls[-1]}"]
    paths += [f"/admin/audit/call/{calls[0]}/copy/{what}/" for what in ("json", "curl", "arguments", "result")]
    wrong = [problem for path in paths for problem in find_problems(mine, path)]
    alice = person("alice")
    wrong += [problem for call in calls[:4] for problem in find_problems(alice, f"/calls/{call}/")]
    assert not wrong, "\n".join(wrong)


def test_conditions_of_requests_are_text(hub: Hub, person: Callable[[str], Window]) -> None:
    mine, root = person("alice"), person("root")
    wrong = find_problems(mine, hub.seeded["asked"])
    assert mine.page.locator("#conditions fieldset").count() > 1
    for path in hub.seeded["tool_requests"]:
        wrong += find_problems(root, path)
        assert "img src=x" in root.page.inner_text("#asked")
    assert not wrong, "\n".join(wrong)


def test_an_export_for_a_spreadsheet_holds_no_formula(hub: Hub, person: Callable[[str], Window]) -> None:
    client = person("root").page.context.request
    answer = client.get(f"{hub.url}/admin/audit/call/export/?format=csv")
    rows = list(csv.reader(io.StringIO(answer.body().decode(), newline="")))
    assert len(rows) > 10
    assert [cell for row in rows for cell in row if re.match(r"[=+\-@\t\r\n]", cell)] == []
    answer = client.get(f"{hub.url}/admin/audit/call/export/?format=jsonl")
    assert all(json.loads(line)["rule"] for line in answer.body().decode().splitlines())


def test_live_updates_are_text_too(hub: Hub, person: Callable[[str], Window]) -> None:
    mine = person("alice")
    page = mine.open("/calls/")
    page.wait_for_selector('[data-live="live"]')
    rows = page.locator("tr.calls-row").count()
    call(hub, "sum<img src=x onerror=p()>" + hostile.PIECES[5])
    page.wait_for_function("rows => document.querySelectorAll('tr.calls-row').length > rows", arg=rows)
    assert page.evaluate(FIND_SCRIPT, True) == []
    mine.open("/tools/")
    staff = person("root")
    assert find_problems(staff, "/admin/audit/call/") == []


def call(hub: Hub, name: str) -> None:
    """One call as a hostile client makes it."""
    arguments = {hostile.PIECES[0]: hostile.FULL_ATTACK}
    answer = call_as_client(hub, hub.seeded["token"], name, arguments, hostile.FULL_ATTACK, hostile.PIECES[0])
    assert "Unknown tool" in answer
