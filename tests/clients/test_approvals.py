"""Calls that ask a person before they run, by real clients: what each of them shows, and that nothing runs twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.clients import approval_catalogue, asking_clients
from tests.clients.approval_catalogue import BY_APPROVER, IN_BROWSER, IN_CLIENT
from tests.clients.asking_clients import ARGUMENTS, Event
from tests.clients.catalogue import Person
from tests.clients.report import WAIT_SECONDS
from tests.clients.sdk import INFO, text
from tests.clients.versions import ASKED, LATEST_HANDSHAKE, LINK, MODERN, NOTHING, PROGRESS, QUESTION, TASK, Asked
from tests.real_servers import Hub

SUM = "6"
APPROVER = "approver"
MARKS = {PROGRESS: "progress", LINK: "link"}
pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=approval_catalogue.load) as running:
        yield running


@pytest.fixture
def somebody(hub: Hub) -> Callable[[], Person]:
    return lambda: Person(*hub.seeded.pop())


def name_of(asked: Asked) -> str:
    return f"{asked.key} {asked.revision}"


def decide(hub: Hub, person: Person, by: str) -> None:
    assert hub.call(approval_catalogue.approve, caller=person.name, by=by) == "approved"


def use(hub: Hub, asked: Asked, home: Path, person: Person, tool: str, decider: str) -> tuple[list[Event], Event]:
    """What the client shows, and its result; somebody decides as soon as it shows what this client is to show."""
    expected = asked.kind(tool)
    shown: list[Event] = []
    with ThreadPoolExecutor(1) as pool:
        decision = pool.submit(decide, hub, person, decider) if expected in (NOTHING, TASK) else None
        for event in asking_clients.happen(asking_clients.start(asked, hub, home, person, tool), home):
            shown.append(event)
            if decision is None and expected in (PROGRESS, LINK) and MARKS[expected] in event:
                decision = pool.submit(decide, hub, person, decider)
        if decision is not None:
            decision.result()
    assert shown and "result" in shown[-1], (home / asking_clients.ERRORS).read_text()[-4000:]
    return shown[:-1], shown[-1]


@pytest.mark.parametrize("asked", ASKED, ids=name_of)
@pytest.mark.parametrize("tool", [BY_APPROVER, IN_CLIENT, IN_BROWSER])
def test_a_client_shows_what_its_call_waits_for_and_gets_the_result_once(
    hub: Hub, somebody: Callable[[], Person], tmp_path: Path, asked: Asked, tool: str
) -> None:
    person = somebody()
    expected = asked.kind(tool)
    decider = APPROVER if tool == BY_APPROVER else person.name
    shown, end = use(hub, asked, tmp_path, person, tool, decider)
    assert end["result"] == SUM and not end["error"]
    assert end.get("revision") in (asked.revision, None)
    check_shown(expected, shown, person.name, decider)
    assert hub.call(approval_catalogue.list_states, caller=person.name) == [["used", decider, expected == QUESTION]]
    assert hub.call(approval_catalogue.count_tasks, caller=person.name) == (expected == TASK)
    statuses = hub.call(approval_catalogue.list_statuses, caller=person.name)
    assert statuses.count("ok") == 1 and set(statuses) == {"waiting", "ok"}


def check_shown(expected: str, shown: list[Event], person: str, decider: str) -> None:
    questions = [event for event in shown if "asked" in event]
    if expected in (NOTHING, TASK):
        assert shown == []
    elif expected == PROGRESS:
        assert questions == [] and shown[0] == {"progress": "Waiting for approval by the group approvers"}
    elif expected == QUESTION:
        (question,) = questions
        assert question["asked"] == "form" and '"a":2' in question["message"]
    else:
        (question,) = questions
        assert question["asked"] == "url" and "/approvals/" in question["link"]


def test_a_client_that_nobody_answers_gives_up_with_a_link_and_the_same_call_runs_once(
    hub: Hub, somebody: Callable[[], Person], tmp_path: Path
) -> None:
    """All clients side by side, because each waits as long as a call waits: only a task waits longer."""
    used = [(asked, somebody()) for asked in ASKED if asked.by_approver != TASK]
    homes = [tmp_path / str(number) for number in range(len(used))]
    for home in homes:
        home.mkdir()

    def call(asked: Asked, person: Person, home: Path) -> Event:
        *_shown, end = asking_clients.happen(asking_clients.start(asked, hub, home, person, BY_APPROVER), home)
        return end

    def call_all() -> list[Event]:
        with ThreadPoolExecutor(len(used)) as pool:
            return list(pool.map(call, *zip(*used, strict=True), homes))

    for end in call_all():
        assert end["error"] and "/approvals/" in end["result"] and "waits for approval" in end["result"]
    for _, person in used:
        assert hub.call(approval_catalogue.list_statuses, caller=person.name) == ["waiting"]
        decide(hub, person, APPROVER)
    for end in call_all():
        assert end["result"] == SUM and not end["error"]
    for _, person in used:
        assert hub.call(approval_catalogue.list_states, caller=person.name) == [["used", APPROVER, False]]
        assert hub.call(approval_catalogue.list_statuses, caller=person.name)[-1] == "ok"


@pytest.mark.parametrize("revision", [LATEST_HANDSHAKE, MODERN])
async def test_the_person_declines_in_the_client(hub: Hub, somebody: Callable[[], Person], revision: str) -> None:
    person = somebody()

    async def decline(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        return types.ElicitResult(action="decline")

    headers = {"Authorization": f"Bearer {person.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS, trust_env=False) as http,
        Client(
            streamable_http_client(hub.mcp_url, http_client=http),
            mode="auto" if revision == MODERN else "legacy",
            client_info=INFO,
            elicitation_callback=decline,
        ) as client,
    ):
        result = await client.call_tool(IN_CLIENT, ARGUMENTS)
    assert result.is_error and f"{person.name} denied this call." in text(result)
    assert hub.call(approval_catalogue.list_statuses, caller=person.name)[-1] == "approval_denied"
