"""The clients as data: every text is complete, and what is JSON parses."""

from __future__ import annotations

import base64
import json
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from toolhub.access import connect

PUBLIC = "https://tools.example.com"
TOKEN = "thp_" + "a" * 43


@pytest.mark.parametrize("client", connect.CLIENTS, ids=lambda client: client.key)
def test_no_placeholder_remains_and_json_is_valid(client: connect.Client) -> None:
    parts = connect.fill(client, PUBLIC, TOKEN)
    whole = "\n".join(part.text for part in parts)
    assert "@URL@" not in whole
    assert "@NAME@" not in whole
    assert "@HTTP@" not in whole
    assert TOKEN in whole
    assert f"{PUBLIC}/mcp" in whole
    for part in parts:
        if str(part.file).endswith(".json"):
            json.loads(part.text)


def test_keys_are_unique() -> None:
    assert len(connect.CLIENTS_BY_KEY) == len(connect.CLIENTS)


@pytest.mark.parametrize(
    ("url", "told"),
    [("http://tools.lan:8000", True), ("http://localhost:8000", False), ("https://tools.example.com", False)],
)
@pytest.mark.parametrize("key", ["mcp-remote", "claude-desktop"])
def test_the_bridge_allows_http_when_the_address_has_no_tls(key: str, url: str, told: bool) -> None:
    parts = connect.fill(connect.CLIENTS_BY_KEY[key], url)
    assert ("--allow-http" in parts[0].text) == told


def test_deeplinks_carry_the_settings() -> None:
    cursor = connect.deeplink(connect.CLIENTS_BY_KEY["cursor"], PUBLIC, TOKEN)
    packed = parse_qs(urlsplit(cursor).query)["config"][0]
    assert json.loads(base64.b64decode(packed))["headers"] == {"Authorization": f"Bearer {TOKEN}"}
    vscode = connect.deeplink(connect.CLIENTS_BY_KEY["vscode"], PUBLIC, TOKEN)
    assert json.loads(unquote(urlsplit(vscode).query))["url"] == f"{PUBLIC}/mcp"
    assert connect.deeplink(connect.CLIENTS_BY_KEY["curl"], PUBLIC, TOKEN) == ""
