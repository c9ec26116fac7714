"""Calls that ask a person before they run, by real clients: what each of them gets, and that nothing runs twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.clients import approval_catalogue
from tests.clients.approval_catalogue import BY_APPROVER, IN_BROWSER, IN_CLIENT
from tests.clients.catalogue import Person
from tests.clients.report import WAIT_SECONDS
from tests.clients.sdk import INFO, text
from tests.clients.versions import LATEST_HANDSHAKE, MODERN
from tests.real_servers import Hub

NUMBERS = {"a": 2, "b": 4}
SUM = "6"
Answer = Callable[[types.ElicitRequestParams], Any]
REVISIONS = [LATEST_HANDSHAKE, MODERN]


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=approval_catalogue.load) as running:
        yield running


@pytest.fixture
def person(hub: Hub) -> Person:
    return Person(*hub.seeded.pop())


@asynccontextmanager
async def connected(hub: Hub, person: Person, revision: str, answer: Answer | None = None) -> AsyncIterator[Client]:
    """The official client; with `answer`, it can show questions."""

    async def show(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert answer is not None
        found = answer(params)
        return await found if asyncio.iscoroutine(found) else found

    headers = {"Authorization": f"Bearer {person.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=WAIT_SECONDS, trust_env=False) as http,
        Client(
            streamable_http_client(hub.mcp_url, http_client=http),
            mode="auto" if revision == MODERN else "legacy",
            client_info=INFO,
            elicitation_callback=None if answer is None else show,
        ) as client,
    ):
        yield client


async def decide(hub: Hub, person: Person, by: str) -> None:
    assert await asyncio.to_thread(hub.call, approval_catalogue.approve, caller=person.name, by=by) == "approved"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_client_without_questions_waits_and_gets_its_result(hub: Hub, person: Person, revision: str) -> None:
    said: list[str | None] = []
    told = asyncio.Event()

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        said.append(message)
        told.set()

    async with connected(hub, person, revision) as client:
        call = asyncio.ensure_future(client.call_tool(BY_APPROVER, NUMBERS, progress_callback=heard))
        await asyncio.wait_for(told.wait(), WAIT_SECONDS)  # one that is approved at once says nothing of a wait
        await decide(hub, person, "approver")
        assert text(await call) == SUM
    assert said[0] == "Waiting for approval by the group approvers"
    assert hub.call(approval_catalogue.list_statuses, caller=person.name) == ["waiting", "ok"]
    assert hub.call(approval_catalogue.list_states, caller=person.name) == [["used", "approver", False]]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_person_confirms_in_the_client(hub: Hub, person: Person, revision: str) -> None:
    asked: list[types.ElicitRequestParams] = []

    def answer(params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content={"run": True})

    async with connected(hub, person, revision, answer) as client:
        assert text(await client.call_tool(IN_CLIENT, NUMBERS)) == SUM
    assert asked[0].mode == "form" and '"a":2' in asked[0].message
    assert hub.call(approval_catalogue.list_states, caller=person.name) == [["used", person.name, True]]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_person_declines_in_the_client(hub: Hub, person: Person, revision: str) -> None:
    async with connected(hub, person, revision, lambda _params: types.ElicitResult(action="decline")) as client:
        result = await client.call_tool(IN_CLIENT, NUMBERS)
    assert result.is_error and f"{person.name} denied this call." in text(result)
    assert hub.call(approval_catalogue.list_statuses, caller=person.name)[-1] == "approval_denied"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_person_is_sent_to_the_browser_for_a_destructive_tool(
    hub: Hub, person: Person, revision: str
) -> None:
    opened: list[str] = []

    async def answer(params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        opened.append(params.url)
        await decide(hub, person, person.name)
        return types.ElicitResult(action="accept")

    async with connected(hub, person, revision, answer) as client:
        assert text(await client.call_tool(IN_BROWSER, NUMBERS)) == SUM
    assert len(opened) == 1 and "/approvals/" in opened[0]
    assert hub.call(approval_catalogue.list_states, caller=person.name) == [["used", person.name, False]]
