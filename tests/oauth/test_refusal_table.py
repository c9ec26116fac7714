"""The table of refusals: each MUST of the specification that falls on this server, and each gap of the libraries.

A row is a request, the sentence that forbids it, and the answer: status, error code, `iss`. After every row no code and
no token is there that was not there before, and the answer carries none. A MUST for clients alone has no row. Nor has
"All authorization server endpoints MUST be served over HTTPS": that is up to the proxy, and a check of the deployment.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import pytest

from tests import factories
from tests.catalog.local_api import Api
from tests.catalog.local_api import api as api
from tests.oauth import flow
from tests.oauth.refusals import authorization, clients, devices, resource, rows, tokens
from tests.oauth.refusals.rows import JSON, PAGE, REDIRECT, Answer, McpRow, Row, Scene
from tests.oauth.test_client_documents import authority as authority
from tests.oauth.test_client_documents import documents as documents
from tests.server.conftest import refresh_catalogue, run_in_database
from tests.transports.conftest import Person
from tests.transports.conftest import hub as hub
from tests.transports.conftest import person as person
from tests.transports.conftest import publish as publish
from tests.transports.conftest import wire as wire
from tests.transports.conftest import with_tools as with_tools

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from tests.transports.wire import Wire

ROWS: tuple[Row, ...] = (*authorization.ROWS, *tokens.ROWS, *devices.ROWS, *clients.ROWS)
MIN_ROWS = 40


@pytest.fixture
def scene(
    alice: User, bob: User, settings: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Scene:
    return Scene(alice, bob, settings, monkeypatch, request)


@pytest.fixture
async def app(with_tools: Any, wire: Wire, alice: User, settings: Any) -> Person:
    """alice through an app that she connected."""
    settings.WRITE_SCOPE = False
    await with_tools("t_add")
    _app, given = await run_in_database(factories.connect_app, alice)
    made = Person(wire, alice, given["access_token"])
    made.refresh_token = given["refresh_token"]  # type: ignore[attr-defined]
    return made


@pytest.mark.django_db
@pytest.mark.parametrize("row", ROWS, ids=attrgetter("name"))
def test_the_authorization_server_refuses(row: Row, scene: Scene) -> None:
    send = row.prepare(scene)
    before = rows.stored()
    answer = Answer.read(send())
    assert answer.status == row.status, answer.body
    assert rows.stored() <= before
    rows.check_nothing_leaks(answer)
    match row.kind:
        case rows.REDIRECT:
            rows.check_redirect(answer, row.error)
        case rows.PAGE:
            rows.check_page(answer)
        case rows.JSON:
            rows.check_json(answer, row.error)
    assert (answer.headers.get("location", "").startswith(flow.CALLBACK)) == row.has_issuer
    if row.also is not None:
        row.also(scene, answer)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("row", resource.ROWS, ids=attrgetter("name"))
async def test_the_protected_resource_refuses(row: McpRow, app: Person) -> None:
    send = await row.prepare(app)
    before = await run_in_database(rows.stored)
    answer = Answer.read(await send())
    assert answer.status == row.status, answer.body
    assert await run_in_database(rows.stored) <= before
    rows.check_nothing_leaks(answer)
    rows.check_mcp(answer)
    assert answer.challenge == row.challenge
    assert answer.headers.get("www-authenticate", "Bearer ").startswith("Bearer ")
    if row.also is not None:
        await row.also(app, answer)


# --- the same requests without the fault, without which the table would prove nothing --------------------------------


@pytest.mark.django_db
def test_the_right_request_gets_a_code_with_the_issuer_and_tokens(scene: Scene) -> None:
    for method in ("none", "client_secret_post"):
        app = flow.register(token_endpoint_auth_method=method)
        found = flow.parameters(flow.decide(scene.browser, app, flow.ask(scene.browser, app)))
        assert (found["iss"], found["state"]) == (flow.ISSUER, app.state)
        answer = Answer.read(app.exchange(found["code"]))
        assert answer.status == 200
        rows.check_json(answer, "")
        given = answer.json
        again = app.refresh(given["refresh_token"], **({"client_secret": app.secret} if app.secret else {}))
        assert again.status_code == 200
        assert rows.CREDENTIAL.fullmatch(given["access_token"])


@pytest.mark.django_db
def test_basic_with_the_right_secret_gets_tokens(scene: Scene) -> None:
    assert tokens.exchange_with_basic("", "")(scene)().status_code == 200


@pytest.mark.django_db
def test_the_right_program_gets_tokens(scene: Scene) -> None:
    program = devices.register()
    found = devices.start(program).json()
    devices.decide(scene.browser, devices.ask(scene.browser, found))
    assert devices.poll(program, found).status_code == 200


@pytest.mark.django_db
def test_the_right_registration_and_the_right_document_are_accepted(scene: Scene) -> None:
    assert clients.send(clients.GOOD).status_code == 201
    assert clients.describe()(scene)().status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize(
    "spelling",
    [
        f"{flow.RESOURCE}/",
        flow.ISSUER,
        flow.RESOURCE.replace("localhost", "LOCALHOST"),
        flow.RESOURCE.replace("http:", "HTTP:"),
    ],
)
def test_our_resource_is_ours_however_it_is_spelt(spelling: str, scene: Scene) -> None:
    assert authorization.ask(resource=spelling)(scene)().status_code == 200
    assert tokens.exchange(resource=spelling)(scene)().status_code == 200


@pytest.mark.django_db(transaction=True)
async def test_the_right_token_runs_the_tool(app: Person) -> None:
    answer = await app.modern("tools/call", resource.ADD)
    assert answer.status == 200
    assert not answer.json["result"].get("isError")


@pytest.mark.django_db(transaction=True)
async def test_the_token_of_a_client_goes_to_no_api_that_a_tool_asks(app: Person, api: Api) -> None:
    """Security Considerations: "The MCP server MUST NOT pass through the token it received from the MCP client."."""

    def fill() -> None:
        settings = {"url": f"{api.url}/ask", "query": {"q": "q"}}
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        tool = factories.make_tool("ask_api", runner="http_api", settings=settings, input_schema=schema, clean=True)
        factories.grant(app.user, tool)
        factories.allow_destinations()

    await run_in_database(fill)
    await refresh_catalogue()
    answer = await app.modern("tools/call", {"name": "ask_api", "arguments": {"q": "x"}})
    assert not answer.json["result"].get("isError")
    assert [dict(seen["query"]) for seen in api.seen] == [{"q": "x"}]
    assert "authorization" not in api.seen[0]["headers"]
    assert app.token not in repr(api.seen)


# --- the table itself ------------------------------------------------------------------------------------------------


def test_every_row_has_a_name_of_its_own_a_sentence_and_an_answer() -> None:
    every: list[Row | McpRow] = [*ROWS, *resource.ROWS]
    assert len(every) >= MIN_ROWS
    names = [row.name for row in every]
    assert sorted(names) == sorted(set(names))
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)
    assert all(row.where and row.sentence for row in every)
    assert {row.kind for row in ROWS} == {REDIRECT, PAGE, JSON}


def test_every_gap_has_a_row() -> None:
    places = [row.where for row in ROWS] + [row.where for row in resource.ROWS]
    assert {int(gap) for where in places for gap in re.findall(r"gap (\d+)", where)} == set(rows.GAPS)
