"""From a request for some calls of a tool to the calls: what the person's clients see, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from catalog.errors import InvalidArguments
from catalog.functions import registry
from catalog.models import AccessRequest
from catalog.policy import visibility
from tests import factories
from tests.catalog import tools
from tests.catalog.pipeline import call, run_in_database, text

pytestmark = pytest.mark.django_db(transaction=True)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["region"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def _clear_runs() -> None:
    tools.RAN.clear()


def request_and_approve(alice: User, root: User) -> None:
    toolset = factories.make_toolset("Tickets", requestable=True)
    factories.make_tool(toolset=toolset, **{**registry.tool_row("call_ticket"), "input_schema": SCHEMA})
    mine, admin = Client(), Client()
    mine.force_login(alice)
    admin.force_login(root)
    sent = {"tool": "call_ticket", "reason": "My region.", "is:/region": "emea"}
    assert mine.post(f"/requests/toolset/{toolset.pk}/", sent).status_code == 302
    made = AccessRequest.objects.get()
    decided = {"decision": "approve", "conditions": json.dumps(made.conditions)}
    assert admin.post(f"/admin/requests/{made.pk}/decide/", decided).status_code == 302


async def test_who_asked_for_one_region_sees_and_calls_the_tool_for_that_region_only(alice: Any, root: Any) -> None:
    await run_in_database(request_and_approve, alice, root)
    shown = await run_in_database(visibility.for_credential, factories.credential(alice))
    assert shown.tools["call_ticket"][0].wire["inputSchema"]["properties"]["region"] == {
        "type": "string",
        "enum": ["emea"],
    }
    assert json.loads(text(await call(alice, "call_ticket", {"region": "emea"})))
    with pytest.raises(InvalidArguments, match='expected "emea", got string "apac"'):
        await call(alice, "call_ticket", {"region": "apac"})
    assert len(tools.RAN) == 1
