"""Everything that the official conformance suite expects a server to offer, as ordinary functions and rows.

`load(username)` publishes all of it to one user. A server under test needs this module in TOOLHUB_TOOL_MODULES.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from asgiref.sync import sync_to_async

from catalog.functions import Context, Elicit, Roots, Sample, prompt, registry, resource, tool
from catalog.functions.content import Audio, EmbeddedResource, Image, Message, ProtocolError, Text, ToolError, User

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
NAME: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
OK: dict[str, Any] = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
HEADER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}

# --- plain tools -----------------------------------------------------------------------------------------------------


@tool("test_simple_text")
async def simple_text() -> str:
    """Return a simple text."""
    return "This is a simple text response for testing."


@tool("test_image_content")
async def image_content() -> Image:
    """Return an image."""
    return Image(PNG, "image/png")


@tool("test_audio_content")
async def audio_content() -> Audio:
    """Return a sound."""
    return Audio(WAV, "audio/wav")


@tool("test_embedded_resource")
async def embedded_resource() -> EmbeddedResource:
    """Return an embedded resource."""
    return EmbeddedResource(
        "test://embedded-resource", text="This is an embedded resource content.", mime_type="text/plain"
    )


@tool("test_multiple_content_types")
async def multiple_content_types() -> list[Any]:
    """Return a text, an image and a resource."""
    inner = '{"test":"data","value":123}'
    return [
        "Multiple content types test:",
        Image(PNG, "image/png"),
        EmbeddedResource("test://mixed-content-resource", text=inner, mime_type="application/json"),
    ]


@tool("test_error_handling")
async def error_handling() -> str:
    """Return an error, always."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool("test_tool_with_progress")
async def with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for progress in (0, 50, 100):
        await ctx.progress(progress, 100)
        await asyncio.sleep(0.06)
    return "Progress reported."


@tool("test_tool_with_logging")
async def with_logging(ctx: Context) -> str:
    """Log three lines."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.log(line)
        await asyncio.sleep(0.05)
    return "Lines logged."


@tool("test_logging_tool")
async def logging_tool(ctx: Context) -> str:
    """Log one line, for a client that asked for lines."""
    await ctx.log("This is a log line")
    return "Logged, if you wanted to hear it."


@tool("test_reconnection")
async def reconnection(ctx: Context) -> str:
    """Close the stream in the middle of the call; the result waits for whoever comes back."""
    ctx.close_stream()
    await asyncio.sleep(0.1)
    return "Reconnection test completed."


@tool("test_x_mcp_header", input_schema=HEADER_SCHEMA)
async def x_mcp_header(region: str = "") -> str:
    """Take a parameter that the client mirrors in a header."""
    return f"Region: {region}"


@tool("json_schema_2020_12_tool", input_schema=SCHEMA_2020_12)
async def json_schema(**given: Any) -> str:
    """Take a contact, described with what JSON Schema 2020-12 has to offer."""
    return f"Got {', '.join(sorted(given))}"


# --- tools that ask --------------------------------------------------------------------------------------------------


@tool("test_sampling")
async def sampling(prompt: str, ctx: Context) -> str:
    """Ask the client's model."""
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).text}"


@tool("test_elicitation")
async def elicitation(message: str, ctx: Context) -> str:
    """Ask the person for a name and an address."""
    fields = {"username": {"type": "string"}, "email": {"type": "string"}}
    answer = await ctx.elicit(message, {"type": "object", "properties": fields, "required": ["username", "email"]})
    return f"User response: {answer.action}, {answer.content}"


@tool("test_elicitation_sep1034_defaults")
async def elicitation_defaults(ctx: Context) -> str:
    """Ask with a default for every field."""
    fields = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    answer = await ctx.elicit("Please review the defaults.", {"type": "object", "properties": fields})
    return f"Elicitation completed: {answer.action}, {answer.content}"


@tool("test_elicitation_sep1330_enums")
async def elicitation_enums(ctx: Context) -> str:
    """Ask with every form of choice."""
    options = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Value {n}"} for n in (1, 2, 3)]
    fields = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    answer = await ctx.elicit("Please choose.", {"type": "object", "properties": fields})
    return f"Elicitation completed: {answer.action}, {answer.content}"


@tool("test_streaming_elicitation")
async def streaming_elicitation(ctx: Context) -> str:
    """Ask for a confirmation."""
    answer = await ctx.elicit("Go on?", OK, key="confirm")
    return f"Answered: {answer.action}"


@tool("test_missing_capability", requires_capabilities=["sampling"])
async def missing_capability() -> str:
    """Need a client that can sample."""
    return "The client can sample."


@tool("test_input_required_result_elicitation")
async def input_elicitation(ctx: Context) -> str:
    """Ask for a name and greet."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    return f"Hello, {answer.content['name']}!" if answer.accepted else f"No name: {answer.action}"


@tool("test_input_required_result_sampling")
async def input_sampling(ctx: Context) -> str:
    """Ask the client's model a question."""
    return (await ctx.sample("What is the capital of France?", max_tokens=100, key="capital_question")).text


@tool("test_input_required_result_list_roots")
async def input_roots(ctx: Context) -> str:
    """Ask for the client's folders."""
    return f"Roots: {', '.join(root.uri for root in await ctx.roots(key='client_roots'))}"


@tool("test_input_required_result_request_state")
async def input_request_state(ctx: Context) -> str:
    """Ask for a confirmation, with a state to bring back."""
    await ctx.elicit("Confirm?", OK, key="confirm")
    return "state-ok"


@tool("test_input_required_result_tampered_state")
async def input_tampered_state(ctx: Context) -> str:
    """Ask for a confirmation, with a state that must not be changed."""
    await ctx.elicit("Confirm?", OK, key="confirm")
    return "state-ok"


@tool("test_input_required_result_multiple_inputs")
async def input_multiple(ctx: Context) -> str:
    """Ask for three things at once."""
    answers = await ctx.ask_all(
        user_name=Elicit("What is your name?", NAME),
        greeting=Sample("Write a short greeting.", max_tokens=100),
        client_roots=Roots(),
    )
    return f"{len(answers)} answers"


@tool("test_input_required_result_multi_round")
async def input_multi_round(ctx: Context) -> str:
    """Ask in two rounds."""
    first = await ctx.elicit("Step 1: your name?", NAME, key="step1")
    color = {"type": "object", "properties": {"color": {"type": "string"}}}
    second = await ctx.elicit("Step 2: your colour?", color, key="step2")
    return f"{first.content.get('name')} likes {second.content.get('color')}"


@tool("test_input_required_result_capabilities")
async def input_capabilities(ctx: Context) -> str:
    """Ask only for what the client declared."""
    if ctx.opted("elicitation"):
        return f"Elicited: {(await ctx.elicit('Your name?', NAME, key='user_name')).action}"
    if ctx.opted("sampling"):
        return (await ctx.sample("Say hello.", max_tokens=50, key="hello")).text
    return f"{len(await ctx.roots(key='client_roots'))} roots"


# --- tools that run as tasks -----------------------------------------------------------------------------------------


@tool("greet")
async def greet(name: str) -> str:
    """Greet at once."""
    return f"Hello, {name}!"


@tool("slow_compute", task_support="optional", timeout=120)
async def slow_compute(seconds: float, label: str = "") -> str:
    """Take that many seconds."""
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds:g} s"


@tool("failing_job", task_support="required")
async def failing_job() -> str:
    """Fail after a while."""
    await asyncio.sleep(0.5)
    raise ToolError("The job failed, as it always does.")


@tool("protocol_error_job", task_support="optional")
async def protocol_error_job() -> str:
    """End with an error of the protocol."""
    await asyncio.sleep(0.2)
    raise ProtocolError(-32603, "The job could not be carried out")


@tool("confirm_delete", task_support="optional")
async def confirm_delete(filename: str, ctx: Context) -> str:
    """Ask before pretending to delete a file."""
    fields = {"confirm": {"type": "boolean"}}
    answer = await ctx.elicit(f"Delete {filename}?", {"type": "object", "properties": fields}, key="confirm")
    return f"Deleted {filename}" if answer.accepted else f"Kept {filename}"


@tool("multi_input", task_support="optional")
async def multi_input(ctx: Context) -> str:
    """Ask two things at once."""
    answers = await ctx.ask_all(first=Elicit("The first?", _ANY), second=Elicit("The second?", _ANY))
    return f"{len(answers)} answers"


@tool("test_tool_with_task", task_support="required", asks_before_task=True)
async def tool_with_task(ctx: Context) -> str:
    """Ask for a name, then greet as a task."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    await asyncio.sleep(0.2)
    return f"Hello, {answer.content['name']}!"


_ANY: dict[str, Any] = {"type": "object", "properties": {"value": {"type": "string"}}}

# --- tools that change the catalogue ---------------------------------------------------------------------------------


@tool("test_spare")
async def spare() -> str:
    """Be there to be changed."""
    return "spare"


@tool("test_trigger_tool_change")
async def trigger_tool_change() -> str:
    """Change the description of another tool."""
    await sync_to_async(_describe)("Tool", "test_spare")
    return "The list of tools has changed."


@tool("test_trigger_prompt_change")
async def trigger_prompt_change() -> str:
    """Change the description of a prompt."""
    await sync_to_async(_describe)("Prompt", "test_spare_prompt")
    return "The list of prompts has changed."


def _describe(model: str, name: str) -> None:
    from django.apps import apps

    row = apps.get_model("catalog", model).objects.get(name=name)
    row.description = f"Be there to be changed, last at {time.time_ns()}."
    row.save()


# --- prompts ---------------------------------------------------------------------------------------------------------


@prompt("test_simple_prompt")
async def simple_prompt() -> str:
    """Return a simple message."""
    return "This is a simple prompt for testing."


@prompt("test_prompt_with_arguments", complete={"arg1": ["testValue1", "testValue2"]})
async def prompt_with_arguments(arg1: str, arg2: str) -> str:
    """Return a message with two arguments in it."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@prompt("test_prompt_with_embedded_resource")
async def prompt_with_resource(resourceUri: str) -> list[Message]:
    """Return a message with a resource in it."""
    inner = EmbeddedResource(resourceUri, text="Embedded resource content for testing.", mime_type="text/plain")
    return [User(inner), User("Please process the embedded resource above.")]


@prompt("test_prompt_with_image")
async def prompt_with_image() -> list[Message]:
    """Return a message with an image in it."""
    return [User(Image(PNG, "image/png")), User(Text("Please analyze the image above."))]


@prompt("test_input_required_result_prompt")
async def input_prompt(ctx: Context) -> str:
    """Ask for context first."""
    fields = {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}
    answer = await ctx.elicit("What is the context?", fields, key="user_context")
    return f"Context: {answer.content.get('context', answer.action)}"


@prompt("test_spare_prompt")
async def spare_prompt() -> str:
    """Be there to be changed."""
    return "spare"


# --- resources -------------------------------------------------------------------------------------------------------


@resource("test://template/{id}/data", name="test_template", mime_type="application/json", complete={"id": ["123"]})
async def template(id: str) -> dict[str, Any]:
    """Data for an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


FIRST = ("test_simple_text",)
"""The first tool of the list is called without arguments by the suite."""


def load(username: str) -> None:
    """Publish every fixture to this user. Run again, it changes nothing."""
    from django.contrib.auth import get_user_model
    from django.db import transaction

    from catalog.models import Grant, Prompt, Resource, Tool, Toolset

    user = get_user_model().objects.get(username=username)
    mine = [(kind, name) for kind in ("tool", "prompt") for name in registry.list_functions(kind) if _ours(kind, name)]
    with transaction.atomic():
        toolset, made = Toolset.objects.get_or_create(name="Conformance")
        if not made:
            return
        for kind, name in mine:
            columns = registry.tool_row(name) if kind == "tool" else registry.prompt_row(name)
            row = (Tool if kind == "tool" else Prompt)(**columns, position=1 if name in FIRST else 50)
            row.full_clean()
            row.save()
            row.toolsets.add(toolset)
        text = {"mime_type": "text/plain", "text": "This is the content of the static text resource."}
        rows = [
            Resource(name="static-text", uri="test://static-text", position=1, **text),
            Resource(name="static-binary", uri="test://static-binary", mime_type="image/png", blob=PNG),
            Resource(name="watched-resource", uri="test://watched-resource", **{**text, "text": "Watched."}),
            Resource(name="example-resource", uri="test://example-resource", **{**text, "text": "An example."}),
            Resource(**registry.resource_row("test_template")),
        ]
        for resource_row in rows:
            resource_row.full_clean()
            resource_row.save()
            resource_row.toolsets.add(toolset)
        Grant.objects.create(toolset=toolset, user=user, note="For the conformance suite.")


def _ours(kind: Any, name: str) -> bool:
    return registry.lookup(kind, name).call.__module__ == __name__
