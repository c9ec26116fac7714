from __future__ import annotations

import asyncio
import contextlib
import datetime
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from django.utils import translation

from toolhub import egress
from toolhub.egress import Denied, EgressError, TooLarge, Unreachable, connections
from toolhub.egress.client import _Unpacker

TIMEOUT_SECONDS = 30.0


async def no_name(host: str, port: int) -> Sequence[str]:
    raise AssertionError(f"{host} is an address, or must not be looked up")


# --- addresses -----------------------------------------------------------------------------------------------------

NASTY = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.254",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.8",
    "192.0.0.9",
    "192.0.0.170",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::8.8.8.8",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::8.8.8.8",
    "64:ff9b:1::a00:1",
    "100::1",
    "2001::1",
    "2001:0:7f00:1::",
    "2001:10::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a00:1::1",
    "3fff::1",
    "5f00::1",
    "fc00::1",
    "fd12:3456:789a::1",
    "fe80::1",
    "fe80::1%lo",
    "2606:4700::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "localhost",
    "127.1",
    "0x7f000001",
    "2130706433",
    "0177.0.0.1",
    "",
]


@pytest.mark.parametrize("address", NASTY)
def test_an_address_that_is_not_public_is_denied(address: str) -> None:
    with pytest.raises(Denied):
        egress.check_address(address, 443)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "93.184.216.34", "::ffff:8.8.8.8", "2606:4700:4700::1111", "2001:4860:4860::8888"],
)
def test_a_public_address_is_not_denied(address: str) -> None:
    try:
        egress.check_address(address, 443)
    except Denied as denied:
        raise AssertionError(f"{address}: {denied}") from denied


def test_a_listed_network_is_open_on_its_port_only() -> None:
    allowed = egress.parse_allowed(["10.1.0.0/16:8080", "fd00::/8", "[fe80::/10]:443", "127.0.0.1:9000"])
    egress.check_address("10.1.2.3", 8080, allowed)
    egress.check_address("::ffff:10.1.2.3", 8080, allowed)
    egress.check_address("fd00::5", 1, allowed)
    egress.check_address("fe80::5", 443, allowed)
    egress.check_address("127.0.0.1", 9000, allowed)
    for address, port in [
        ("10.1.2.3", 80),
        ("10.2.2.3", 8080),
        ("fe80::5", 444),
        ("fe80::5%lo", 443),
        ("127.0.0.2", 9000),
        ("64:ff9b::a01:203", 8080),
    ]:
        with pytest.raises(Denied):
            egress.check_address(address, port, allowed)


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "localhost",
        "10.0.0.0/33",
        "10.0.0.1/8",
        "10.0.0.0/8:",
        "10.0.0.0/8:0",
        "10.0.0.0/8:65536",
        "10.0.0.0/8:http",
        "10.0.0.0/8:-1",
        "10.0.0.0/8:٨٠",
        "[fd00::/8",
        "[fd00::/8]:x",
        "fd00::/8:443",
        "10.0.0.0/8 8080",
    ],
)
def test_a_network_that_cannot_be_read_is_named(entry: str) -> None:
    with pytest.raises(ValueError) as caught:
        egress.parse_allowed(["10.0.0.0/8", entry])
    assert repr(entry) in str(caught.value)


def test_an_error_is_english_for_callers_and_the_audit_log_and_in_the_active_language_for_a_page() -> None:
    with translation.override("zh-hans"):
        with pytest.raises(egress.DeniedAddress) as denied:
            egress.check_address("10.0.0.1", 80)
        with pytest.raises(egress.Denied) as refused:
            egress.safe_path_value([])
        pages = [denied.value.localized_message, refused.value.localized_message]
    why = (
        "10.0.0.1 is not a public address. Add its network to TOOLHUB_ALLOW_PRIVATE_NETWORKS (for example "
        "10.1.2.0/24:8080) and restart"
    )
    assert str(denied.value) == "toolhub blocks requests to this address"
    assert denied.value.reason == why and denied.value.explanation == f"{denied.value}: {why}"
    assert str(refused.value) == "a value in a path must be text or a number"
    assert pages == [
        "toolhub 已阻止向此地址发送请求：10.0.0.1 不是公网地址。请将它所在的网络加入 "
        "TOOLHUB_ALLOW_PRIVATE_NETWORKS（例如 10.1.2.0/24:8080）并重启",
        "路径中的值必须是文本或数字",
    ]
    assert [denied.value.localized_message, refused.value.localized_message] == [
        denied.value.explanation,
        str(refused.value),
    ]


# --- URLs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "javascript:alert(1)",
        "unix:///var/run/docker.sock",
        "http://",
        "http:///path",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://:secret@example.com/",
        "http://@example.com/",
        "http://example.com@127.0.0.1/",
        "http://example.com\\@127.0.0.1/",
        "http://exam ple.com/",
        "http://example.com/a b",
        "http://example.com/\r\nHost: x",
        "http://example.com/\x00",
        "http://example.com:99999/",
        "http://example.com:port/",
        "http://[::1/",
        "http://[fe80::1%25lo]/",
        "http://[fe80::1%lo]/",
        "http://0x7f.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://134744072/",
        "http://127.1/",
        "http://127.0.1/",
        "http://0177.0.0.1/",
        "http://08.8.8.8/",
        "http://1.2.3.4.5/",
        "http://1.1.1.1./",
        "http://256.1.1.1/",
        "http://example.0x1/",
        "http://①②⑦.⓪.⓪.①/",
        "http://example.com/" + "a" * 9000,
    ],
)
async def test_a_url_that_readers_could_take_for_different_places_is_denied(url: str) -> None:
    with pytest.raises(Denied):
        egress.parse_url(url)
    with pytest.raises(Denied):
        await egress.fetch("GET", url, timeout=TIMEOUT_SECONDS, max_bytes=10, resolver=no_name)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://[::1]/", "http://[::ffff:7f00:1]/", "http://localhost/"]
)
async def test_this_machine_is_denied_without_being_listed(url: str) -> None:
    with pytest.raises(Denied):
        await egress.fetch("GET", url, timeout=TIMEOUT_SECONDS, max_bytes=10, resolver=egress.NameResolver().resolve)


@pytest.mark.parametrize(
    "value",
    ["", ".", "..", "a/b", "/", "..\\", "a\\b", "a\x00", "a\nb", None, [], {}, b"a"],
    ids=repr,
)
def test_a_path_value_that_could_name_another_segment_is_denied(value: object) -> None:
    with pytest.raises(Denied):
        egress.safe_path_value(value)


@pytest.mark.parametrize(
    ("value", "quoted"),
    [("a", "a"), ("a b?c#d", "a%20b%3Fc%23d"), ("%2e%2e", "%252e%252e"), ("...", "..."), (5, "5"), (True, "true")],
)
def test_a_path_value_is_quoted_whole(value: object, quoted: str) -> None:
    assert egress.safe_path_value(value) == quoted


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1/../admin",
        "https://api.example.com/v1/../../v1x",
        "https://api.example.com/v10",
        "https://api.example.com/",
        "https://api.example.com:8443/v1/a",
        "http://api.example.com/v1/a",
        "https://api.example.com.evil.test/v1/a",
        "https://evil.test/v1/a",
    ],
)
def test_a_filled_url_cannot_leave_its_base(url: str) -> None:
    with pytest.raises(Denied):
        egress.ensure_below("https://api.example.com/v1/", url)


@pytest.mark.parametrize("url", ["https://api.example.com/v1", "https://API.example.com:443/v1/users/..%2f?q=../.."])
def test_a_filled_url_below_its_base_passes(url: str) -> None:
    assert egress.ensure_below("https://api.example.com/v1/", url).startswith("https://api.example.com/v1")


# --- a server to talk to -------------------------------------------------------------------------------------------


@dataclass
class Exchange:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self, body: bytes = b"", status: str = "200 OK", *lines: str) -> None:
        head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *lines, "", ""]
        self.writer.write("\r\n".join(head).encode() + body)
        await self.writer.drain()


@dataclass
class LocalServer:
    """A server on 127.0.0.1 that answers with `handler` and tells what it saw."""

    handler: Callable[[Exchange], Awaitable[None]] = lambda exchange: exchange.answer(b"hello")
    port: int = 0
    connections: int = 0
    tasks: list[asyncio.Task[None] | None] = field(default_factory=list)
    seen: list[Exchange] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    pools: egress.ConnectionPools = field(default_factory=egress.ConnectionPools)

    @property
    def allowed(self) -> egress.AllowList:
        return egress.parse_allowed([f"127.0.0.0/8:{self.port}"])

    def url(self, path: str = "/", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def fetch(self, path: str = "/", **options: Any) -> egress.Reply:
        settings = {
            "timeout": TIMEOUT_SECONDS,
            "max_bytes": 10_000,
            "allowed": self.allowed,
            "pools": self.pools,
            "resolver": no_name,
            **options,
        }
        return await egress.fetch(settings.pop("method", "GET"), self.url(path), **settings)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").strip().split("\r\n")
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, path, _ = first.split(" ")
                exchange = Exchange(method, path, headers, body, reader, writer)
                self.seen.append(exchange)
                self.asked.set()
                await self.handler(exchange)
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            self.left.set()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def start(self, context: ssl.SSLContext | None = None) -> asyncio.Server:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def stop(self, server: asyncio.Server) -> None:
        server.close()
        await self.pools.close()
        await asyncio.gather(*filter(None, self.tasks), return_exceptions=True)


@pytest.fixture
async def local() -> AsyncIterator[LocalServer]:
    made = LocalServer()
    server = await made.start()
    yield made
    await made.stop(server)


def make_resolver(**addresses: Sequence[str]) -> Callable[[str, int], Awaitable[Sequence[str]]]:
    """A resolver that knows only these names, written with underscores for dots."""
    table = {name.replace("_", "."): found for name, found in addresses.items()}

    async def resolver(host: str, port: int) -> Sequence[str]:
        return table[host]

    return resolver


# --- where a request goes ------------------------------------------------------------------------------------------


async def test_one_private_address_among_public_ones_denies_the_name(local: LocalServer) -> None:
    for answer in (["93.184.216.34", "10.0.0.1"], ["10.0.0.1", "93.184.216.34"], ["127.0.0.1", "10.0.0.1"]):
        with pytest.raises(Denied) as caught:
            await egress.fetch(
                "GET",
                local.url(host="mixed.test"),
                timeout=TIMEOUT_SECONDS,
                max_bytes=10,
                allowed=local.allowed,
                resolver=make_resolver(mixed_test=answer),
            )
        assert "10.0.0.1" not in str(caught.value)
    assert local.connections == 0


async def test_a_connection_goes_to_the_address_that_was_checked_and_the_host_stays_the_name(
    local: LocalServer,
) -> None:
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["10.0.0.1"]

    options: dict[str, Any] = {
        "timeout": TIMEOUT_SECONDS,
        "max_bytes": 100,
        "allowed": local.allowed,
        "resolver": rebinding,
    }
    options["pools"] = local.pools
    reply = await egress.fetch("GET", local.url(host="rebind.test"), **options)
    assert reply.body == b"hello"
    assert asked == ["rebind.test"]
    assert local.seen[0].headers["host"] == f"rebind.test:{local.port}"
    await local.pools.close()
    with pytest.raises(Denied):
        await egress.fetch("GET", local.url(host="rebind.test"), **options)
    assert local.connections == 1


async def test_a_connection_opened_for_one_list_of_networks_is_not_there_for_another(local: LocalServer) -> None:
    await local.fetch()
    with pytest.raises(Denied):
        await local.fetch(allowed=())
    with pytest.raises(Denied):
        await local.fetch(allowed=egress.parse_allowed([f"127.0.0.0/8:{local.port + 1 if local.port < 65535 else 1}"]))


async def test_a_dead_address_gives_way_to_the_next(local: LocalServer) -> None:
    reply = await egress.fetch(
        "GET",
        local.url(host="two.test"),
        timeout=TIMEOUT_SECONDS,
        max_bytes=100,
        allowed=local.allowed,
        resolver=make_resolver(two_test=["127.0.0.2", "127.0.0.1"]),
    )
    assert reply.status == 200


async def test_redirects_are_answers_and_not_followed(local: LocalServer) -> None:
    local.handler = lambda exchange: exchange.answer(b"", "302 Found", f"Location: {local.url('/secret')}")
    reply = await local.fetch("/first")
    assert (reply.status, reply.headers["location"]) == (302, local.url("/secret"))
    assert [exchange.path for exchange in local.seen] == ["/first"]


async def test_proxies_from_the_environment_are_not_used(local: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert (await local.fetch()).body == b"hello"


async def test_a_name_that_nobody_knows_is_unreachable() -> None:
    async def unknown(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    for resolver in (unknown, make_resolver(empty_test=[])):
        with pytest.raises(Unreachable):
            await egress.fetch("GET", "http://empty.test/", timeout=TIMEOUT_SECONDS, max_bytes=10, resolver=resolver)


async def test_a_closed_port_is_unreachable(local: LocalServer) -> None:
    with pytest.raises(Unreachable):
        await egress.fetch(
            "GET",
            local.url(host="127.0.0.3"),
            timeout=TIMEOUT_SECONDS,
            max_bytes=10,
            resolver=no_name,
            allowed=local.allowed,
        )


# --- what is sent --------------------------------------------------------------------------------------------------


async def test_a_request_is_sent_as_given(local: LocalServer) -> None:
    reply = await local.fetch(
        "/a%2Fb?c=d%20e", method="POST", headers={"X-Key": "k", "content-type": "text/plain"}, content=b"body"
    )
    [seen] = local.seen
    assert (seen.method, seen.path, seen.body) == ("POST", "/a%2Fb?c=d%20e", b"body")
    assert seen.headers["x-key"] == "k"
    assert seen.headers["user-agent"].startswith("toolhub/")
    assert not seen.headers.keys() & {"cookie", "authorization"}
    assert (reply.status, reply.body) == (200, b"hello")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "internal"},
        {"content-length": "5"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"Upgrade": "websocket"},
        {"Proxy-Authorization": "x"},
        {"Accept-Encoding": "br"},
        {"X": "a\r\nHost: internal"},
        {"X": "a\nb"},
        {"X": "a\x00"},
        {"X": "é"},
        {"X:": "a"},
        {"": "a"},
        {"X Y": "a"},
    ],
    ids=repr,
)
async def test_a_header_that_could_redirect_or_split_a_request_is_denied(
    local: LocalServer, headers: dict[str, str]
) -> None:
    with pytest.raises(Denied):
        await local.fetch(headers=headers)
    assert local.connections == 0


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "GET /x", ""])
async def test_an_unusual_method_is_denied(local: LocalServer, method: str) -> None:
    with pytest.raises(Denied):
        await local.fetch(method=method)


async def test_connections_are_used_again_and_carry_no_cookies(local: LocalServer) -> None:
    local.handler = lambda exchange: exchange.answer(b"x", "200 OK", "Set-Cookie: a=b")
    await local.fetch(headers={"Authorization": "Bearer one"})
    await local.fetch()
    assert local.connections == 1
    assert not local.seen[1].headers.keys() & {"cookie", "authorization"}


async def test_idle_hosts_make_room_for_new_ones(local: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_POOLS", 2)
    for number in range(1, 6):
        resolver = make_resolver(**{f"h{number}_test": ["127.0.0.1"]})
        await egress.fetch(
            "GET",
            local.url(host=f"h{number}.test"),
            timeout=TIMEOUT_SECONDS,
            max_bytes=10,
            allowed=local.allowed,
            resolver=resolver,
            pools=local.pools,
        )
    assert len(local.pools) == 2


@pytest.mark.parametrize("pools", [None, egress.ConnectionPools()], ids=["no pools", "pools of another loop"])
def test_without_pools_of_its_own_loop_a_request_leaves_no_connection_open(
    pools: egress.ConnectionPools | None,
) -> None:
    async def once() -> None:
        made = LocalServer()
        server = await made.start()
        await made.fetch(pools=pools)
        await made.fetch(pools=pools)
        assert made.connections == 2
        await asyncio.wait_for(made.left.wait(), TIMEOUT_SECONDS)
        await made.stop(server)

    async def take(pools: egress.ConnectionPools) -> None:
        assert pools.belong_to_running_loop()

    if pools is not None:
        asyncio.run(take(pools))
    asyncio.run(once())  # an open socket left behind is a ResourceWarning, and warnings are errors here


# --- what comes back -----------------------------------------------------------------------------------------------


async def test_an_answer_is_read_whole(local: LocalServer) -> None:
    lines = ("Content-Type: Text/Plain; charset=latin-1", "X-A: 1", "x-a: 2")
    local.handler = lambda exchange: exchange.answer("é".encode("latin-1"), "404 Not Found", *lines)
    reply = await local.fetch()
    assert (reply.status, reply.media_type, reply.text, reply.headers["x-a"]) == (404, "text/plain", "é", "1, 2")


@pytest.mark.parametrize(
    "charset", ["utf-8", "UTF-8", "nonsense", "idna", "undefined", "rot13", "unicode_escape", "windows-0", "hex", ""]
)
def test_a_text_is_read_whatever_charset_it_claims(charset: str) -> None:
    reply = egress.Reply(200, {"content-type": f"text/plain; charset={charset}"}, "é\\u0041".encode(), "text/plain")
    assert reply.text == "é\\u0041"


async def test_a_head_request_has_no_body_however_large_it_would_be(local: LocalServer) -> None:
    async def handler(exchange: Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\nContent-Encoding: gzip\r\n\r\n")

    local.handler = handler
    assert (await local.fetch(method="HEAD")).body == b""


async def test_an_answer_that_announces_too_much_is_refused_before_its_body(local: LocalServer) -> None:
    async def handler(exchange: Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10001\r\n\r\n")
        await exchange.reader.read()

    local.handler = handler
    with pytest.raises(TooLarge):
        await local.fetch()


async def test_an_endless_answer_is_cut_off_and_its_connection_closed(local: LocalServer) -> None:
    async def handler(exchange: Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            exchange.writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
            await exchange.writer.drain()
            await asyncio.sleep(0)

    local.handler = handler
    with pytest.raises(TooLarge):
        await local.fetch()
    await asyncio.wait_for(local.left.wait(), TIMEOUT_SECONDS)


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate"])
async def test_a_bomb_is_stopped_before_it_is_unpacked(local: LocalServer, encoding: str) -> None:
    bomb = (zlib.compress if encoding == "deflate" else gzip.compress)(bytes(5_000_000))
    local.handler = lambda exchange: exchange.answer(bomb, "200 OK", f"Content-Encoding: {encoding}")
    with pytest.raises(TooLarge):
        await local.fetch()


def test_no_more_than_the_cap_is_ever_unpacked() -> None:
    unpacker = _Unpacker("gzip", 1000)
    with pytest.raises(TooLarge):
        unpacker.feed(gzip.compress(bytes(900_000)))
    assert len(unpacker._body) <= 1001


@pytest.mark.parametrize("members", [[b"hello"], [b"he", b"", b"llo"]])
@pytest.mark.parametrize("padding", [b"", b"\0\0"])
async def test_a_packed_answer_is_unpacked(local: LocalServer, members: list[bytes], padding: bytes) -> None:
    packed = b"".join(map(gzip.compress, members)) + padding
    local.handler = lambda exchange: exchange.answer(packed, "200 OK", "Content-Encoding: gzip")
    assert (await local.fetch()).body == b"hello"


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("br", b"x"),
        ("zstd", b"x"),
        ("gzip, gzip", b"x"),
        ("gzip", b"not gzip"),
        ("gzip", gzip.compress(bytes(500), mtime=0)[:-10]),
    ],
)
async def test_a_body_that_cannot_be_unpacked_is_an_error(local: LocalServer, encoding: str, body: bytes) -> None:
    local.handler = lambda exchange: exchange.answer(body, "200 OK", f"Content-Encoding: {encoding}")
    with pytest.raises(EgressError):
        await local.fetch()


@pytest.mark.parametrize(
    "said",
    [b"220 smtp ready\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", b"", b"HTTP/1.1 abc\r\n\r\n"],
)
async def test_a_server_that_breaks_off_or_speaks_something_else_is_unreachable(
    local: LocalServer, said: bytes
) -> None:
    async def handler(exchange: Exchange) -> None:
        exchange.writer.write(said)
        await exchange.writer.drain()
        raise OSError

    local.handler = handler
    with pytest.raises(Unreachable):
        await local.fetch()


# --- time ----------------------------------------------------------------------------------------------------------


async def miss_the_deadline(local: LocalServer, **options: Any) -> None:
    """Again, for as long as a busy machine lets the deadline pass before the request has reached the server."""
    while not local.asked.is_set():
        with pytest.raises(egress.DeadlineExceeded):
            await local.fetch(**options)
        await asyncio.sleep(0)


async def test_a_server_that_says_nothing_meets_the_deadline(local: LocalServer) -> None:
    local.handler = lambda exchange: exchange.reader.readexactly(1)  # type: ignore[assignment,return-value]
    await miss_the_deadline(local, timeout=0.3)
    await asyncio.wait_for(local.left.wait(), TIMEOUT_SECONDS)


async def test_a_body_that_drips_meets_the_total_deadline_and_loses_its_connection(local: LocalServer) -> None:
    async def handler(exchange: Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            exchange.writer.write(b"1\r\nx\r\n")
            await exchange.writer.drain()
            await asyncio.sleep(0.02)

    local.handler = handler
    await miss_the_deadline(local, timeout=0.5, max_bytes=10_000_000)
    await asyncio.wait_for(local.left.wait(), TIMEOUT_SECONDS)


async def test_a_name_that_takes_too_long_meets_the_deadline() -> None:
    async def forever(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    with pytest.raises(egress.DeadlineExceeded):
        await egress.fetch("GET", "http://slow.test/", timeout=0.2, max_bytes=10, resolver=forever)


@pytest.mark.parametrize("begun", [False, True], ids=["before the answer", "in the middle of the answer"])
async def test_cancelling_closes_the_connection(local: LocalServer, begun: bool) -> None:
    async def handler(exchange: Exchange) -> None:
        if begun:
            exchange.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
        await exchange.reader.readexactly(1)

    local.handler = handler
    task = asyncio.create_task(local.fetch())
    await asyncio.wait_for(local.asked.wait(), TIMEOUT_SECONDS)
    task.cancel("notifications/cancelled")
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(local.left.wait(), TIMEOUT_SECONDS)


async def test_a_slow_host_does_not_keep_another_waiting(local: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 2)

    async def handler(exchange: Exchange) -> None:
        if exchange.headers["host"].startswith("slow"):
            await exchange.reader.readexactly(1)
        await exchange.answer(b"quick")

    local.handler = handler
    options: dict[str, Any] = {
        "timeout": TIMEOUT_SECONDS,
        "max_bytes": 100,
        "allowed": local.allowed,
        "resolver": make_resolver(slow_test=["127.0.0.1"], quick_test=["127.0.0.1"]),
        "pools": local.pools,
    }
    slow = [asyncio.create_task(egress.fetch("GET", local.url(host="slow.test"), **options)) for _ in range(5)]
    await asyncio.wait_for(local.asked.wait(), TIMEOUT_SECONDS)
    assert (await egress.fetch("GET", local.url(host="quick.test"), **options)).body == b"quick"
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


# --- certificates --------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> Path:
    """A key and a certificate for `name`, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


async def test_the_certificate_must_be_for_the_name_and_from_a_trusted_issuer(tmp_path: Path) -> None:
    path = certificate(tmp_path, "service.test")
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(path)
    asked_for: list[str | None] = []
    server_side.sni_callback = lambda sock, name, context: asked_for.append(name)
    trusting = ssl.create_default_context(cafile=str(path))

    local = LocalServer()
    server = await local.start(server_side)
    options: dict[str, Any] = {
        "timeout": TIMEOUT_SECONDS,
        "max_bytes": 100,
        "allowed": local.allowed,
        "resolver": make_resolver(service_test=["127.0.0.1"], other_test=["127.0.0.1"]),
    }
    try:
        reply = await egress.fetch("GET", local.url("/", "service.test", "https"), ssl_context=trusting, **options)
        assert (reply.body, asked_for) == (b"hello", ["service.test"])
        for url, context in [
            (local.url("/", "other.test", "https"), trusting),
            (local.url("/", "127.0.0.1", "https"), trusting),
            (local.url("/", "service.test", "https"), None),
        ]:
            with pytest.raises(Unreachable, match="certificate"):
                await egress.fetch("GET", url, ssl_context=context, **options)
        assert len(local.seen) == 1
    finally:
        await local.stop(server)
