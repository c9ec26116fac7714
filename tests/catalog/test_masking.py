"""What an upstream server tells about the secret that it was sent is masked wherever it may appear."""

from __future__ import annotations

import json
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from mcp import MCPError, types
from mcp.shared.exceptions import MCPDeprecationWarning

from audit import outcomes
from audit.models import Call
from catalog.calls import masking
from catalog.calls.execution import Outcome
from catalog.errors import NeedsInput, ProtocolError
from catalog.models import Secret, Tool
from catalog.policy import snapshot
from catalog.runners.upstream_mcp import pool
from tests import factories
from tests.catalog import pipeline
from tests.catalog.test_secrets import make_shared
from tests.catalog.test_upstreams import LOCAL, import_all, make_upstream
from tests.runners.upstream import ANSWERING, Upstream, tool

pytestmark = pytest.mark.django_db(transaction=True)

VALUE = "sk-canary-of-the-upstream-0123456789"
NAMES = ("ask", "report", "refuse")


class Gossip(Upstream):
    """It puts the secret into everything that it may send."""

    def __init__(self, *, legacy: bool) -> None:
        super().__init__(legacy=legacy)
        self.tools = {name: tool(name, f"Does {name}.") for name in NAMES}

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> Any:
        heard = context.request.headers.get("x-key-id")
        assert heard == VALUE
        if params.name == "refuse":
            raise MCPError(-32005, f"I was sent {heard}", {"key": heard, heard: [heard]})
        if params.name == "report":
            await context.session.report_progress(0.5, 1.0, f"half of {heard}")
            with warnings.catch_warnings():  # servers of today still send them
                warnings.simplefilter("ignore", MCPDeprecationWarning)
                await context.session.send_log_message("info", {"key": heard}, "upstream", context.request_id)
        elif self.legacy:
            await context.session.elicit_form(f"Is it {heard}?", ANSWERING, context.request_id)
        elif not params.input_responses:
            asked = types.ElicitRequestFormParams(message=f"Is it {heard}?", requested_schema=ANSWERING)
            return types.InputRequiredResult(
                input_requests={"name": types.ElicitRequest(params=asked)}, request_state="1"
            )
        return types.CallToolResult(content=[types.TextContent(type="text", text="done")])


@pytest.fixture(scope="module", params=["handshake", "modern"])
def gossip(request: pytest.FixtureRequest) -> Iterator[Gossip]:
    with Gossip(legacy=request.param == "handshake").running() as upstream:
        assert isinstance(upstream, Gossip)
        yield upstream


@pytest.fixture(autouse=True)
def local_networks(settings: Any) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = LOCAL


@pytest.fixture(autouse=True)
async def _close_connections() -> AsyncIterator[None]:
    yield
    await pool.close()
    await snapshot.stop()


async def prepare(upstream: Upstream, user: User) -> None:
    def make() -> None:
        make_shared("other_key", VALUE)
        made = make_upstream(upstream)
        import_all(made)
        made.headers = {"X-Key-Id": {"secret": "other_key"}}
        made.full_clean()
        made.save()
        for row in Tool.objects.filter(origin=made.origin):
            factories.grant(user, row)
        factories.allow_destinations()
        assert Secret.objects.count() == 1

    await pipeline.run_in_database(make)


async def logged() -> str:
    return json.dumps([row async for row in Call.objects.values()], default=str)


@pytest.mark.parametrize("modern", [False, True], ids=["handshake client", "modern client"])
async def test_a_secret_is_masked_in_a_question(gossip: Gossip, alice: User, modern: bool) -> None:
    await prepare(gossip, alice)
    answer = {"action": "accept", "content": {"name": "Ada"}}
    key = "elicitation_1" if gossip.legacy else "name"
    channel = pipeline.RecordingChannel(modern=modern, answers={} if modern else {key: answer})
    if modern:
        with pytest.raises(NeedsInput) as needed:
            await pipeline.call(alice, "other_ask", channel=channel)
        asked = json.dumps(needed.value.requests)
    else:
        assert pipeline.text(await pipeline.call(alice, "other_ask", channel=channel)) == "done"
        asked = json.dumps(channel.asked)
    assert "Is it [hidden secret]?" in asked and VALUE not in asked
    assert VALUE not in await logged()


async def test_a_secret_is_masked_in_progress_and_log_messages(gossip: Gossip, alice: User) -> None:
    await prepare(gossip, alice)
    channel = pipeline.RecordingChannel()
    assert pipeline.text(await pipeline.call(alice, "other_report", channel=channel)) == "done"
    told = json.dumps([channel.reports, channel.lines])
    assert "half of [hidden secret]" in told and VALUE not in told


async def test_a_secret_is_masked_in_the_error_of_an_upstream(gossip: Gossip, alice: User) -> None:
    await prepare(gossip, alice)
    try:
        told = json.dumps((await pipeline.call(alice, "other_refuse")).content)
    except ProtocolError as error:
        told = json.dumps([error.message, error.data])
    assert "I was sent [hidden secret]" in told and VALUE not in told
    assert VALUE not in await logged()


# --- the end of a run, whatever came before ------------------------------------------------------------------------


def test_a_secret_is_masked_in_what_a_run_asks_for_when_it_ends() -> None:
    """A channel masks what a tool asks; a request that reached the end by another way is masked there."""
    question = {"message": f"Is it {VALUE}?", "requestedSchema": {"properties": {"a": {"default": VALUE}}}}
    asked = NeedsInput({"key": ("elicitation/create", question)})
    masking.mask_outcome(Outcome(outcomes.INPUT_REQUIRED, error=asked), {"shared": VALUE})
    method, shown = asked.requests["key"]
    assert method == "elicitation/create" and VALUE not in json.dumps(shown) and "Is it" in json.dumps(shown)


def test_a_secret_is_masked_in_an_error_of_the_protocol_its_message_and_its_data() -> None:
    outcome = Outcome(outcomes.TOOL_ERROR, error=ProtocolError(-32000, f"no {VALUE}", {"why": [f"bad {VALUE}"]}))
    masking.mask_outcome(outcome, {"shared": VALUE})
    found = outcome.error
    assert isinstance(found, ProtocolError) and found.code == -32000
    assert VALUE not in found.message + json.dumps(found.data) and found.message.startswith("no ")
