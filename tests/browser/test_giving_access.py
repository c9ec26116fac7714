"""Giving access and taking it back, from the pages of a tool, a toolset, a group and an import; the people's clients
are connected meanwhile and hear of each change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.utils import translation

from tests.browser import access_seed, axe
from tests.browser.conftest import Window
from tests.browser.hands import Program
from tests.client import HttpClient
from tests.real_servers import Hub
from toolhub.pages.access.grant_list import SENTENCES

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
REVISION = "2025-11-25"
LIST_CHANGED = "notifications/tools/list_changed"
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Zoo", "version": "1"},
    "servers": [{"url": "https://zoo.example"}],
    "paths": {f"/{name}": {"get": {"operationId": f"list_{name}"}} for name in ("lions", "tigers")},
}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=access_seed.seed) as hub:
        yield hub


class Listener:
    """The client of a person, which is connected and hears that its tools changed."""

    def __init__(self, hub: Hub, program: Program, name: str) -> None:
        self.program = program
        self.client = HttpClient(hub.mcp_url, hub.seeded["tokens"][name], REVISION)
        self.heard = 0
        program.does(self.client.initialize())
        program.does(self.client.listen())

    def hears_of(self, *names: str) -> None:
        """Wait for the news after which these are the tools."""

        async def has_them() -> bool:
            return sorted(await self.client.tools()) == sorted(names)

        self.heard = self.program.does(self.client.wait_for_message_when(LIST_CHANGED, has_them, self.heard))

    def close(self) -> None:
        self.program.does(self.client.__aexit__(None))


@pytest.fixture
def listen(hub: Hub, program: Program) -> Iterator[Callable[[str], Listener]]:
    made: list[Listener] = []

    def connect(name: str) -> Listener:
        made.append(Listener(hub, program, name))
        return made[-1]

    yield connect
    for one in made:
        one.close()


def has_no_problem(mine: Window) -> None:
    assert mine.too_wide() == ""
    assert axe.find_violations(mine.page) == []


def pick(page: Any, picker: str, text: str, value: str) -> list[str]:
    """Type into a picker and choose the entry with this value; what it offered, in its order."""
    page.fill(f"[data-picker={picker}] [data-search]", text)
    entry = page.locator(f"[data-picker={picker}] [data-found] input[value='{value}']")
    entry.wait_for()
    page.wait_for_function(
        "([picker, text]) => [...document.querySelectorAll(`[data-picker=${picker}] [data-found] label`)]"
        ".every((label) => label.textContent.toLowerCase().includes(text))",
        arg=[picker, text],
    )
    offered = page.locator(f"[data-picker={picker}] [data-found] label").all_inner_texts()
    entry.check()
    page.wait_for_selector(f"[data-picker={picker}] [data-chosen] input[value='{value}']")
    return [" ".join(text.split()) for text in offered]


def give(page: Any) -> None:
    page.click("#give-access button.primary")


def lines(page: Any) -> str:
    return " ".join(page.inner_text("#grants").split())


@pytest.mark.parametrize(
    ("name", "language", "locale", "width"), [("alice", "en", "en-GB", 1280), ("bob", "zh-hans", "zh-CN", 390)]
)
def test_a_tool_is_given_to_a_person_and_taken_back_on_its_page(
    hub: Hub, window: Windows, listen: Any, name: str, language: str, locale: str, width: int
) -> None:
    root = window(viewport={"width": width, "height": 900}, locale=locale)
    tool = hub.seeded["tools"]["feed"]
    root.sign_in("root", f"/admin/login/?next=/admin/access/tool/{tool}/")
    theirs, page = listen(name), root.page
    page.click("#grants a.primary")
    assert "feed" in page.inner_text("[data-picker=what] [data-chosen]")
    pk = page.evaluate(
        "async ([name]) => (await (await fetch('/admin/access/give/pick/?kind=who&q=' + name)).json())"
        ".results.find((row) => row.id.startsWith('user:')).id",
        [name],
    )
    offered = pick(page, "who", name, pk)
    assert re.search(rf"\b{name}$", offered[0]), "the exact name comes before malice"
    has_no_problem(root)
    page.fill("#note", "Ticket 12")
    give(page)
    page.wait_for_selector("#grants li")
    with translation.override(language):
        sentence = str(SENTENCES["allow", "user"]).partition("%(who)s")[0].strip()
    assert sentence in lines(page) and name in lines(page) and "Ticket 12" in lines(page)
    has_no_problem(root)
    theirs.hears_of("feed")
    page.click("#grants li a.small")
    page.wait_for_selector("#revoke strong")
    has_no_problem(root)
    page.click("#revoke button.danger")
    page.wait_for_selector("#access-tool")
    assert page.locator("#grants li").count() == 0
    theirs.hears_of()


def test_the_picker_ranks_names_and_a_destructive_tool_is_previewed_first(
    hub: Hub, window: Windows, listen: Any
) -> None:
    root = window()
    root.sign_in("root", "/admin/login/?next=/admin/access/give/")
    theirs, page, tools = listen("alice"), root.page, hub.seeded["tools"]
    offered = pick(page, "what", "feed", f"tool:{tools['feed']}")
    assert [text.split()[-1] for text in offered] == ["feed", "feed_pet", "the_feed", "overfeed"]
    (drop,) = pick(page, "what", "drop", f"tool:{tools['drop_pet']}")
    assert "destructive" in drop
    page.fill("[data-picker=who] [data-search]", "alice")
    page.click("[data-picker=who] [data-found] label:has(bdi:text-is('user alice'))")
    give(page)
    page.wait_for_selector("#give-preview .th-note.warn:has-text('drop_pet')")
    has_no_problem(root)
    page.click("text=Change selection")
    page.locator(f"[data-chosen] input[value='tool:{tools['feed']}']").uncheck()
    give(page)
    page.wait_for_selector("#give-preview")
    assert "feed" not in page.inner_text("#give-preview")
    page.click("text=Apply changes")
    page.wait_for_selector("text=1 grant was created.")
    theirs.hears_of("drop_pet")
    page = root.open(f"/admin/access/tool/{tools['drop_pet']}/")
    page.click("#grants li a.small")
    page.click("#revoke button.danger")
    page.wait_for_selector("#access-tool")
    theirs.hears_of()


def test_tools_reach_a_person_through_a_toolset_and_a_group_and_the_grant_beside_is_pointed_out(
    hub: Hub, window: Windows, listen: Any
) -> None:
    tools, pets = hub.seeded["tools"], hub.seeded["pets"]
    root = window()
    root.sign_in("root", f"/admin/login/?next=/admin/access/toolset/{pets}/")
    theirs, page = listen("alice"), root.page
    page.wait_for_selector("text=This toolset has no tools yet.")
    pick(page, "_selected_action", "feed_pet", str(tools["feed_pet"]))
    has_no_problem(root)
    page.click("form[data-pick] button.primary")
    page.wait_for_selector("#toolset-members [role=status]:has-text('Pets')")
    has_no_problem(root)
    page.click("button[name=confirmed]")
    page.wait_for_selector("#access-toolset tr:has-text('feed_pet')")

    page.click("#grants a.primary")
    pick(page, "who", "keepers", f"group:{hub.seeded['keepers']}")
    give(page)
    page.wait_for_selector("#grants li:has-text('Group keepers may use toolset Pets.')")
    page.click("#grants li a:has-text('keepers')")
    page.wait_for_selector("text=This group has no members yet.")
    page.fill("[data-picker=user] [data-search]", "alice")
    page.click("[data-picker=user] [data-found] label:has(bdi:text-is('alice'))")
    has_no_problem(root)
    page.click("form[data-pick] button.primary")
    page.wait_for_selector("#access-group tr:has-text('alice')")
    theirs.hears_of("feed_pet")

    page = root.open("/admin/catalog/tool/")
    page.check(f"input[name=_selected_action][value='{tools['wash_pet']}']")
    page.select_option("select[name=action]", "add_to_toolset")
    page.click("button[name=index], button:has-text('Run')")
    page.wait_for_selector("#toolset-members")
    page.select_option("#toolset-members select[name=toolset]", str(pets))
    page.click("#toolset-members button:has-text('Review changes')")
    page.wait_for_selector("text=1 user with access to it in development gets access to them.")
    page.click("button[name=confirmed]")
    page.wait_for_selector("text=1 item added to Pets.")
    theirs.hears_of("feed_pet", "wash_pet")

    page = root.open(f"/admin/access/give/?what=tool:{tools['wash_pet']}&place=tool:{tools['wash_pet']}")
    page.fill("[data-picker=who] [data-search]", "alice")
    page.click("[data-picker=who] [data-found] label:has(bdi:text-is('user alice'))")
    give(page)
    page.wait_for_selector("#give-preview .th-note.warn:has-text('wash_pet')")
    page.click("text=Apply changes")
    redundant = page.locator("#grants li", has_text="User alice may use tool wash_pet.")
    redundant.locator("text=Already covered by").wait_for()
    has_no_problem(root)
    redundant.locator("a.small").click()
    page.wait_for_selector("#revoke >> text=No one")
    page.click("#revoke button.danger")
    page.wait_for_selector("#access-tool")
    assert page.locator("#grants li", has_text="User alice").count() == 0
    assert sorted(theirs.program.does(theirs.client.tools())) == ["feed_pet", "wash_pet"]


def test_an_import_is_put_into_a_toolset_given_and_undone(hub: Hub, window: Windows, listen: Any) -> None:
    root = window()
    root.sign_in("root", "/admin/login/?next=/admin/catalog/importeddocument/add/")
    theirs, page = listen("malice"), root.page
    file = {"name": "zoo.json", "mimeType": "application/json", "buffer": json.dumps(DOCUMENT).encode()}
    page.set_input_files("#id_file", file)
    page.click("text=Preview")
    for number in (1, 2):
        page.check(f"#operation-{number}")
    page.click("button[value=import]")
    page.wait_for_url("**/admin/imports/*/")
    batch = page.url.removeprefix(root.url)
    has_no_problem(root)
    page.click("text=Add to a toolset: 2 tools")
    page.fill("input[name=name]", "Zoo")
    page.click("#toolset-members button:has-text('Review changes')")
    page.click("button[name=confirmed]")
    page.wait_for_url(f"**{batch}")
    assert hub.call(access_seed.list_tools, toolset="Zoo") == ["list_lions", "list_tigers"]
    page.click("#import-batch >> text=Give access")
    page.fill("[data-picker=who] [data-search]", "malice")
    page.click("[data-picker=who] [data-found] label:has(bdi:text-is('user malice'))")
    give(page)
    page.wait_for_selector("#grants li:has-text('User malice may use toolset Zoo.')")
    theirs.hears_of("list_lions", "list_tigers")
    page = root.open(batch)
    page.click("text=Show in the list: 2 tools")
    page.wait_for_selector("tr:has-text('list_tigers')")
    assert page.locator("tr:has-text('feed_pet')").count() == 0, "the import is a filter of the list"
    page = root.open(batch)
    page.click("text=Undo import")
    page.wait_for_selector("#import-undo h2:has-text('Is removed')")
    has_no_problem(root)
    page.click("#import-undo button:has-text('Undo import')")
    page.wait_for_selector("text=Nothing of this import exists any more.")
    theirs.hears_of()
