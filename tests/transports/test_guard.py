"""What is refused before anybody asks who is there: foreign hosts and origins, headers that say two things."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.transports.conftest import Person


@pytest.fixture
def alices(alice: User, person: Callable[..., Person]) -> Person:
    return person(alice)


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example.com",
        "chrome-extension://localhost",
        "chrome-extension://tools.example.com",
        "file://localhost",
        "null",
        "http://localhost@evil.example.com",
        "http://localhost/path",
        "https://localhost:port",
    ],
)
@pytest.mark.parametrize("hosts", [["localhost", "tools.example.com"], ["*"]], ids=["listed", "any"])
async def test_a_foreign_origin_is_refused_also_where_any_host_is_allowed(
    alices: Person, settings: Any, hosts: list[str], origin: str
) -> None:
    """With * no name is known to be ours: a web page anywhere could use the reader's token."""
    settings.ALLOWED_HOSTS = hosts
    refused = await alices.modern("tools/list", origin=origin)
    assert refused.status == 403
    assert refused.header("access-control-allow-origin") is None


async def test_an_origin_of_ours_is_let_in(alices: Person, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["localhost"]
    for origin in ("http://localhost:3000", "https://localhost"):
        answer = await alices.modern("tools/list", origin=origin)
        assert answer.status == 200 and answer.header("access-control-allow-origin") == origin
    settings.ALLOWED_HOSTS = ["*"]
    settings.ALLOWED_ORIGINS = ["chrome-extension://abc"]
    assert (await alices.modern("tools/list", origin="chrome-extension://abc")).status == 200


@pytest.mark.parametrize("name", ["mcp-param-region", "authorization", "host", "mcp-name", "mcp-protocol-version"])
async def test_a_header_that_decides_must_be_sent_once(alices: Person, name: str) -> None:
    """A proxy may go by the first one, and this server by the second."""
    sent = alices.plain(mcp_param_region="a", mcp_name="b", mcp_protocol_version="2026-07-28", mcp_method="tools/list")
    assert b"must be sent once" not in (await alices.wire.send("POST", sent, alices.message("tools/list"))).body
    twice = [*sent.items(), (name, sent[name])]
    refused = await alices.wire.send("POST", twice, alices.message("tools/list"))
    assert refused.status == 400
    assert f"The header {name} must be sent once." in refused.body.decode()
