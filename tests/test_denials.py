"""Every way to be refused at /mcp: what was sent, what is answered, and what is logged.

A row of the audit log is written for every attempt to call a tool, however early it is refused, and for nothing else.
"""

# ruff: noqa: E501  (a table is read in lines)

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import settings as configured
from django.contrib.auth.models import User
from django.utils import timezone

from audit.models import Call
from tests import factories
from tests.server.conftest import hub as hub
from tests.server.conftest import refresh_catalogue
from tests.transports.conftest import META, MODERN, Person, run_in_database
from tests.transports.conftest import person as person
from tests.transports.conftest import publish as publish
from tests.transports.conftest import wire as wire
from tests.transports.wire import Parts, Request, Wire
from toolhub.access.models import AccessToken

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("hub")]

REGION = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


@dataclass
class World:
    """alice may call `t_add` (two numbers), `t_region` (a mirrored parameter) and `t_limited` (once a day);
    bob may call nothing."""

    wire: Wire
    alice: Person
    bob: Person
    unusable_tokens: dict[str, str]

    async def raw(self, body: bytes, **headers: Any) -> Request:
        """Bytes within alice's session."""
        return await self.alice.post(body, **headers)

    async def call(self, tool: str, arguments: Any = None, **headers: Any) -> Request:
        return await self.alice.modern("tools/call", {"name": tool, "arguments": arguments or {}}, **headers)

    async def call_in_session(self, tool: Any, arguments: Any = None, **headers: Any) -> Request:
        """Within alice's session, with whatever as arguments."""
        params = {"name": tool} | ({} if arguments is None else {"arguments": arguments})
        return await self.alice.request("tools/call", params, **headers)


@dataclass
class Row:
    what: str
    send: Callable[[World], Awaitable[Request]]
    status: int
    code: int | None = None
    """Of the JSON-RPC error; None where the answer is a result."""
    outcome: str = ""
    """The outcome logged; empty when nothing is."""
    contains: str = ""


def call_body(**more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", **more}).encode()


ADD = {"name": "t_add", "arguments": {"a": 1, "b": 2}}
NO_ENVELOPE: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ADD}

GUARD = [
    Row("a foreign host", lambda w: w.call("t_add", host="evil.example.com"), 400, -32600),
    Row("no host", lambda w: w.call("t_add", host=None), 400, -32600),
    Row("a host with a path in it", lambda w: w.call("t_add", host="localhost/evil"), 400, -32600),
    Row("two hosts", lambda w: send_header_twice(w, "host", "localhost"), 400, -32600),
    Row("a foreign origin", lambda w: w.call("t_add", origin="https://evil.example.com"), 403, -32600),
    Row("an origin that is nobody", lambda w: w.call("t_add", origin="null"), 403, -32600),
    Row("an origin that looks like ours", lambda w: w.call("t_add", origin="http://localhost@evil.com"), 403, -32600),
    Row("an origin with our name in front", lambda w: w.call("t_add", origin="http://localhost.evil.com"), 403, -32600),
    Row("an unknown method", lambda w: w.wire.send("PUT", w.alice.plain(), b"{}"), 405, -32600, contains="PUT"),
    Row("a form", lambda w: w.raw(b"a=b", content_type="application/x-www-form-urlencoded"), 415, -32600),
    Row("plain text", lambda w: w.raw(call_body(), content_type="text/plain"), 415, -32600),
    Row("no content type", lambda w: w.raw(call_body(), content_type=None), 415, -32600),
    Row("another charset", lambda w: w.raw(call_body(), content_type="application/json; charset=latin-1"), 415, -32600),
    Row("two content types", lambda w: send_header_twice(w, "content-type", "application/json"), 400, -32600),
    Row("a body that claims to be compressed", lambda w: w.raw(call_body(), content_encoding="gzip"), 415, -32600),
    Row("a body with two encodings", lambda w: w.raw(call_body(), content_encoding="identity, br"), 415, -32600),
    Row("neither answer accepted", lambda w: w.raw(call_body(), accept="text/plain"), 406, -32600),
    Row("a body announced too large", lambda w: w.raw(b"{}", content_length="999999999"), 413, -32600),
    Row("a length that is none", lambda w: w.raw(b"{}", content_length="many"), 400, -32600),
    Row("a body that is too large", lambda w: send_too_large(w), 413, -32600),
    Row("a GET stream at the stateless revision", lambda w: w.alice.wire.send("GET", w.alice.plain(mcp_protocol_version=MODERN)), 405, -32600),
    Row("a DELETE at the stateless revision", lambda w: w.alice.wire.send("DELETE", w.alice.plain(mcp_protocol_version=MODERN)), 405, -32600),
    Row("a GET that accepts no stream", lambda w: w.alice.listen(accept="application/json").answer(), 406, -32600),
]  # fmt: skip

TOKEN = [
    Row("no token", lambda w: w.call("t_add", authorization=None), 401, -32600),
    Row("an unknown token", lambda w: w.call("t_add", authorization="Bearer thp_" + "x" * 43), 401, -32600),
    Row("a token that looks like none", lambda w: w.call("t_add", authorization="Bearer hunter2"), 401, -32600),
    Row("another scheme", lambda w: w.call("t_add", authorization="Digest " + w.alice.token), 401, -32600),
    Row("a password", lambda w: w.call("t_add", authorization="Basic YWxpY2U6YWxpY2U="), 401, -32600),
    Row("a revoked token", lambda w: w.call("t_add", authorization="Bearer " + w.unusable_tokens["revoked"]), 401, -32600),
    Row("an expired token", lambda w: w.call("t_add", authorization="Bearer " + w.unusable_tokens["expired"]), 401, -32600),
    Row("a token of an inactive user", lambda w: w.call("t_add", authorization="Bearer " + w.unusable_tokens["inactive"]), 401, -32600),
    Row("two tokens", lambda w: send_header_twice(w, "authorization", "Bearer " + w.bob.token), 400, -32600),
    Row("a cookie alone", lambda w: w.call("t_add", authorization=None, cookie="toolhub_session=x"), 401, -32600),
]  # fmt: skip

PARSER = [
    Row("nothing", lambda w: w.raw(b""), 400, -32700),
    Row("no JSON", lambda w: w.raw(b"{]"), 400, -32700),
    Row("two messages", lambda w: w.raw(call_body() + call_body()), 400, -32700),
    Row("a byte order mark", lambda w: w.raw(b"\xef\xbb\xbf" + call_body()), 400, -32700),
    Row("UTF-16", lambda w: w.raw(call_body().decode().encode("utf-16")), 400, -32700),
    Row("broken UTF-8", lambda w: w.raw(call_body(method="\xff").replace(b"\\u00ff", b"\xff")), 400, -32700),
    Row("NaN", lambda w: w.raw(b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":NaN}}'), 400, -32700),
    Row("a number beyond all bounds", lambda w: w.raw(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"x":1e999}}'), 400, -32700),
    Row("a member twice", lambda w: w.raw(b'{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/list"}'), 400, -32700),
    Row("an unpaired surrogate", lambda w: w.raw(b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}'), 400, -32700),
    Row("very deep nesting", lambda w: w.raw(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"x":' + b"[" * 5000 + b"]" * 5000 + b"}}"), 400, -32700),
    Row("a number of 5,000 digits", lambda w: w.raw(b'{"jsonrpc":"2.0","id":' + b"1" * 5000 + b',"method":"x"}'), 400, -32700),
    Row("a text", lambda w: w.raw(b'"tools/list"'), 400, -32600),
    Row("null", lambda w: w.raw(b"null"), 400, -32600),
]  # fmt: skip

MESSAGE = [
    Row("another JSON-RPC", lambda w: w.raw(call_body(jsonrpc="1.0")), 400, -32600),
    Row("no method", lambda w: w.raw(b'{"jsonrpc":"2.0","id":1}'), 400, -32600),
    Row("a method that is a number", lambda w: w.raw(call_body(method=5)), 400, -32600),
    Row("an id that is null", lambda w: w.raw(call_body(id=None)), 400, -32600),
    Row("an id that is a fraction", lambda w: w.raw(call_body(id=1.5)), 400, -32600),
    Row("an id that is true", lambda w: w.raw(call_body(id=True)), 400, -32600),
    Row("params that are a list", lambda w: w.raw(call_body(params=[1])), 400, -32602),
    Row("a method and a result", lambda w: w.raw(call_body(result={})), 400, -32600),
    Row("a result and an error", lambda w: w.raw(b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}'), 400, -32600),
    Row("a batch", lambda w: w.raw(b"[" + call_body() + b"]"), 400, -32600, contains="batch"),
    Row("an unknown method", lambda w: w.alice.request("tools/frobnicate"), 200, -32601),
    Row("a method of the other era", lambda w: w.alice.request("server/discover"), 200, -32601),
]  # fmt: skip

ENVELOPE = [
    Row("no `_meta`", lambda w: send_modern_body(w, NO_ENVELOPE), 400, -32602, "refused"),
    Row("no version in `_meta`", lambda w: w.alice.modern("tools/list", {"_meta": {f"{META}clientCapabilities": {}}}), 400, -32602),
    Row("no capabilities in `_meta`", lambda w: w.alice.modern("tools/list", {"_meta": {f"{META}protocolVersion": MODERN}}), 400, -32602),
    Row("capabilities that are a list", lambda w: w.alice.modern("tools/list", meta={f"{META}clientCapabilities": []}), 400, -32602),
    Row("a version that does not exist", lambda w: w.alice.modern("tools/list", meta={f"{META}protocolVersion": "v9"}, mcp_protocol_version="v9"), 400, -32022),
    Row("a handshake version in the envelope", lambda w: w.alice.modern("tools/list", meta={f"{META}protocolVersion": "2025-11-25"}), 400, -32020),
    Row("another version in the header", lambda w: w.alice.modern("tools/list", mcp_protocol_version="v9"), 400, -32020),
    Row("no version header", lambda w: w.call("t_add", {"a": 1, "b": 2}, mcp_protocol_version=None), 400, -32020, "refused"),
    Row("no Mcp-Method", lambda w: w.alice.modern("tools/list", mcp_method=None), 400, -32020),
    Row("another Mcp-Method", lambda w: w.alice.modern("tools/list", mcp_method="prompts/list"), 400, -32020),
    Row("Mcp-Method in capitals", lambda w: w.alice.modern("tools/list", mcp_method="TOOLS/LIST"), 400, -32020),
    Row("no Mcp-Name", lambda w: w.call("t_add", {"a": 1, "b": 2}, mcp_name=None), 400, -32020, "refused"),
    Row("another Mcp-Name", lambda w: w.call("t_add", {"a": 1, "b": 2}, mcp_name="t_region"), 400, -32020, "refused"),
    Row("Mcp-Method twice", lambda w: send_modern_header_twice(w, "mcp-method", "tools/list"), 400, -32600),
    Row("a mirrored parameter without its header", lambda w: w.call("t_region", {"region": "eu"}), 400, -32020, "refused"),
    Row("a mirrored parameter with another value", lambda w: w.call("t_region", {"region": "eu"}, mcp_param_region="us"), 400, -32020, "refused"),
    Row("a mirrored parameter in broken Base64", lambda w: w.call("t_region", {"region": "eu"}, mcp_param_region="=?base64?ZX!?="), 400, -32020, "refused"),
    Row("an unknown method", lambda w: w.alice.modern("tools/frobnicate"), 404, -32601),
    Row("a method of the other era", lambda w: w.alice.modern("initialize"), 404, -32601),
    Row("a response", lambda w: send_modern_body(w, {"jsonrpc": "2.0", "id": 1, "result": {}}), 400, -32600),
    Row("a batch", lambda w: send_modern_body(w, [NO_ENVELOPE]), 400, -32600),
]  # fmt: skip

SESSION = [
    Row("a call without a session", lambda w: w.call_in_session("t_add", ADD["arguments"], mcp_session_id=None), 400, -32600, "refused"),
    Row("a list without a session", lambda w: w.alice.request("tools/list", mcp_session_id=None), 400, -32600),
    Row("a session nobody gave out", lambda w: w.call_in_session("t_add", ADD["arguments"], mcp_session_id="abc"), 404, -32600, "refused"),
    Row("a session id that was changed", lambda w: w.alice.request("tools/list", mcp_session_id=w.alice.session[:-1] + "~"), 404, -32600),
    Row("somebody else's session", lambda w: w.alice.request("tools/list", mcp_session_id=w.bob.session), 404, -32600),
    Row("a session that was ended", lambda w: call_ended_session(w), 404, -32600),
    Row("a stream without a session", lambda w: w.alice.listen(mcp_session_id=None).answer(), 400, -32600),
    Row("a stream of somebody else's session", lambda w: w.alice.listen(mcp_session_id=w.bob.session).answer(), 404, -32600),
    Row("an event nobody sent", lambda w: w.alice.listen(last_event_id="x" * 22 + ".1").answer(), 400, -32600),
    Row("an event id that is none", lambda w: w.alice.listen(last_event_id="1").answer(), 400, -32600),
    Row("ending no session", lambda w: w.wire.send("DELETE", w.alice.plain()), 400, -32600),
    Row("ending somebody else's session", lambda w: w.wire.send("DELETE", w.alice.plain(mcp_session_id=w.bob.session)), 404, -32600),
    Row("`initialize` without its parameters", lambda w: w.wire.send("POST", w.alice.plain(), w.alice.message("initialize")), 200, -32602),
]  # fmt: skip

TOOL = [
    Row("a tool that does not exist", lambda w: w.call("t_nothing"), 400, -32602, "unknown_tool", "Unknown tool: t_nothing"),
    Row("a tool of somebody else", lambda w: w.bob.modern("tools/call", ADD), 400, -32602, "refused", "Unknown tool: t_add"),
    Row("in a session, a tool that does not exist", lambda w: w.call_in_session("t_nothing"), 200, -32602, "unknown_tool"),
    Row("in a session, a tool of somebody else", lambda w: w.bob.request("tools/call", ADD), 200, -32602, "refused"),
    Row("no name", lambda w: w.alice.request("tools/call", {}), 200, -32602, "refused"),
    Row("a name that is a number", lambda w: w.call_in_session(5), 200, -32602, "refused"),
    Row("once more than the limit allows", lambda w: exceed_limit(w), 200, None, "limited", "Try again in"),
]  # fmt: skip

ARGUMENTS = [
    Row("a field is missing", lambda w: w.call_in_session("t_add", {"a": 1}), 200, None, "invalid_arguments", "b"),
    Row("a field of the wrong type", lambda w: w.call_in_session("t_add", {"a": "1", "b": 2}), 200, None, "invalid_arguments", "a"),
    Row("a field too many", lambda w: w.call("t_add", {"a": 1, "b": 2, "c": 3}), 200, None, "invalid_arguments", "c"),
    Row("arguments that are a list", lambda w: w.call_in_session("t_add", [1, 2]), 200, -32602, "refused"),
    Row("arguments that are a text", lambda w: w.call_in_session("t_add", "1+2"), 200, -32602, "refused"),
    Row("at an older revision, a field is missing", lambda w: call_at_older_revision(w, {"a": 1}), 200, -32602, "invalid_arguments", "b"),
]  # fmt: skip

TABLE = {
    "guard": GUARD,
    "token": TOKEN,
    "parser": PARSER,
    "message": MESSAGE,
    "envelope": ENVELOPE,
    "session": SESSION,
    "tool": TOOL,
    "arguments": ARGUMENTS,
}


async def send_header_twice(w: World, name: str, value: str) -> Request:
    headers = [*w.alice.plain(mcp_session_id=w.alice.session).items(), (name, value)]
    return await w.wire.send("POST", headers, call_body())


async def send_modern_header_twice(w: World, name: str, value: str) -> Request:
    plain = w.alice.plain(mcp_protocol_version=MODERN, mcp_method="tools/list")
    return await w.wire.send("POST", [*plain.items(), (name, value)], call_body())


async def send_too_large(w: World) -> Request:
    part = b" " * (configured.MAX_BODY_BYTES // 2 + 1)
    return await w.wire.send("POST", w.alice.plain(), Parts([part, part, b"{}"]))


async def send_modern_body(w: World, body: Any) -> Request:
    method = body.get("method") if isinstance(body, dict) else None
    name = body.get("params", {}).get("name") if isinstance(body, dict) else None
    return await w.wire.send("POST", w.alice.plain(mcp_protocol_version=MODERN, mcp_method=method, mcp_name=name), body)


async def call_ended_session(w: World) -> Request:
    other = Person(w.wire, w.alice.user, w.alice.token)
    await other.begin_session()
    gone = await w.wire.send("DELETE", other.plain(mcp_session_id=other.session))
    assert 200 <= gone.status < 300
    return await other.request("tools/list")


async def exceed_limit(w: World) -> Request:
    first = await w.alice.modern("tools/call", {"name": "t_limited", "arguments": {"a": 1, "b": 2}})
    assert first.status == 200
    return await w.alice.modern("tools/call", {"name": "t_limited", "arguments": {"a": 1, "b": 2}})


async def call_at_older_revision(w: World, arguments: Any) -> Request:
    other = Person(w.wire, w.alice.user, w.alice.token)
    await other.begin_session("2025-06-18")
    return await other.request("tools/call", {"name": "t_add", "arguments": arguments})


@pytest.fixture
async def world(
    wire: Wire, alice: User, bob: User, charlie: User, person: Callable[..., Person], publish: Any, settings: Any
) -> World:
    settings.BAD_TOKENS_RATE = "1000/m"

    def fill() -> World:
        publish(alice, "t_add")
        region = factories.make_tool("t_region", function="t_add", input_schema=REGION)
        limited = factories.make_tool("t_limited", function="t_add")
        factories.grant(alice, region, limited)
        factories.limit("1/d", limited)
        dead = {
            "revoked": AccessToken.objects.issue(alice, "revoked"),
            "expired": AccessToken.objects.issue(alice, "expired"),
            "inactive": AccessToken.objects.issue(charlie, "inactive"),
        }
        now = timezone.now()
        AccessToken.objects.filter(pk=dead["revoked"][0].pk).update(revoked=now)
        AccessToken.objects.filter(pk=dead["expired"][0].pk).update(expires=now)
        User.objects.filter(pk=charlie.pk).update(is_active=False)
        return World(wire, person(alice), person(bob), {name: text for name, (_, text) in dead.items()})

    made = await run_in_database(fill)
    await refresh_catalogue()
    await made.alice.begin_session()
    await made.bob.begin_session()
    return made


def list_outcomes() -> list[str]:
    return list(Call.objects.order_by("started_at", "id").values_list("outcome", flat=True))


@pytest.mark.parametrize("kind", TABLE)
async def test_a_rejected_request_has_its_answer_and_its_log_entry(world: World, kind: str) -> None:
    wrong: list[str] = []
    for row in TABLE[kind]:
        before = len(await run_in_database(list_outcomes))
        answer = await row.send(world)
        new = (await run_in_database(list_outcomes))[before:]
        error = answer.error
        found = (answer.status, error.get("code"), new[-1] if new else "")
        if found != (row.status, row.code, row.outcome):
            wrong.append(f"{row.what}: {found} {answer.body[:300]!r}")
        elif row.contains not in answer.body.decode():
            wrong.append(f"{row.what} does not say {row.contains!r}: {answer.body[:300]!r}")
        elif row.code is None and answer.json["result"]["isError"] is not True:
            wrong.append(f"{row.what}: not an error result")
        elif "Traceback" in answer.body.decode() or "/toolhub/" in answer.body.decode():
            wrong.append(f"{row.what}: internals in {answer.body[:300]!r}")
    assert not wrong, "\n".join(wrong)


def test_the_table_has_every_kind_and_enough_rows() -> None:
    assert sum(map(len, TABLE.values())) >= 40
    for rows in TABLE.values():
        assert len({row.what for row in rows}) == len(rows)


async def test_a_rejected_token_gets_a_hint(world: World) -> None:
    nothing = await world.call("t_add", authorization=None)
    challenge = nothing.header("www-authenticate") or ""
    assert "error=" not in challenge
    assert "/.well-known/oauth-protected-resource/mcp" in challenge
    wrong = await world.call("t_add", authorization="Bearer thp_" + "x" * 43)
    assert 'error="invalid_token"' in (wrong.header("www-authenticate") or "")


async def test_too_many_bad_tokens_from_one_address_are_429_and_good_ones_go_on(world: World, settings: Any) -> None:
    settings.BAD_TOKENS_RATE = "2/10h"  # a minute may end between two of them
    plain = world.alice.plain(mcp_protocol_version=MODERN)
    statuses = [
        (
            await world.wire.send(
                "POST", {**plain, "authorization": f"Bearer thp_{n}" + "y" * 42}, b"{}", address="192.0.2.99"
            )
        )
        for n in range(4)
    ]
    assert [answer.status for answer in statuses] == [401, 401, 429, 429]
    assert int(statuses[-1].header("retry-after") or 0) > 0
    assert (await world.call("t_add", {"a": 1, "b": 2})).status == 200


async def test_another_users_and_missing_items_are_the_same_bytes(world: World) -> None:
    hidden = await world.bob.modern("tools/call", ADD, id=1)
    absent = await world.bob.modern("tools/call", {**ADD, "name": "t_adx"}, id=1)
    assert hidden.body.replace(b"t_add", b"t_adx") == absent.body
    assert hidden.status == absent.status and hidden.headers == absent.headers


async def test_a_method_that_is_not_allowed_says_which_are(world: World) -> None:
    assert (await world.wire.send("PUT", world.alice.plain(), b"")).header("allow") == "GET, POST, DELETE, OPTIONS"
    modern = await world.wire.send("GET", world.alice.plain(mcp_protocol_version=MODERN))
    assert modern.header("allow") == "POST, OPTIONS"
