"""One long walk, as people take it: a tool is made, granted, tried, listed, called, cancelled, looked up, exported and
reverted, and the client that called it is sent away. The clicks of the three main journeys are counted on the way."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import seed
from tests.browser.conftest import Window
from tests.browser.hands import WAIT_SECONDS, Hand, Program
from tests.client import HttpClient, RpcError
from tests.polling import wait_until
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
REVISION = "2025-11-25"
"""One with sessions: only a session can be ended while its token stays good."""
TOKEN = re.compile(r"thp_[A-Za-z0-9_-]{43}")
MAX_PUBLISH_CLICKS, MAX_CONNECT_CLICKS, MAX_FIND_CALL_CLICKS = 12, 4, 2


def seed_users() -> None:
    """alice in the group analysts; root; the auditor. There is no tool, and nobody has a token."""
    from django.contrib.auth.models import Group, User

    from tests import factories

    alice = User.objects.create_user("alice", password=seed.PASSWORD)
    factories.make_group("analysts", [alice])
    User.objects.create_superuser("root", password=seed.PASSWORD)
    auditor = User.objects.create_user("auditor", password=seed.PASSWORD, is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))


def actions() -> list[list[str]]:
    from audit.models import Action

    return [[action.actor, action.verb, action.kind] for action in Action.objects.order_by("pk")]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=seed_users) as hub:
        yield hub


def stage(page: Any, name: str, state: str) -> None:
    page.wait_for_selector(f'[data-stage="{name}"][data-state="{state}"]')


def publish(root: Window) -> tuple[int, str]:
    """From signing in to a tool that a group has, its parameters told in the table; the clicks, and its address."""
    page, hand = root.open("/admin/"), Hand(root.page)
    page.fill("#id_username", "root")
    page.fill("#id_password", seed.PASSWORD)
    hand.press("#id_password", "Enter")
    page.wait_for_url(f"{root.url}/admin/")
    hand.sidebar("Tools")
    hand.click('a[href*="/tool/add/"] >> visible=true >> nth=0')
    page.wait_for_selector("#tool-look:not([hidden]) h3")
    hand.choose(".tool-settings select", "long_task")
    page.wait_for_function("document.querySelector('#id_name').value === 'long_task'")
    hand.click('role=tab[name="Parameters"]')
    row = page.locator("#tool-section-2 tbody[data-row]").first
    assert row.locator("[data-column=name]").input_value() == "seconds"
    row.locator("[data-column=description]").fill("How many seconds to wait.")
    hand.click('role=tab[name="Access"]')
    hand.click("#grants-group .field-group .select2-selection")
    hand.click(".select2-results__option >> text=analysts")
    page.wait_for_selector("#tool-look strong.tool-good")
    hand.click("button[name=_save]")
    page.wait_for_url("**/admin/catalog/tool/")
    address = page.get_by_role("link", name="long_task").first.get_attribute("href")
    return hand.take_count(), address


def connect(alice: Window) -> tuple[int, str]:
    """From the sign-in page to what the client is to be told; the clicks, its button included, and the one thing that
    is pasted."""
    page, hand = alice.open("/"), Hand(alice.page)
    page.wait_for_url("**/sign-in/")
    page.fill("#id_username", "alice")
    page.fill("#id_password", seed.PASSWORD)
    hand.click("form button.primary")
    page.wait_for_url("**/connect/")
    hand.click("nav.chips >> text=curl")
    hand.click("text=Create token for this client")
    page.wait_for_selector('#check [data-live="live"]')
    stage(page, "token", "now")
    alice.note("[data-copy=snippet-1]")
    hand.click("[data-copy=snippet-1]")
    alice.read_note("[data-copy=snippet-1]", "Copied")
    pasted = page.evaluate("navigator.clipboard.readText()")
    return hand.take_count(), pasted


def test_from_no_tool_at_all_to_a_client_that_is_sent_away(
    hub: Hub, window: Windows, program: Program, tmp_path: Path
) -> None:
    root = window()
    clicks, tool = publish(root)
    assert clicks <= MAX_PUBLISH_CLICKS, clicks

    try_and_view_as_alice(root, tool)

    alice = window(permissions=["clipboard-read", "clipboard-write"])
    clicks, pasted = connect(alice)
    assert clicks <= MAX_CONNECT_CLICKS, clicks
    (token,) = set(TOKEN.findall(pasted))
    client = connect_on_open_page(alice.page, hub, program, token)

    call_id = call_and_cancel_live(alice.page, program, client)

    auditor = window(accept_downloads=True)
    find_in_audit_log(auditor, call_id)
    export_call(auditor.page, call_id, tmp_path / "calls.jsonl")

    revert_tool(root, tool)
    assert "How long it takes." not in json.dumps(program.does(client.every("tools/list", "tools")))

    disconnect_client(root, program, client)
    acts = hub.call(actions)
    for act in (
        ["root", "created", "tool"],
        ["root", "tried", "tool"],
        ["auditor", "exported", "calls"],
        ["root", "disconnected", "connection"],
    ):
        assert act in acts, acts


def try_and_view_as_alice(root: Window, tool: str) -> None:
    page, hand = root.page, Hand(root.page)
    hand.click(page.get_by_role("link", name="long_task").first)
    hand.click(f'a[href="{tool.replace("change/", "try/")}"]')
    page.fill("#user", "alice")
    page.fill("#argument-0", "0.1")
    hand.click("#try-run")
    page.wait_for_selector("#try-outcome .th-badge.good")
    assert "Done after 0.1 s" in page.inner_text("#try-outcome")
    hand.click("text=View call")
    page.wait_for_selector("text=tried in the admin by root")
    hand.sidebar("View as")
    page.fill("#user", "alice")
    hand.press("#user", "Enter")
    page.wait_for_selector("tr:has-text('long_task'):has-text('analysts') .th-badge.good")


def connect_on_open_page(page: Any, hub: Hub, program: Program, token: str) -> HttpClient:
    """Every step of the connection shows before the next one is taken."""
    client = HttpClient(hub.mcp_url, token, REVISION, name="walking-client")
    program.does(client.initialize())
    stage(page, "token", "done")
    stage(page, "revision", "done")
    assert REVISION in page.inner_text("[data-revision]")
    stage(page, "tools", "now")
    assert program.does(client.tools()) == ["long_task"]
    stage(page, "tools", "done")
    page.wait_for_selector("[data-connected]:visible")
    stage(page, "call", "now")
    program.does(client.call("long_task", {"seconds": 0.1}))
    stage(page, "call", "done")
    program.does(client.listen())
    return client


def call_and_cancel_live(page: Any, program: Program, client: HttpClient) -> str:
    """A call of the client appears by itself, tells how far it is, and ends by a click here; its id."""
    hand = Hand(page)
    hand.click("#check >> text=My calls")
    page.wait_for_selector('[data-live="live"]')
    running = program.start(client.call("long_task", {"seconds": 120, "steps": 120}))
    row = page.locator("tr.calls-row", has=page.locator("[data-cancel]")).first
    row.locator("progress").wait_for()
    call_id = str(row.get_attribute("data-call"))
    hand.click(row.locator("text=Cancel"))
    page.wait_for_selector(f'[data-call="{call_id}"] >> text=cancelled')
    with pytest.raises(RpcError):
        running.result(WAIT_SECONDS)
    return call_id


def find_in_audit_log(auditor: Window, call_id: str) -> None:
    auditor.sign_in("auditor", "/admin/login/?next=/admin/")
    page, hand = auditor.page, Hand(auditor.page)
    hand.sidebar("Calls")
    page.fill("input[name=q]", call_id)
    hand.press("input[name=q]", "Enter")
    page.wait_for_url(f"**/admin/audit/call/{call_id}/change/")
    clicks = hand.take_count()
    assert clicks <= MAX_FIND_CALL_CLICKS, clicks
    page.wait_for_selector("text=alice cancelled the call in the browser")


def export_call(page: Any, call_id: str, file: Path) -> None:
    """The filtered list as a file, and nothing else in it."""
    hand = Hand(page)
    hand.sidebar("Calls")
    hand.click("text=Filters")
    page.select_option("select[name=outcome]", "cancelled")
    page.fill("input[name=tool]", "long_task")
    hand.click("text=Apply")
    page.wait_for_url("**outcome=cancelled**")  # the list before had the call as well
    page.wait_for_selector(f"a[href*='{call_id}']")
    hand.click("summary >> text=Export")
    with page.expect_download() as download:
        hand.click("text=JSON Lines")
    download.value.save_as(file)
    (line,) = file.read_text().splitlines()
    assert call_id in line
    assert json.loads(line)["outcome"] == "cancelled"


def revert_tool(root: Window, tool: str) -> None:
    """A change of the definition is taken back in its history."""
    page, hand = root.open(tool), Hand(root.page)
    page.wait_for_selector("#tool-look:not([hidden]) h3")
    hand.click('role=tab[name="Parameters"]')
    row = page.locator("#tool-section-2 tbody[data-row]").first
    row.locator("[data-column=description]").fill("A mistake.")
    hand.click("text=Save and continue editing")
    page.wait_for_selector("text=was changed successfully")
    hand.click("text=Compare versions")
    page.wait_for_selector("#tool-compare :is(ins, .new):has-text('A mistake.')")
    hand.click("text=Revert to the version")
    page.wait_for_selector("#tool-look:not([hidden]) h3")
    hand.click("button:has-text('Revert')")
    page.wait_for_selector("text=was changed successfully")
    page = root.open(tool)
    page.wait_for_selector("#tool-look:not([hidden]) h3")
    hand.click('role=tab[name="Parameters"]')
    assert row.locator("[data-column=description]").input_value() == "How many seconds to wait."


def disconnect_client(root: Window, program: Program, client: HttpClient) -> None:
    """The client's open stream ends, and its session is not known any more."""
    page, hand = root.page, Hand(root.page)
    hand.sidebar("Sessions")
    hand.click(page.get_by_role("button", name=re.compile("Disconnect walking-client")).first)
    page.wait_for_selector("text=was disconnected")
    wait_until(lambda: not client._background, WAIT_SECONDS, "the stream of the client ends")
    with pytest.raises(RpcError, match="Session not found"):
        program.does(client.tools())
    program.does(client.http.aclose())
    client.check()
