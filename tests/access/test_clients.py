"""The clients as data: every text is complete, and what is JSON parses."""

from __future__ import annotations

import base64
import json
import tomllib
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
import yaml

from toolhub.access import connect

PUBLIC = "https://tools.example.com"
TOKEN = "thp_" + "a" * 43


@pytest.mark.parametrize("client", connect.CLIENTS, ids=lambda client: client.key)
def test_no_placeholder_remains_and_json_is_valid(client: connect.Client) -> None:
    assert client.snippets or client.sign_in
    for parts, has_token in (
        (connect.fill(client, PUBLIC, TOKEN), True),
        (connect.fill_sign_in(client, PUBLIC), False),
    ):
        if not parts:
            continue
        whole = "\n".join(part.text for part in parts)
        assert "@URL@" not in whole
        assert "@NAME@" not in whole
        assert "@HTTP@" not in whole
        assert "@TOKEN@" not in whole
        assert (TOKEN in whole) == has_token
        assert ("Bearer" in whole) <= has_token
        assert f"{PUBLIC}/mcp" in whole
        for part in parts:
            if str(part.file).endswith(".json"):
                json.loads(part.text)
            if str(part.file).endswith(".toml"):
                assert tomllib.loads(part.text)["mcp_servers"]["toolhub"]["url"] == f"{PUBLIC}/mcp"
            if str(part.file).endswith(".yaml"):
                assert yaml.safe_load(part.text)["extensions"]["toolhub"]["uri"] == f"{PUBLIC}/mcp"


@pytest.mark.parametrize(
    ("url", "secure", "public"),
    [
        ("https://tools.example.com", True, True),
        ("https://tools.example.com:8443", True, True),
        ("http://tools.example.com", False, False),
        ("http://localhost:8000", True, False),
        ("http://[::1]:8000", True, False),
        ("https://localhost", True, False),
        ("https://10.0.0.5", True, False),
        ("https://toolhub", True, False),
    ],
)
def test_an_address_that_clients_cannot_use_is_known_as_one(url: str, secure: bool, public: bool) -> None:
    assert (connect.is_secure(url), connect.is_public(url)) == (secure, public)


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


def test_links_add_the_server_without_a_token() -> None:
    for key in ("cursor", "lmstudio"):
        link = connect.deeplink(connect.CLIENTS_BY_KEY[key], PUBLIC)
        packed = parse_qs(urlsplit(link).query)["config"][0]
        assert json.loads(base64.b64decode(packed)) == {"url": f"{PUBLIC}/mcp"}
    vscode = connect.deeplink(connect.CLIENTS_BY_KEY["vscode"], PUBLIC)
    assert json.loads(unquote(urlsplit(vscode).query)) == {"name": "toolhub", "type": "http", "url": f"{PUBLIC}/mcp"}
    goose = parse_qs(urlsplit(connect.deeplink(connect.CLIENTS_BY_KEY["goose"], PUBLIC)).query)
    assert (goose["url"], goose["type"]) == ([f"{PUBLIC}/mcp"], ["streamable_http"])
    assert connect.deeplink(connect.CLIENTS_BY_KEY["curl"], PUBLIC) == ""
