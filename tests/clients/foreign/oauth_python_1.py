"""The official Python SDK 1.x signs in: it writes what a browser should open, and reads where that was sent."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
import warnings
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp import ClientSession
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata

warnings.simplefilter("ignore", DeprecationWarning)


def read():
    return json.loads(sys.stdin.readline())


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Storage:
    tokens = client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


async def main():
    task, storage, scopes, asked = read(), Storage(), [], []

    async def open_browser(url):
        asked.append(url)
        write({"open": url})

    async def wait():
        sent = parse_qs(urlsplit((await asyncio.to_thread(read))["sent"]).query)
        return sent["code"][0], sent["state"][0]

    metadata = OAuthClientMetadata(
        client_name="Python SDK 1", redirect_uris=[task["redirect"]], token_endpoint_auth_method="none"
    )
    provider = OAuthClientProvider(task["url"], metadata, storage, open_browser, wait)
    trust = ssl.create_default_context(cafile=os.environ["TEST_CA_FILE"])
    async with (
        httpx.AsyncClient(auth=provider, verify=trust, timeout=60) as http,
        streamable_http_client(task["url"], http_client=http) as (reader, writer, _),
        ClientSession(reader, writer) as session,
    ):
        await session.initialize()
        tools = (await session.list_tools()).tools
        total = await session.call_tool("add", {"a": 1, "b": 2})
        scopes.append(storage.tokens.scope)
        other = await session.call_tool("echo", {"text": "hello"})
        scopes.append(storage.tokens.scope)
    done = {
        "tools": [tool.name for tool in tools],
        "sum": total.content[0].text,
        "echo": other.content[0].text,
        "scopes": scopes,
        "asked": len(asked),
    }
    write({"done": done})


asyncio.run(main())
