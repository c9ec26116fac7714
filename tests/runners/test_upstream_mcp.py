"""Tools of other MCP servers: real ones, over every transport; nothing is shared between users, no token goes out."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.utils import timezone

from audit.models import Call
from catalog import quarantine
from catalog.calls import call_tool
from catalog.errors import CANCELLED_BY_CLIENT, MissingCapability, NeedsInput
from catalog.models import Tool
from catalog.models import Upstream as Row
from catalog.policy import snapshot
from catalog.runners.upstream_mcp import pool
from catalog.upstreams import discovery, schedule
from tests import factories
from tests.catalog import pipeline
from tests.clients.installed import npm_packages
from tests.polling import wait_until, wait_until_async
from tests.runners.upstream import Upstream, tool
from toolhub.jobs import Scheduler

pytestmark = pytest.mark.django_db(transaction=True)

EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"
LOCAL = ["127.0.0.0/8"]
LISTENS = "0A"
"""As the kernel writes it in its tables of sockets."""


@pytest.fixture(autouse=True)
async def _close_connections() -> AsyncIterator[None]:
    yield
    await pool.close()
    await snapshot.stop()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", 120.0)


@pytest.fixture(autouse=True)
def local_networks(settings: Any) -> None:
    """The upstream servers of these tests are on this machine."""
    settings.ALLOW_PRIVATE_NETWORKS = LOCAL


@pytest.fixture(scope="module", params=["handshake", "modern"])
def either(request: pytest.FixtureRequest) -> Iterator[Upstream]:
    with Upstream(legacy=request.param == "handshake").running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def legacy() -> Iterator[Upstream]:
    with Upstream(legacy=True).running() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def everything() -> tuple[str, str]:
    """Node and the script of the official everything-server."""
    modules = npm_packages(EVERYTHING) / "node_modules"
    script = modules / "@modelcontextprotocol" / "server-everything" / "dist" / "index.js"
    return str(modules / "node" / "bin" / "node"), str(script)


@contextmanager
def _run_everything_server(everything: tuple[str, str], mode: str, folder: Path) -> Iterator[str]:
    with (folder / "log").open("wb") as output:
        # The server takes any port that is free: one that was looked for beforehand may be somebody else's by then.
        environment = {"PATH": os.environ["PATH"], "PORT": "0"}
        process = subprocess.Popen([*everything, mode], env=environment, stdout=output, stderr=output)
        try:
            port = wait_until(lambda: _port_of(process.pid), 120, "the everything-server")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def _port_of(pid: int) -> int:
    """The TCP port that the process listens on; 0 while there is none."""
    open_ones = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            open_ones.add(os.readlink(descriptor))
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and f"socket:[{fields[9]}]" in open_ones:
                return int(fields[1].rpartition(":")[2], 16)
    return 0


def make_upstream(url: str = "", **fields: Any) -> Row:
    fields.setdefault("allowed_networks", LOCAL if url else [])
    made = Row(**{"name": "other", "url": url, "prefix": "other", "timeout": 120.0, **fields})
    made.full_clean()
    made.save()
    return made


def import_all(made: Row, *users: Any) -> list[str]:
    """Import everything that can be, and grant it."""
    found = discovery.discover(made, None, "discovered")
    outcome = discovery.import_items(made, found, [one.value for one in discovery.candidates(made, found)])
    assert not outcome.refused, outcome.refused
    for offered in Tool.objects.filter(origin=made.origin):
        offered.timeout = 120.0
        offered.save()
        for user in users:
            factories.grant(user, offered)
    return outcome.imported


async def publish(made: Any, *users: Any) -> list[str]:
    return await pipeline.run_in_database(import_all, made, *users)


# --- refusals --------------------------------------------------------------------------------------------------------


async def test_a_private_address_is_refused_unless_the_upstream_lists_it(legacy: Upstream, alice: User) -> None:
    made = await sync_to_async(make_upstream)(legacy.url)
    await publish(made, alice)
    made.allowed_networks = ["127.0.0.0/8:1"]
    await pipeline.run_in_database(made.save)
    before = len(legacy.ledger)
    result = await pipeline.call(alice, "other_whoami")
    sentence = "The upstream server other cannot be reached: toolhub blocks requests to this address."
    assert result.is_error and pipeline.text(result) == sentence
    assert len(legacy.ledger) == before
    call = (await pipeline.logged_calls())[-1]
    assert call.outcome == "tool_error" and "not a public address" in call.detail
    made.allowed_networks = [f"127.0.0.1/32:{legacy.port}"]
    await pipeline.run_in_database(made.save)
    assert not (await pipeline.call(alice, "other_whoami")).is_error


async def test_an_upstream_that_is_gone_is_a_clear_error_and_is_connected_to_anew_when_it_is_back(alice: User) -> None:
    upstream = Upstream(legacy=True)
    upstream.start()
    try:
        await publish(await sync_to_async(make_upstream)(upstream.url), alice)
        assert not (await pipeline.call(alice, "other_whoami")).is_error
        await sync_to_async(upstream.stop)()
        for _ in range(2):
            gone = await pipeline.call(alice, "other_whoami")
            assert gone.is_error and "upstream server other" in pipeline.text(gone)
        await sync_to_async(upstream.start)()

        async def back() -> bool:
            return not (await pipeline.call(alice, "other_whoami")).is_error

        await wait_until_async(back, 60)
    finally:
        upstream.stop()


async def test_the_health_in_the_admin_follows_the_results_of_calls(alice: User) -> None:
    upstream = Upstream(legacy=True)
    upstream.start()

    async def health() -> str:
        return str((await Row.objects.aget(name="other")).last_error)

    def prepare() -> None:
        import_all(make_upstream(upstream.url, refresh_seconds=3600), alice)
        Row.objects.update(next_refresh=timezone.now() + timedelta(hours=1))

    scheduler = Scheduler(schedule.jobs())
    try:
        await pipeline.run_in_database(prepare)
        schedule.start()
        scheduler.start()
        assert not (await pipeline.call(alice, "other_whoami")).is_error
        await sync_to_async(upstream.stop)()

        async def in_trouble() -> bool:
            assert (await pipeline.call(alice, "other_whoami")).is_error
            return "upstream server other" in await health()

        await wait_until_async(in_trouble, 60)
        await sync_to_async(upstream.start)()

        async def well() -> bool:
            return not (await pipeline.call(alice, "other_whoami")).is_error and await health() == ""

        await wait_until_async(well, 60)
    finally:
        await sync_to_async(scheduler.stop)(60)
        await schedule.stop()
        upstream.stop()


async def test_errors_of_the_upstream_are_errors_of_the_tool_in_plain_text(either: Upstream, alice: User) -> None:
    await publish(await sync_to_async(make_upstream)(either.url), alice)
    failed = await pipeline.call(alice, "other_fail")
    assert failed.is_error
    assert "answered with an error: no such luck" in pipeline.text(failed)
    assert "\x1b" not in pipeline.text(failed)
    misfit = await pipeline.call(alice, "other_misfit")
    assert misfit.is_error and "output schema" in pipeline.text(misfit)
    assert [call.outcome for call in await pipeline.logged_calls()] == ["tool_error", "tool_error"]


async def test_any_json_value_of_an_upstream_comes_through_and_its_schema_is_imported(alice: User) -> None:
    with Upstream().running() as upstream:
        upstream.tools["any"] = tool("any", "Return any JSON value.", output_schema={"type": ["array", "null"]})
        made = await sync_to_async(make_upstream)(upstream.url)
        await publish(made, alice)
        stored = await Tool.objects.aget(name="other_any")
        assert stored.output_schema == {"type": ["array", "null"]}
        for value in ([1, {"a": None}], []):
            result = await pipeline.call(alice, "other_any", {"text": json.dumps(value)})
            assert not result.is_error and result.structured == value, value
        wrong = await pipeline.call(alice, "other_any", {"text": '{"an": "object"}'})
        assert wrong.is_error and "output schema" in pipeline.text(wrong)


async def test_arguments_are_repeated_in_headers_on_the_first_call_and_for_plain_tools_nothing_is_listed(
    alice: User,
) -> None:
    region = {"type": "string", "x-mcp-header": "Region"}
    with Upstream().running() as upstream:
        upstream.tools["any"] = tool("any", "Any.", input_schema={"type": "object", "properties": {"text": region}})
        made = await sync_to_async(make_upstream)(upstream.url)
        await publish(made, alice)
        upstream.ledger.clear()
        plain = await pipeline.call(alice, "other_whoami")
        assert not plain.is_error and not any('"tools/list"' in entry["body"] for entry in upstream.ledger)
        for count in (1, 2):
            result = await pipeline.call(alice, "other_any", {"text": "[1]"})
            assert not result.is_error, pipeline.text(result)
            named = [entry for entry in upstream.calls() if '"any"' in entry["body"]]
            assert [entry["headers"].get("mcp-param-region") for entry in named] == ["[1]"] * count
        assert sum('"tools/list"' in entry["body"] for entry in upstream.ledger) == 1
        assert "mcp-param-region" not in upstream.calls()[0]["headers"]


async def test_the_trace_of_a_call_and_listed_metadata_reach_the_upstream_and_nothing_else(
    either: Upstream, alice: User
) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    made = await sync_to_async(make_upstream)(either.url, forward_meta=["baggage", "com.example/*"])
    await publish(made, alice)
    channel = pipeline.RecordingChannel()
    channel.meta = {
        "traceparent": parent,
        "tracestate": "a=1",
        "baggage": "b=1",
        "com.example/tenant": {"id": 7},
        "org.other/secret": "kept",
        "progressToken": "of the client",
        "io.modelcontextprotocol/logLevel": "emergency",
    }
    either.ledger.clear()
    assert not (await pipeline.call(alice, "other_whoami", {}, channel)).is_error
    sent = json.loads(either.calls()[0]["body"])["params"]["_meta"]
    own = {name for name in sent if name.startswith("io.modelcontextprotocol/")} | {"progressToken"}
    assert {name: value for name, value in sent.items() if name not in own} == {
        "traceparent": parent,
        "baggage": "b=1",
        "com.example/tenant": {"id": 7},
    }
    assert "of the client" not in str(sent) and "emergency" not in str(sent)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("progressToken", "belongs to the protocol"),
        ("io.modelcontextprotocol/*", "belongs to the protocol"),
        ("dev.toolhub/callId", "belongs to the protocol"),
        ("a b", "not a valid key"),
        ("*", "not a valid key"),
        ("traceparent", "always forwarded"),
    ],
)
def test_metadata_that_must_not_be_forwarded_is_refused_with_the_reason(key: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        make_upstream("http://127.0.0.1:1/mcp", forward_meta=[key])


async def test_a_capability_that_the_upstream_misses_is_named_to_the_caller(alice: User) -> None:
    with Upstream().running() as upstream:
        upstream.tools["lacks"] = tool("lacks", "Lack something.")
        made = await sync_to_async(make_upstream)(upstream.url)
        await publish(made, alice)
        for name, error in (("sampling", MissingCapability), ("experimental", None)):
            upstream.missing = {name: {}}
            channel = pipeline.RecordingChannel({}, modern=True)
            run = pipeline.call(alice, "other_lacks", {}, channel, revision="2026-07-28")
            if error is None:
                result = await run
                assert result.is_error and "other" in pipeline.text(result)
            else:
                with pytest.raises(error) as caught:
                    await run
                assert caught.value.required == {name: {}}
        upstream.missing = {"sampling": {}}
        old = await pipeline.call(alice, "other_lacks", {}, pipeline.RecordingChannel({}))
        assert old.is_error and "sampling" in pipeline.text(old)


async def test_a_cancelled_call_is_cancelled_upstream(either: Upstream, alice: User) -> None:
    await publish(await sync_to_async(make_upstream)(either.url), alice)
    either.waiting.clear()
    either.cancelled.clear()
    running = asyncio.create_task(pipeline.call(alice, "other_wait"))
    await wait_until_async(either.waiting.is_set, 60)
    running.cancel(CANCELLED_BY_CLIENT)
    with pytest.raises(asyncio.CancelledError):
        await running
    await wait_until_async(either.cancelled.is_set, 60)
    assert (await pipeline.only_logged_call()).outcome == "cancelled"


# --- whose connection, whose credentials -----------------------------------------------------------------------------


async def test_connections_are_never_shared_between_users_or_credentials_and_are_used_again_by_their_own(
    legacy: Upstream, alice: User, bob: User
) -> None:
    await publish(await sync_to_async(make_upstream)(legacy.url), alice, bob)
    start = len(legacy.ledger)

    async def session(user: User, **fields: Any) -> str:
        result = await call_tool.call_tool(
            pipeline.caller(user, **fields), "other_whoami", {}, pipeline.RecordingChannel(capabilities={})
        )
        found: str = json.loads(pipeline.text(result))["session"]
        assert found
        return found

    first, again = await session(alice), await session(alice)
    assert first == again
    others = [await session(bob), await session(alice, id="token:another"), await session(bob, id="token:third")]
    assert len({first, *others}) == 4
    assert await session(alice) == first
    for entry in legacy.ledger[start:]:
        assert "authorization" not in entry["headers"]
        assert "alice" not in entry["body"] and "192.0.2.7" not in entry["body"] + str(entry["headers"])


async def test_secrets_reach_the_upstream_in_the_headers_of_their_own_user_only(
    legacy: Upstream, alice: User, bob: User, settings: Any
) -> None:
    from catalog.models import PersonalSecret, Secret

    def prepare() -> Any:
        secret = Secret.objects.create(name="other_key", kind=Secret.Kind.PERSONAL)
        for user in (alice, bob):
            entered = PersonalSecret(secret=secret, user=user)
            entered.enter(f"key-of-{user.username}-{'x' * 12}")
            entered.save()
        made = make_upstream(legacy.url)
        import_all(made, alice, bob)
        made.headers = {"X-Key-Id": {"secret": "other_key"}}
        made.full_clean()
        made.save()
        factories.allow_destinations()

    await pipeline.run_in_database(prepare)
    start = len(legacy.ledger)
    results = await asyncio.gather(*(pipeline.call(user, "other_whoami") for user in (alice, bob) * 10))
    assert not any(result.is_error for result in results)
    # What the upstream tells about the secret is masked on its way back.
    assert all("key-of-" not in pipeline.text(result) for result in results)
    by_session: dict[str, set[str]] = {}
    for entry in legacy.ledger[start:]:
        if session := entry["headers"].get("mcp-session-id"):
            by_session.setdefault(session, set()).add(entry["headers"].get("x-key-id", ""))
    assert by_session and all(len(keys) == 1 for keys in by_session.values())
    assert {key[:12] for keys in by_session.values() for key in keys} == {"key-of-alice", "key-of-bob-x"}


# --- what passes through ---------------------------------------------------------------------------------------------


async def test_the_question_of_an_upstream_reaches_the_client_at_handshake_and_modern_revisions_on_both_sides(
    either: Upstream, alice: User
) -> None:
    await publish(await sync_to_async(make_upstream)(either.url), alice)
    answer = {"action": "accept", "content": {"name": "Ada"}}
    key = "elicitation_1" if either.legacy else "name"
    result = await pipeline.call(alice, "other_ask", channel=pipeline.RecordingChannel(answers={key: answer}))
    assert pipeline.text(result).startswith("accept: Ada")
    modern = pipeline.RecordingChannel(modern=True)
    with pytest.raises(NeedsInput) as needed:
        await pipeline.call(alice, "other_ask", channel=modern, revision=pipeline.MODERN)
    method, params = needed.value.requests[key]
    assert method == "elicitation/create" and params["message"] == "Your name?"
    modern.answers[key] = answer
    result = await pipeline.call(alice, "other_ask", channel=modern, revision=pipeline.MODERN)
    assert pipeline.text(result).startswith("accept: Ada")


async def _use_everything(user: User, prefix: str) -> None:
    # It asks for the roots once it is connected, whatever else it is asked.
    roots: dict[str, Any] = {f"roots_{number}": {"roots": []} for number in range(1, 5)}

    async def call(name: str, arguments: Any = None, channel: Any = None) -> Any:
        channel = channel or pipeline.RecordingChannel()
        channel.answers |= roots
        return await pipeline.call(user, f"{prefix}_{name}", arguments or {}, channel)

    assert "hello" in pipeline.text(await call("echo", {"message": "hello"}))
    assert "5" in pipeline.text(await call("get-sum", {"a": 2, "b": 3}))
    image = await call("get-tiny-image")
    assert any(block["type"] == "image" and block["mimeType"] == "image/png" for block in image.content)
    structured = await call("get-structured-content", {"location": "New York"})
    assert structured.structured["temperature"]
    links = await call("get-resource-links", {"count": 2})
    assert [block["type"] for block in links.content].count("resource_link") == 2
    resource = await call("get-resource-reference", {"resourceType": "Text", "resourceId": 1})
    assert any(block["type"] == "resource" for block in resource.content)
    annotated = await call("get-annotated-message", {"messageType": "error"})
    assert annotated.content[0]["annotations"]["priority"] == 1
    channel = pipeline.RecordingChannel()
    await call("trigger-long-running-operation", {"duration": 0.3, "steps": 3}, channel)
    assert channel.reports and channel.reports[-1][0] == 3
    asked = pipeline.RecordingChannel(answers={"elicitation_1": {"action": "decline"}})
    assert not (await call("trigger-elicitation-request", {}, asked)).is_error
    questions = {key: question for one in asked.asked for key, question in one.items()}
    assert questions["elicitation_1"][1]["requestedSchema"]["properties"]
    sample = {"role": "assistant", "content": {"type": "text", "text": "42 it is"}, "model": "test"}
    sampled = await call(
        "trigger-sampling-request",
        {"prompt": "x", "maxTokens": 10},
        pipeline.RecordingChannel(answers={"sampling_1": sample}),
    )
    assert "42 it is" in json.dumps(sampled.content)
    assert {call.outcome for call in await pipeline.logged_calls()} == {"ok"}


async def test_the_everything_server_works_over_stdio(everything: tuple[str, str], alice: User, settings: Any) -> None:
    node, script = everything
    settings.COMMANDS = (node,)
    made = await sync_to_async(make_upstream)(transport="stdio", command=node, args=[script, "stdio"], prefix="every")
    await publish(made, alice)
    await _use_everything(alice, "every")
    environment = pipeline.text(
        await pipeline.call(alice, "every_get-env", channel=pipeline.RecordingChannel(capabilities={}))
    )
    assert "TOOLHUB" not in environment and "DJANGO" not in environment
    settings.COMMANDS = ()
    await pool.close()
    refused = await pipeline.call(alice, "every_echo", {"message": "hello"}, pipeline.RecordingChannel(capabilities={}))
    assert refused.is_error and "TOOLHUB_COMMANDS" in pipeline.text(refused)


async def test_the_everything_server_works_over_streamable_http(
    everything: tuple[str, str], alice: User, tmp_path: Path
) -> None:
    with _run_everything_server(everything, "streamableHttp", tmp_path) as url:
        made = await sync_to_async(make_upstream)(f"{url}/mcp", prefix="every", separator="_")
        names = await publish(made, alice)
        assert "every_echo" in names
        await _use_everything(alice, "every")
        await pool.close()


async def test_the_everything_server_works_over_sse(everything: tuple[str, str], alice: User, tmp_path: Path) -> None:
    with _run_everything_server(everything, "sse", tmp_path) as url:
        made = await sync_to_async(make_upstream)(f"{url}/sse", prefix="every", transport="sse")
        await publish(made, alice)
        answer = await pipeline.call(
            alice, "every_echo", {"message": "hello"}, pipeline.RecordingChannel(capabilities={})
        )
        assert "hello" in pipeline.text(answer)
        await pool.close()


async def test_an_upstream_that_says_its_list_changed_is_compared_at_once(either: Upstream, alice: User) -> None:
    def prepare() -> Row:
        made = make_upstream(either.url, refresh_seconds=3600)
        import_all(made, alice)
        Row.objects.update(next_refresh=timezone.now() + timedelta(hours=1))
        return made

    await pipeline.run_in_database(prepare)
    before = either.tools["whoami"]
    scheduler = Scheduler(schedule.jobs())
    schedule.start()
    scheduler.start()
    try:
        either.tools["whoami"] = tool("whoami", "Say which session this is, and more.")

        async def quarantined() -> bool:
            # Again: a subscription of its own may begin just after the first call.
            assert not (await pipeline.call(alice, "other_announce")).is_error
            return await Tool.objects.filter(name="other_whoami", quarantined_since__isnull=False).aexists()

        await wait_until_async(quarantined, 60)
    finally:
        either.tools["whoami"] = before
        await sync_to_async(scheduler.stop)(60)
        await schedule.stop()


async def test_a_tool_that_was_imported_twice_is_pinned_once_and_nothing_is_in_quarantine(
    legacy: Upstream, alice: User
) -> None:
    made = await sync_to_async(make_upstream)(legacy.url)
    await publish(made, alice)
    compared = await sync_to_async(discovery.refresh)(made)
    assert (compared.changed, compared.new, compared.problem) == ([], [], "")
    tool = await Tool.objects.aget(name="other_whoami")
    assert tool.pinned == quarantine.pin(quarantine.approved(tool))
    assert await Call.objects.acount() == 0
