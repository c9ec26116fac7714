"""Hostile values through the runner of HTTP APIs: each arrives as the text it is, or is refused; and no way inside."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest

from catalog.errors import ToolError
from catalog.openapi import document_import
from catalog.runners import networks
from catalog.runners.upstream_mcp import connection
from catalog.runners.upstream_mcp.failures import UpstreamError
from catalog.upstreams import listing
from tests.catalog.local_api import Api, ask
from tests.catalog.local_api import api as api
from tests.process import replace_part
from tests.test_egress import NASTY
from toolhub import egress
from toolhub.egress import NameResolver

PAYLOADS = [
    "../admin",
    "..",
    ".",
    "..%2fadmin",
    "%2e%2e%2fadmin",
    "%252e%252e%252f",
    "..\\admin",
    "....//....//admin",
    "/etc/passwd",
    "//evil.test/",
    "http://evil.test/",
    "\\\\evil.test\\share",
    "@evil.test",
    ":80@evil.test/",
    "x#fragment",
    "x?admin=1",
    "x&admin=1",
    "x;admin=1",
    "x=1&role=admin",
    "x%26role%3dadmin",
    "x%00.json",
    "x\x00.json",
    "x\r\nX-Admin: yes",
    "x\nX-Admin: yes",
    "x\rX-Admin: yes",
    "x\r\n\r\nGET /admin HTTP/1.1\r\nHost: evil.test\r\n\r\n",
    "x%0d%0aX-Admin:%20yes",
    "x HTTP/1.1\r\nX-Admin: yes",
    "\u560a\u560dX-Admin: yes",
    "' OR '1'='1",
    '" OR ""="',
    "'; DROP TABLE users; --",
    '"}, "role": "admin", "x": {"',
    '\\", "role": "admin',
    "${jndi:ldap://evil.test/a}",
    "{{7*7}}",
    "{city}",
    "$(id)",
    "`id`",
    "| id",
    "<script>alert(1)</script>",
    "<!ENTITY x SYSTEM 'file:///etc/passwd'>",
    "--boundary--",
    "\u202egnp.exe",
    "\ufeffx",
    "\ud800",
    "\x1b[31mred",
    "\x7f",
    " ",
    "",
    "💥" * 10,
    "a" * 2000,
]


def replace_surrogates(payload: str) -> str:
    """The text itself: a lone surrogate has no bytes and is sent as U+FFFD."""
    return payload.replace("\ud800", "\ufffd")


async def send_payload(api: Api, payload: str, **settings: Any) -> Any:
    """What the server saw of the one request, or None when nothing was sent."""
    api.seen.clear()
    api.bodies.clear()
    settings = {"retries": 0, "break_after": 0, **settings}
    try:
        await ask({"url": f"{api.url}/v1/x", "response": "text", **settings}, value=payload)
    except ToolError:
        assert api.seen == [], payload
        return None
    assert len(api.seen) == 1, payload
    got = api.seen[0]
    assert "x-admin" not in got["headers"] and got["headers"]["host"] == api.url.removeprefix("http://"), payload
    return got


async def test_the_list_is_long_enough() -> None:
    assert len(PAYLOADS) == len(set(PAYLOADS)) >= 40


async def test_in_the_path(api: Api) -> None:
    arrived = 0
    for payload in PAYLOADS:
        got = await send_payload(api, payload, url=f"{api.url}/v1/users/{{value}}/notes")
        if got is not None:
            arrived += 1
            start, _, rest = got["path"].partition("/v1/users/")
            segment, slash, end = rest.partition("/")
            assert (start, unquote(segment), slash + end) == ("", replace_surrogates(payload), "/notes"), payload
            assert got["query"] == []
        else:
            assert payload in ("", ".", "..") or set(payload) & set("/\\\r\n\x00\x1b\x7f"), payload
    assert arrived > 20


async def test_in_the_query(api: Api) -> None:
    for payload in PAYLOADS:
        got = await send_payload(api, payload, query={"q": "value"}, static_query={"role": "user"})
        assert (got["path"], got["query"]) == ("/v1/x", [("role", "user"), ("q", replace_surrogates(payload))])


async def test_in_a_header(api: Api) -> None:
    arrived = 0
    for payload in PAYLOADS:
        got = await send_payload(api, payload, headers={"X-Value": "value"})
        if got is not None:
            arrived += 1
            assert got["headers"]["x-value"] == payload.strip()
        else:
            assert not payload.isascii() or any(ord(letter) < 32 or ord(letter) == 127 for letter in payload)
    assert arrived > 20


async def test_in_a_cookie(api: Api) -> None:
    for payload in PAYLOADS:
        got = await send_payload(api, payload, cookies={"c": "value"}, static_cookies={"role": "user"})
        if got is not None:
            assert got["headers"]["cookie"] == f"role=user; c={payload}"
            assert not set(payload) & set('; ,"\\')


async def test_in_a_json_body(api: Api) -> None:
    fixed = {"role": "user"}
    for payload in PAYLOADS:
        got = await send_payload(api, payload, method="POST", body={"name": "value"}, static_body=fixed)
        assert json.loads(api.bodies[0]) == {"name": replace_surrogates(payload), "role": "user"}
        assert got["headers"]["content-length"] == str(len(api.bodies[0]))


async def test_in_a_form(api: Api) -> None:
    for payload in PAYLOADS:
        form = {"method": "POST", "body_format": "form", "body": {"name": "value"}, "static_body": {"role": "user"}}
        await send_payload(api, payload, **form)
        found = parse_qsl(api.bodies[0].decode(), keep_blank_values=True)
        assert found == [("name", replace_surrogates(payload)), ("role", "user")]


async def test_in_a_multipart_body(api: Api) -> None:
    for payload in PAYLOADS:
        form = {
            "method": "POST",
            "body_format": "multipart",
            "body": {"name": "value"},
            "static_body": {"role": "user"},
        }
        got = await send_payload(api, payload, **form)
        boundary = got["headers"]["content-type"].partition("boundary=")[2].encode()
        parts = api.bodies[0].split(b"--" + boundary)
        assert len(parts) == 4 and parts[3] == b"--\r\n"
        head, _, content = parts[1].partition(b"\r\n\r\n")
        assert head == b'\r\nContent-Disposition: form-data; name="name"'
        assert content == replace_surrogates(payload).encode() + b"\r\n"


async def test_as_text_as_bytes_and_as_names_of_arguments(api: Api) -> None:
    for payload in PAYLOADS:
        whole = {"method": "POST", "body_argument": "value"}
        await send_payload(api, payload, **whole, body_format="text")
        assert api.bodies[0] == replace_surrogates(payload).encode()
        data = base64.b64encode(replace_surrogates(payload).encode()).decode()
        await send_payload(api, data, **whole, body_format="base64")
        assert api.bodies[0] == replace_surrogates(payload).encode()
    answer = await ask({"method": "POST", "url": f"{api.url}/", "body": "*"}, **dict.fromkeys(PAYLOADS, 1))
    assert json.loads(answer["body"]) == {replace_surrogates(name): 1 for name in PAYLOADS}


# --- no way to a private address -------------------------------------------------------------------------------------

TRICKS = [
    "http://user@{host}/",
    "http://public.test@{host}/",
    "http://public.test\\@{host}/",
    "http://{host}\\.public.test/",
    "http://{host}%2f.public.test/",
    "http://0x7f000001:{port}/",
    "http://0x7f.1:{port}/",
    "http://2130706433:{port}/",
    "http://0177.0.0.1:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "http://127.0.0.1.:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[0:0:0:0:0:ffff:7f00:0001]:{port}/",
    "http://[::1%25lo]:{port}/",
    "http://{host}\t/",
    "http:///{host}/",
    "ftp://{host}/",
    "file:///etc/passwd",
    "gopher://{host}/_x",
]


class PrivateServer(Api):
    """What listens on the private side and must hear nothing; `port` answers on every address of this machine."""

    port = 0
    connected = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connected += 1
        await super().serve(reader, writer)


@pytest.fixture
async def inside() -> AsyncIterator[PrivateServer]:
    made = PrivateServer()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    made.url = f"http://127.0.0.1:{made.port}"
    yield made
    server.close()


@pytest.fixture
def dns_answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """What DNS says: for each name its answers, one after the other; the last one stays."""
    found: dict[str, list[list[str]]] = {}
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host not in found:
            return real(host, port, *args, **options)
        answers = found[host]
        now = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in now]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    replace_part(monkeypatch, NameResolver(keep_seconds=0))
    return found


SENTENCE = "The request failed: toolhub blocks requests to this address."
"""What every caller reads, whatever the reason is: which one it was would tell about the network in here."""


async def get_refusal(url: str, **settings: Any) -> str:
    """What is logged; the caller reads the one sentence. Settings that are not even saved say it with the reason."""
    with pytest.raises((ToolError, ValueError)) as caught:
        await ask({"url": url, "retries": 0, "break_after": 0, "response": "text", **settings})
    if isinstance(caught.value, ToolError):
        assert str(caught.value) == SENTENCE, url
        return caught.value.audit_message
    assert str(caught.value).startswith("url: toolhub blocks requests to this address: "), (url, str(caught.value))
    return str(caught.value)


async def get_fetch_refusal(url: str) -> str:
    """What `fetch` itself says, where no settings were checked before: as for a tool that was stored past them."""
    with pytest.raises(egress.DeniedAddress) as caught:
        await egress.fetch("GET", url, timeout=30, max_bytes=100, resolver=networks.resolver())
    return str(caught.value)


async def test_no_literal_and_no_trick_leads_inside(inside: PrivateServer, settings: Any) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = []
    literals = [f"http://{f'[{ip}]' if ':' in ip else ip}:{inside.port}/" for ip in NASTY if ip]
    tricks = [trick.format(host=f"127.0.0.1:{inside.port}", port=inside.port) for trick in TRICKS]
    assert len(literals) + len(tricks) >= 60
    for url in literals:
        said = await get_refusal(url)
        assert (
            "public address" in said or "not a URL" in said or "interface" in said or "is not a valid address" in said
        ), url
    for url in tricks:
        await get_refusal(url)
    assert {await get_fetch_refusal(url) for url in (*literals, *tricks)} == {"toolhub blocks requests to this address"}
    assert inside.connected == 0


async def test_no_name_leads_inside_whatever_dns_says(
    inside: PrivateServer, settings: Any, dns_answers: dict[str, list[list[str]]]
) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = ["127.0.0.2/32"]
    public = "93.184.216.34"
    tables = [[ip] for ip in NASTY if ip.count(".") == 3 and ":" not in ip]
    tables += [[public, ip] for ip in ("127.0.0.1", "10.0.0.1", "169.254.169.254")]
    tables += [[ip, public] for ip in ("127.0.0.1", "::1", "::ffff:127.0.0.1")]
    tables += [["127.0.0.2", "127.0.0.1"], ["127.0.0.1", "127.0.0.2"]]
    assert len(tables) >= 30
    for number, table in enumerate(tables):
        dns_answers[f"n{number}.test"] = [table]
        said = await get_refusal(f"http://n{number}.test:{inside.port}/")
        assert f": n{number}.test does not resolve to a public address. Add its network to " in said, table
    assert inside.connected == 0


async def test_a_name_that_changes_between_two_calls_leads_nowhere_new(
    inside: PrivateServer, settings: Any, dns_answers: dict[str, list[list[str]]]
) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = ["127.0.0.2/32"]
    outside = Api()
    server = await asyncio.start_server(outside.serve, "127.0.0.2", inside.port)
    url = f"http://rebinding.test:{inside.port}/"
    dns_answers["rebinding.test"] = [["127.0.0.2"], ["127.0.0.1"]]
    assert (await ask({"url": url}))["headers"]["host"] == f"rebinding.test:{inside.port}"
    assert "does not resolve to a public address" in await get_refusal(url)
    server.close()
    assert (inside.connected, len(outside.seen)) == (0, 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_leads_nowhere(inside: PrivateServer, settings: Any, status: int) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = ["127.0.0.2/32"]
    outside = Api()
    outside.answers["/"] = (status, "text/plain", b"")
    server = await asyncio.start_server(outside.serve, "127.0.0.2", 0)
    url = f"http://127.0.0.2:{server.sockets[0].getsockname()[1]}/"
    for target in (inside.url, f"//127.0.0.1:{inside.port}/", f"http://localhost:{inside.port}/", "file:///etc/passwd"):
        outside.elsewhere = target
        for method in ("GET", "POST"):
            assert "redirect" in await get_refusal(url, method=method)
    server.close()
    assert (inside.connected, len(outside.seen)) == (0, 8)


async def test_a_listed_network_is_reached_on_its_port_only(inside: PrivateServer, settings: Any) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = [f"127.0.0.0/30:{inside.port + 1}"]
    assert "Add its network to TOOLHUB_ALLOW_PRIVATE_NETWORKS" in await get_refusal(inside.url + "/")
    assert inside.connected == 0
    settings.ALLOW_PRIVATE_NETWORKS = [f"127.0.0.0/30:{inside.port}"]
    assert (await ask({"url": f"{inside.url}/x"}))["path"] == "/x"
    assert inside.connected == 1


async def test_importing_a_document_and_testing_an_upstream_are_refused_with_the_same_words(
    inside: PrivateServer, settings: Any, dns_answers: dict[str, list[list[str]]]
) -> None:
    outside = Api()
    outside.answers["/"] = (302, "text/plain", b"")
    outside.elsewhere = inside.url
    server = await asyncio.start_server(outside.serve, "127.0.0.2", 0)
    settings.ALLOW_PRIVATE_NETWORKS = ["127.0.0.2/32"]
    dns_answers["name.test"], dns_answers["mixed.test"] = [["127.0.0.1"]], [["127.0.0.2", "127.0.0.1"]]
    forms = [f"http://{host}:{inside.port}/" for host in ("127.0.0.1", "localhost", "name.test", "mixed.test")]
    forms += [f"http://[::ffff:127.0.0.1]:{inside.port}/"]
    moved = f"http://127.0.0.2:{server.sockets[0].getsockname()[1]}/"
    for url in [*forms, moved]:
        with pytest.raises(document_import.DocumentImportError) as not_fetched:
            await asyncio.to_thread(document_import.fetch, url)
        said = "The document cannot be fetched: toolhub blocks requests to this address: "
        if url == moved:  # who imports learns of the redirect, and not where it leads
            said = "The document cannot be fetched: the address answers with a redirect (status 302). "
            assert str(inside.port) not in str(not_fetched.value)
        assert str(not_fetched.value).startswith(said), url
        with pytest.raises(UpstreamError) as not_reached:
            await listing.list_items(connection.parse({"upstream": 1, "name": "it", "url": url}), {})
        said = "The upstream server it cannot be reached: toolhub blocks requests to this address."
        assert str(not_reached.value) == said, url
    server.close()
    assert inside.connected == 0
