"""Functions as tools: what is derived, what is refused when registering, what the context does."""

from __future__ import annotations

import asyncio
import enum
import sys
import types
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from django.core import checks
from pydantic import BaseModel, Field

from audit import outcomes
from catalog.errors import ClientLacks, InvalidArguments, NeedsInput, ProtocolError
from catalog.functions import registry
from catalog.functions.context import Context, SyncContext
from catalog.functions.elicitation import Elicit
from catalog.functions.signatures import derive, derive_arguments
from tests.catalog import tools
from tests.catalog.pipeline import (
    MODERN,
    RecordingChannel,
    call,
    logged_calls,
    only_logged_call,
    publish,
    run_in_database,
    text,
)

ACCEPT = {"action": "accept", "content": {"name": "Ada"}}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    city: str
    zip: Annotated[str, Field(pattern="^[0-9]+$")] = "0"


# --- registering ----------------------------------------------------------------------------------------------------


def test_two_functions_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match="two functions"):

        @registry.tool("call_add")
        async def another(a: int) -> int:
            return a


def test_a_function_that_cannot_be_called_by_name_is_refused() -> None:
    def positional(a: int, /) -> None: ...
    def many(*numbers: int) -> None: ...
    async def wrong(ctx: SyncContext) -> None: ...
    def wrong_too(ctx: Context) -> None: ...

    for function, says in ((positional, "by name"), (many, "by name"), (wrong, "Context"), (wrong_too, "Context")):
        with pytest.raises(TypeError, match=says):
            derive("tool", "x", function, None)


def test_a_module_that_cannot_be_imported_is_a_problem_and_does_not_take_the_others_down(settings: Any) -> None:
    module = types.ModuleType("call_good_module")
    sys.modules["call_good_module"] = module
    settings.TOOL_MODULES = ["no.such.module", "call_good_module"]
    assert "ModuleNotFoundError" in registry.problems()["no.such.module"]
    assert "call_good_module" not in registry.problems()
    reported = [message for message in checks.run_checks() if message.id == "catalog.E002"]
    assert len(reported) == 1 and "no.such.module" in reported[0].msg and reported[0].hint
    with pytest.raises(LookupError, match="call_good_module"):
        registry.lookup("tool", "never_registered")


# --- what a signature says -------------------------------------------------------------------------------------------


def test_schemas_are_derived_from_the_type_hints() -> None:
    async def order(
        city: Annotated[str, Field(description="Where to.", max_length=50)],
        count: int,
        size: Literal["s", "l"] = "s",
        when: date | None = None,
        tags: list[str] = [],  # noqa: B006 - what people write
        ctx: Context = None,  # type: ignore[assignment]
    ) -> Place:
        """Order
        something.

        And more.
        """
        return Place(city=city)

    function = derive("tool", "order", order, None)
    assert function.description == "Order something.\n\nAnd more."
    schema = function.input_schema
    assert list(schema) == ["type", "properties", "required", "additionalProperties"]
    assert schema["required"] == ["city", "count"] and schema["additionalProperties"] is False
    properties = schema["properties"]
    assert properties["city"] == {"description": "Where to.", "maxLength": 50, "type": "string"}
    assert properties["count"] == {"type": "integer"}
    assert properties["size"] == {"default": "s", "enum": ["s", "l"], "type": "string"}
    assert properties["when"]["anyOf"] == [{"format": "date", "type": "string"}, {"type": "null"}]
    assert "ctx" not in properties and function.context == "ctx"
    assert function.output_schema is not None and set(function.output_schema["properties"]) == {"city", "zip"}


def test_arguments_are_converted_by_the_hints_and_defaults_of_fields_are_filled_in() -> None:
    def take(
        n: int,
        x: float,
        day: date,
        colour: Colour,
        place: Place,
        depth: int = Field(default=3, description="How deep."),
    ) -> None: ...

    bound = derive("tool", "take", take, None).bind(
        {"n": 5.0, "x": 1, "day": "2026-01-02", "colour": "red", "place": {"city": "Bern"}, "unknown": 1}
    )
    assert bound == {
        "n": 5,
        "x": 1,
        "day": date(2026, 1, 2),
        "colour": Colour.RED,
        "place": Place(city="Bern"),
        "depth": 3,
    }
    assert isinstance(bound["n"], int)
    with pytest.raises(InvalidArguments, match="place"):
        derive("tool", "take", take, None).bind({"place": {"city": "Bern", "zip": "x"}})


def test_the_arguments_of_a_prompt_are_derived() -> None:
    async def letter(
        to: Annotated[str, Field(description="Who gets it.")], tone: Literal["kind", "firm"] = "kind"
    ) -> str:
        """Write."""
        return to + tone

    assert derive_arguments(derive("prompt", "letter", letter, None)) == [
        {"name": "to", "required": True, "description": "Who gets it."},
        {"name": "tone", "required": False, "enum": ["kind", "firm"]},
    ]


# --- the context -----------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
async def test_progress_increases_and_the_first_and_last_report_always_arrive(alice: Any) -> None:
    await run_in_database(publish, alice, "call_steps")
    channel = RecordingChannel()
    await call(alice, "call_steps", {"values": [*range(500), 3, 2, 499], "total": 1000}, channel)
    sent = [report[0] for report in channel.reports]
    assert sent == sorted(set(sent)) and sent[0] == 0 and sent[-1] == 499
    assert len(sent) < 100
    assert channel.lines == [("warning", {"n": 503}, "steps")]
    beyond = RecordingChannel()
    await call(alice, "call_steps", {"values": [*range(500)], "total": 1}, beyond)
    assert beyond.reports[0][0] == 0 and beyond.reports[-1][0] == 499 and len(beyond.reports) < 100
    ended = RecordingChannel()
    await call(alice, "call_steps", {"values": [1, 2, 3], "total": 3}, ended)
    assert [report[0] for report in ended.reports][-1] == 3


@pytest.mark.django_db(transaction=True)
async def test_a_client_that_declared_nothing_is_never_asked(alice: Any) -> None:
    await run_in_database(publish, alice, "call_name", "call_brave")
    channel = RecordingChannel({})
    refused = await call(alice, "call_name", channel=channel)
    assert refused.is_error and "'elicitation'" in text(refused)
    handled = await call(alice, "call_brave", channel=channel)
    assert text(handled).startswith("without: The client did not declare") and not handled.is_error
    assert channel.asked == []
    for capabilities, question in (
        ({"elicitation": {}}, "url"),
        ({"elicitation": {"form": {}}}, "url"),
        ({"elicitation": {"url": {}}}, "form"),
    ):
        asking = _context(RecordingChannel(capabilities))
        url = asking.elicit_url("Sign in", "https://example.com")
        form = asking.elicit("Who?", tools.NAME)
        wanted, other = (url, form) if question == "url" else (form, url)
        other.close()
        with pytest.raises(ClientLacks, match=f"elicitation.{question}"):
            await wanted


def _context(channel: Any, revision: str = "2025-11-25") -> Context:
    from uuid import uuid4

    from audit.types import Caller, Credential

    credential = Credential(1, "alice", "token:1", "laptop", None, None)
    return Context(Caller(credential, "http", revision, "192.0.2.1"), channel, "x", uuid4())


@pytest.mark.django_db(transaction=True)
async def test_one_way_of_asking_serves_handshake_and_modern_revisions(alice: Any) -> None:
    await run_in_database(publish, alice, "call_name")
    waited = await call(alice, "call_name", channel=RecordingChannel(answers={"name": ACCEPT}))
    assert text(waited) == "Hello, Ada!"
    with pytest.raises(NeedsInput) as needs:
        await call(alice, "call_name", channel=RecordingChannel(modern=True), revision=MODERN)
    method, params = needs.value.requests["name"]
    assert method == "elicitation/create" and params["requestedSchema"]["required"] == ["name"]
    again = RecordingChannel(answers={"name": ACCEPT}, modern=True)
    assert text(await call(alice, "call_name", channel=again, revision=MODERN)) == "Hello, Ada!"
    assert [row.outcome for row in await logged_calls()] == [outcomes.OK, outcomes.INPUT_REQUIRED, outcomes.OK]


@pytest.mark.django_db(transaction=True)
async def test_several_questions_travel_together(alice: Any) -> None:
    await run_in_database(publish, alice, "call_ask_all")
    channel = RecordingChannel(
        answers={
            "who": ACCEPT,
            "thought": {"role": "assistant", "content": {"type": "text", "text": "hm"}, "model": "m"},
            "where": {"roots": [{"uri": "file:///w", "name": "w"}]},
        }
    )
    assert text(await call(alice, "call_ask_all", channel=channel)) == "Ada hm file:///w"
    assert len(channel.asked) == 1
    assert {method for method, _ in channel.asked[0].values()} == {
        "elicitation/create",
        "sampling/createMessage",
        "roots/list",
    }


@pytest.mark.django_db(transaction=True)
async def test_an_invalid_answer_is_rejected_at_handshake_and_modern_revisions(alice: Any) -> None:
    await run_in_database(publish, alice, "call_name")
    for bad in (12345, {"action": "maybe"}, {"action": "accept"}, {"action": "accept", "content": {"name": 5}}):
        waited = await call(alice, "call_name", channel=RecordingChannel(answers={"name": bad}))
        assert waited.is_error and "'name'" in text(waited)
        with pytest.raises(ProtocolError, match=r"inputResponses\.name") as refused:
            await call(
                alice, "call_name", channel=RecordingChannel(answers={"name": bad}, modern=True), revision=MODERN
            )
        assert refused.value.code == -32602
    declined = RecordingChannel(answers={"name": {"action": "decline"}})
    assert text(await call(alice, "call_name", channel=declined)) == "decline"


@pytest.mark.django_db(transaction=True)
async def test_a_function_in_a_thread_asks_without_await(alice: Any) -> None:
    await run_in_database(publish, alice, "call_name_thread")
    assert (
        text(await call(alice, "call_name_thread", channel=RecordingChannel(answers={"elicit_1": ACCEPT})))
        == "Hello, Ada!"
    )
    with pytest.raises(NeedsInput):
        await call(alice, "call_name_thread", channel=RecordingChannel(modern=True), revision=MODERN)


@pytest.mark.django_db(transaction=True)
async def test_tasks_of_a_group_ask_together_and_another_failure_among_them_is_one(alice: Any) -> None:
    await run_in_database(publish, alice, "call_name_group")
    with pytest.raises(NeedsInput) as needs:
        await call(alice, "call_name_group", channel=RecordingChannel(modern=True), revision=MODERN)
    assert set(needs.value.requests) == {"first", "second"}
    answers = {"first": ACCEPT, "second": ACCEPT}
    answered = RecordingChannel(answers=answers, modern=True)
    assert text(await call(alice, "call_name_group", channel=answered, revision=MODERN)) == "Ada and Ada"
    failed = await call(
        alice, "call_name_group", {"fails": True}, channel=RecordingChannel(modern=True), revision=MODERN
    )
    assert failed.is_error and "failed unexpectedly" in text(failed)
    assert [row.outcome for row in await logged_calls()] == ["input_required", "ok", "tool_error"]


@pytest.mark.django_db(transaction=True)
async def test_the_time_a_person_takes_to_answer_does_not_count(alice: Any) -> None:
    await run_in_database(publish, alice, "call_patient")

    class Slow(RecordingChannel):
        async def ask(self, requests: Any) -> Any:
            # This timer starts after that of the tool and is longer: the tool's time is over when it ends.
            await asyncio.sleep(registry.lookup("tool", "call_patient").options["timeout"] * 1.1)
            return await super().ask(requests)

    assert text(await call(alice, "call_patient", channel=Slow(answers={"name": ACCEPT}))) == "thanks"
    assert (await only_logged_call()).outcome == outcomes.OK


async def test_questions_without_a_key_are_numbered_in_their_order() -> None:
    channel = RecordingChannel(answers={"elicit_1": ACCEPT, "elicit_2": ACCEPT, "elicit_url_1": {"action": "accept"}})
    context = _context(channel, MODERN)
    for _ in range(2):
        await context.elicit("Who?", tools.NAME)
    await context.elicit_url("There", "https://example.com")
    assert [list(asked) for asked in channel.asked] == [["elicit_1"], ["elicit_2"], ["elicit_url_1"]]
    assert "elicitationId" not in channel.asked[2]["elicit_url_1"][1]


async def test_an_elicitation_is_a_flat_form() -> None:
    nested = {"type": "object", "properties": {"inner": {"type": "object"}}}
    for schema in (nested, {"type": "string"}, {"type": "object"}):
        with pytest.raises(TypeError):
            await _context(RecordingChannel()).elicit("?", schema)

    class Form(BaseModel):
        name: str
        age: int = 3

    question = Elicit("?", Form).requested()
    assert set(question["properties"]) == {"name", "age"} and question["required"] == ["name"]


async def test_a_client_that_opted_into_an_extension_is_seen() -> None:
    context = _context(RecordingChannel({"sampling": {}, "extensions": {"io.example/x": {}}}))
    assert context.opted("sampling") and context.opted("io.example/x") and not context.opted("roots")
    assert context.username == "alice" and context.deadline == float("inf")
