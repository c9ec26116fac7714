"""Schemas made to hold up whoever checks against them: not saved, and harmless where they were stored before."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from catalog.models import Tool
from catalog.schemas import validator
from tests import factories
from tests.catalog import pipeline
from tests.catalog.test_schemas import doubling, prop
from tests.client import HttpClient, RpcError
from tests.real_servers import Hub

log = logging.getLogger(__name__)
LETTERS = "abcdefghijklmnopqrst" * 10_000


def nested(depth: int) -> dict[str, Any]:
    text = '{"type":"object","properties":{"a":' * depth + "{}" + "}}" * depth
    return {"deep": text}


def many(number: int) -> list[dict[str, int]]:
    return [{"n": n} for n in range(number)]


BOMBS: list[tuple[str, Any, Any]] = [
    ("nested quantifiers", prop({"type": "string", "pattern": "^(a+)+$"}), {"a": LETTERS.replace("b", "a")}),
    ("a slow pattern", prop({"type": "string", "pattern": "([a-z]{1,30}){30}X"}), {"a": LETTERS}),
    (
        "a slow pattern many times",
        prop({"type": "array", "items": {"type": "string", "pattern": "([a-z]{1,30}){30}X|^a"}}),
        {"a": [LETTERS[:2000]] * 100},
    ),
    ("names that match slowly", {"type": "object", "patternProperties": {"([a-z]{1,30}){30}X": {}}}, {LETTERS: 1}),
    (
        "many patterns for names",
        {"type": "object", "patternProperties": {f"^x{n}$": {} for n in range(900)}, "additionalProperties": False},
        {f"k{n}": n for n in range(20_000)},
    ),
    ("unique objects", prop({"type": "array", "uniqueItems": True}), {"a": many(20_000)}),
    ("a huge enum", prop({"items": {"enum": [[n] for n in range(20_000)]}}), {"a": [[-1]] * 20_000}),
    ("a wide choice", prop({"items": {"anyOf": [{"type": "object"}] * 1_900}}), {"a": ["x" * 50] * 3_000}),
    ("a choice about much", prop({"anyOf": [{"type": "integer"}] * 1_900}), {"a": list(range(40_000))}),
    ("what nothing looked at", {"type": "object", "unevaluatedProperties": {}}, {f"k{n}": n for n in range(20_000)}),
    (
        "what everything looked at",
        {"type": "object", "unevaluatedProperties": False, "allOf": [{"additionalProperties": True}] * 900},
        {f"k{n}": n for n in range(5_000)},
    ),
    ("doubling", doubling(25), {"a": 1}),
    ("a circle", {"type": "object", "allOf": [{"$ref": "#"}]}, {"a": 1}),
    ("a network reference", prop({"$ref": "https://example.com/schema.json"}), {"a": 1}),
    ("a file reference", prop({"$ref": "file:///etc/passwd"}), {"a": 1}),
    ("deep", nested(500), {"a": 1}),
    ("far too deep", nested(50_000), {"a": 1}),
    ("too large", {"type": "object", "properties": {f"p{n}": {"enum": list(range(100))} for n in range(2_500)}}, {}),
    ("no schema at all", {"type": "object", "properties": ["x"], "minimum": "a", "required": 7}, {"a": 1}),
    ("not quite a schema", prop({"minimum": "a"}), {"a": 1}),
]
CLEAN = {"a huge enum", "a wide choice", "a choice about much", "what nothing looked at", "what everything looked at"}
CLEAN |= {"a slow pattern", "a slow pattern many times", "names that match slowly", "many patterns for names"}
"""Within the bounds of what can be saved: only their checks are bounded."""


@pytest.mark.parametrize(
    ("name", "schema"), [row[:2] for row in BOMBS if row[0] not in CLEAN], ids=lambda v: str(v)[:25]
)
def test_a_bomb_is_not_saved_and_the_refusal_says_what_it_is(name: str, schema: Any) -> None:
    if "deep" in schema:
        with pytest.raises((ValidationError, RecursionError)):
            validator.check(json.loads(schema["deep"]))
        return
    for fields in ({"input_schema": schema}, {"input_schema": {"type": "object"}, "output_schema": schema}):
        row = Tool(name="bomb", description="Does it.", runner="python_function", settings={"function": "x"}, **fields)
        with pytest.raises(ValidationError) as refused:
            row.clean_fields()
        assert set(refused.value.message_dict) <= {"input_schema", "output_schema"}, refused.value


@pytest.fixture
def freeze_garbage() -> Iterator[None]:
    """What other tests left in this process is not looked through meanwhile: that takes longer than a check may."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("freeze_garbage")
@pytest.mark.parametrize(("name", "schema", "value"), BOMBS, ids=[row[0] for row in BOMBS])
def test_a_check_ends_in_a_quarter_of_a_second_of_processor_time_whatever_was_stored(
    name: str, schema: Any, value: Any
) -> None:
    if "deep" in schema:
        return  # such a schema is not even read, see below
    check = validator.Check(schema)
    began = time.thread_time()
    check(value)
    # Patterns run outside of Python's own thread of work; what they cost is bounded by counting.
    assert time.thread_time() - began < 1.0
    began = time.thread_time()
    check(value, validator.MAX_LOOP_SECONDS)
    assert time.thread_time() - began < 0.5


# --- a hub whose database holds them already -------------------------------------------------------------------------


def seed() -> dict[str, str]:
    from django.db import connection

    from tests.e2e.seed import create_cast, grant_tool

    tokens = create_cast()
    grant_tool("quick", ["bob"], function="add")
    for number, (_, schema, _) in enumerate(BOMBS):
        grant_tool(
            f"bomb_{number}", ["alice"], function="swallow", input_schema={"type": "object"}, fill_defaults=False
        )
        text = schema.get("deep") or json.dumps(schema)
        with connection.cursor() as cursor:  # past every check
            cursor.execute("UPDATE catalog_tool SET input_schema = %s WHERE name = %s", [text, f"bomb_{number}"])
    return tokens


def list_rejected() -> dict[str, list[str]]:
    from audit.models import Call

    found: dict[str, list[str]] = {}
    for name, outcome in Call.objects.filter(name__startswith="bomb_").values_list("name", "outcome"):
        found.setdefault(name, []).append(outcome)
    return found


async def test_schemas_from_before_there_were_bounds_block_no_caller() -> None:
    env = {"TOOLHUB_TOOL_MODULES": "tests.e2e.functions,tests.catalog.catch_all"}
    with Hub(env=env, seed=seed) as hub:
        tokens = hub.seeded
        done = threading.Event()
        waited: list[float] = []

        async def bob_goes_on() -> None:
            async with HttpClient(hub.mcp_url, tokens["bob"], "2025-11-25") as bob:
                while not done.is_set():
                    began = time.perf_counter()
                    assert not (await bob.call("quick", {"a": 1, "b": 2})).get("isError")
                    waited.append(time.perf_counter() - began)

        other = threading.Thread(target=lambda: asyncio.run(bob_goes_on()))
        other.start()
        answers: dict[str, str] = {}
        try:
            async with HttpClient(hub.mcp_url, tokens["alice"], "2025-11-25") as alice:
                listed = await alice.tools()
                for number, (name, _, value) in enumerate(BOMBS):
                    try:
                        answer = await alice.call(f"bomb_{number}", value)
                        answers[name] = "refused" if answer.get("isError") else "ran"
                    except RpcError as error:
                        offered = error.message != f"Unknown tool: bomb_{number}"
                        answers[name] = str(error) if offered else "not offered"
        finally:
            done.set()
            other.join(60)
        hidden = {
            "doubling",
            "a circle",
            "a network reference",
            "a file reference",
            "deep",
            "far too deep",
            "too large",
            "no schema at all",
        }
        assert {name for name, said in answers.items() if said == "not offered"} == hidden
        assert not {f"bomb_{n}" for n, (name, _, _) in enumerate(BOMBS) if name in hidden} & set(listed)
        assert answers["not quite a schema"] == "refused"
        recorded = await asyncio.to_thread(hub.call, list_rejected)
        assert set(recorded) == {f"bomb_{number}" for number in range(len(BOMBS))}
        assert all(len(outcomes) == 1 for outcomes in recorded.values())
        assert "is hidden because of its input_schema" in hub.log()
    waited.sort()
    p95 = waited[int(len(waited) * 0.95)]
    log.info("another's %d calls meanwhile: p95 %.0f ms, longest %.0f ms", len(waited), p95 * 1000, waited[-1] * 1000)
    assert len(waited) > 10 and p95 < 5.0


@pytest.mark.django_db(transaction=True)
async def test_a_check_that_takes_long_leaves_the_event_loop_to_others(alice: User, settings: Any) -> None:
    settings.TOOL_MODULES = ["tests.catalog.catch_all"]

    def publish() -> None:
        row = factories.make_tool("wide", function="swallow", input_schema=BOMBS[7][1], fill_defaults=False)
        factories.grant(alice, row)

    await pipeline.run_in_database(publish)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    with pytest.raises(Exception, match="in time"):
        await pipeline.call(alice, "wide", {"a": ["x" * 50] * 3_000})
    counting.cancel()
    assert turns > 50
