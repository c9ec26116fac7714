"""What provisioning changes reaches clients that are connected: a group, and the end of an account."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests import factories
from tests.polling import wait_until_async
from tests.scim.idp import Idp, make_provider
from tests.server.conftest import refresh_catalogue, run_in_database
from tests.transports import functions
from tests.transports.conftest import Person
from tests.transports.conftest import hub as hub
from tests.transports.conftest import label as label
from tests.transports.conftest import publish as publish
from tests.transports.conftest import wire as wire
from tests.transports.sockets import Socket
from tests.transports.wire import Wire
from toolhub.access.models import AccessToken
from toolhub.identity.models import GroupMapping
from toolhub.transports import connection

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]
CHANGED = b"notifications/tools/list_changed"
MAX_WAIT_SECONDS = 30.0
"""What must happen within five seconds, with room for a machine that does much else."""
WANTED = {"notifications": {"toolsListChanged": True}}


@dataclass
class Provisioned:
    """ada, provisioned in a mapped group whose tools she may use, with a personal token and a connected app."""

    idp: Idp
    user: dict[str, Any]
    group: dict[str, Any]
    by_token: Person
    by_app: Person

    async def patch(self, kind: str, *operations: dict[str, Any]) -> None:
        resource = self.user if kind == "Users" else self.group
        answer = await run_in_database(self.idp.patch, f"{kind}/{resource['id']}", *operations)
        assert answer.status_code in {200, 204}, answer.content


@pytest.fixture
async def ada(wire: Wire, publish: Callable[..., Any], transactional_db: None) -> Provisioned:
    def make() -> Provisioned:
        idp = Idp.connect(make_provider())
        analysts = factories.make_group("analysts")
        GroupMapping.objects.create(provider=idp.provider, value="Analysts", group=analysts)
        for name in ("t_add", "t_silent"):
            factories.grant(analysts, publish(None, name))
        user = idp.make_user()
        group = idp.make_group("Analysts", user)
        account = User.objects.get()
        token = AccessToken.objects.issue(account, "laptop")[1]
        _app, tokens = factories.connect_app(account)
        return Provisioned(
            idp, user, group, Person(wire, account, token), Person(wire, account, tokens["access_token"])
        )

    made: Provisioned = await run_in_database(make)
    await refresh_catalogue()
    return made


async def list_tools(person: Person) -> set[str]:
    answer = await person.modern("tools/list")
    assert answer.status == 200, answer.body
    return {tool["name"] for tool in answer.json["result"]["tools"]}


async def test_who_leaves_a_mapped_group_hears_of_it_and_the_tools_are_gone(ada: Provisioned) -> None:
    assert await list_tools(ada.by_token) == {"t_add", "t_silent"}
    await ada.by_app.begin_session()
    listening = ada.by_app.listen()
    subscription = ada.by_token.begin_modern("subscriptions/listen", WANTED)
    await subscription.wait_for_text(b"acknowledged")
    await asyncio.wait_for(listening.started.wait(), MAX_WAIT_SECONDS)
    began = time.monotonic()
    await ada.patch("Groups", {"op": "remove", "path": f'members[value eq "{ada.user["id"]}"]'})
    await subscription.wait_for_text(CHANGED)
    await listening.wait_for_text(CHANGED)
    assert time.monotonic() - began < MAX_WAIT_SECONDS
    assert await list_tools(ada.by_token) == await list_tools(ada.by_app) == set()
    denied = await ada.by_token.modern("tools/call", {"name": "t_add", "arguments": {"a": 1, "b": 2}})
    assert denied.error["message"] == "Unknown tool: t_add"
    await ada.patch("Groups", {"op": "add", "path": "members", "value": [{"value": ada.user["id"]}]})
    await wait_until_async(lambda: subscription.body.count(CHANGED) == 2)
    assert await list_tools(ada.by_token) == {"t_add", "t_silent"}
    for request in (listening, subscription):
        request.leave()


@pytest.mark.parametrize("way", ["active", "Entra", "delete"])
async def test_deactivating_ends_open_streams_sockets_calls_and_every_token(
    ada: Provisioned, label: str, way: str
) -> None:
    await ada.by_token.begin_session()
    listening = ada.by_token.listen()
    subscription = ada.by_app.begin_modern("subscriptions/listen", WANTED)
    call = ada.by_app.begin_modern("tools/call", {"name": "t_silent", "arguments": {"label": label}})
    socket = await Socket(ada.by_token).opened()
    await socket.initialize()
    await subscription.wait_for_text(b"acknowledged")
    await asyncio.wait_for(functions.STARTED[label].wait(), MAX_WAIT_SECONDS)
    await asyncio.wait_for(listening.started.wait(), MAX_WAIT_SECONDS)
    began = time.monotonic()
    if way == "active":
        await ada.patch("Users", {"op": "replace", "value": {"active": False}})
    elif way == "Entra":
        await ada.patch("Users", {"op": "Replace", "path": "active", "value": "False"})
    else:
        answer = await run_in_database(ada.idp.send, "DELETE", f"Users/{ada.user['id']}")
        assert answer.status_code == 204
    await asyncio.gather(listening.answer(), subscription.answer(), call.answer())
    assert await socket.closed() == connection.POLICY
    await socket.leave()
    assert time.monotonic() - began < MAX_WAIT_SECONDS
    for person in (ada.by_token, ada.by_app):
        assert (await person.modern("tools/list")).status == 401


async def test_an_account_that_is_active_again_may_use_its_tools(ada: Provisioned) -> None:
    await ada.patch("Users", {"op": "replace", "value": {"active": False}})
    assert (await ada.by_token.modern("tools/list")).status == 401
    await ada.patch("Users", {"op": "replace", "value": {"active": True}})

    async def has_tools() -> bool:
        return await list_tools(ada.by_token) == {"t_add", "t_silent"}

    await wait_until_async(has_tools, MAX_WAIT_SECONDS)
