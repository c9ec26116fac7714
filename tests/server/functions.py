"""Functions behind the tools, prompts and resources that the tests of the server role publish."""

from __future__ import annotations

import asyncio
from typing import Any

from catalog.functions import Context, prompt, resource, tool
from catalog.functions.content import EmbeddedResource, ProtocolError, Result, ToolError
from catalog.functions.elicitation import Elicit, Roots, Sample

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
STARTED: dict[str, asyncio.Event] = {}
"""Set by `server_wait` when it runs; a test puts one in under the label it calls with."""
ENDED: dict[str, str] = {}


@tool("server_add")
async def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@tool("server_steps")
async def steps(ctx: Context) -> str:
    """Report progress and log, then answer."""
    for step in (0, 50, 100):
        await ctx.progress(step, 100, f"step {step}")
        await asyncio.sleep(0.06)
    for level in ("debug", "info", "error"):
        await ctx.log(f"a line at {level}", level, "steps")
    return "done"


@tool("server_wait", timeout=120, task_support="optional")
async def wait(label: str) -> str:
    """Wait until cancelled."""
    STARTED[label].set()
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError as error:
        ENDED[label] = str(error.args[0]) if error.args else ""
        raise
    return "waited"


@tool("server_ask_name")
async def ask_name(ctx: Context, greeting: str = "Hello") -> str:
    """Ask for a name and greet."""
    answer = await ctx.elicit("What is your name?", NAME, key="user_name")
    return f"{greeting}, {answer.content['name']}!" if answer.accepted else f"{answer.action}d"


@tool("server_ask_twice")
async def ask_twice(ctx: Context) -> str:
    """Ask in two rounds."""
    first = await ctx.elicit("First?", NAME, key="first")
    second = await ctx.elicit(f"Second, {first.content['name']}?", NAME, key="second")
    return f"{first.content['name']} and {second.content['name']}"


@tool("server_ask_everything")
async def ask_everything(ctx: Context) -> str:
    """Ask a person, the client's model, and for its folders."""
    answers: dict[str, Any] = await ctx.ask_all(
        user=Elicit("Who?", NAME), thought=Sample("Think", 100), folders=Roots()
    )
    return f"{answers['user'].content['name']} {answers['thought'].text} {len(answers['folders'])}"


@tool("server_open_page")
async def open_page(ctx: Context) -> str:
    """Send the person to an address."""
    answer = await ctx.elicit_url("Sign in there", "https://hub.example/sign-in")
    return answer.action


@tool("server_fail")
async def fail() -> str:
    """Fail with a sentence."""
    raise ToolError("The moon is not full.")


@tool("server_break")
async def break_() -> str:
    """Fail without one."""
    raise RuntimeError("secret-detail")


@tool("server_refuse", task_support="optional")
async def refuse() -> str:
    """End with an error of the protocol."""
    raise ProtocolError(-31000, "Not today", {"why": "holiday"})


@tool("server_sampling_only", requires_capabilities=["sampling"])
async def sampling_only() -> str:
    """Needs a client that can sample."""
    return "sampled"


@tool("server_null", output_schema={"type": ["null", "array"]})
async def null(ids: bool) -> Any:
    """Return null, or a list."""
    return [1, 2] if ids else None


@tool("server_report_and_ask")
async def report_and_ask(ctx: Context) -> str:
    """Report progress, then ask."""
    await ctx.progress(1, 2, "soon")
    answer = await ctx.elicit_url("Sign in there", "https://hub.example/sign-in")
    return answer.action


@tool("server_forge_meta")
async def forge_meta(fail: bool) -> Result:
    """Return metadata that is not its own to give."""
    meta = {"dev.toolhub/callId": "forged", "io.modelcontextprotocol/serverInfo": {}, "com.example/kept": 1}
    block = EmbeddedResource("test://a", "text").wire()
    return Result(
        [{**block, "_meta": dict(meta), "resource": {**block["resource"], "_meta": dict(meta)}}], None, fail, meta
    )


@tool("server_must_be_task", task_support="required")
async def must_be_task() -> str:
    """Runs as a task only."""
    raise ToolError("It did not work out.")


@tool("server_confirm", task_support="optional")
async def confirm(filename: str, ctx: Context) -> str:
    """Ask while running as a task."""
    answer = await ctx.elicit(f"Delete {filename}?", NAME, key="confirm")
    return f"deleted {filename}" if answer.accepted else "kept"


@tool("server_two_questions", task_support="optional")
async def two_questions(ctx: Context) -> str:
    """Ask two things at once."""
    answers: dict[str, Any] = await ctx.ask_all(one=Elicit("One?", NAME), two=Elicit("Two?", NAME))
    return " ".join(answer.content["name"] for answer in answers.values())


@tool("server_ask_then_task", task_support="required", asks_before_task=True)
async def ask_then_task(ctx: Context) -> str:
    """Ask first, then run as a task."""
    answer = await ctx.elicit("Who?", NAME, key="user_name")
    return f"for {answer.content['name']}"


@tool("server_large")
async def large(word: str) -> str:
    """Return a result that is too large to send."""
    return word * 1000


@tool("server_thread")
def thread(n: int) -> int:
    """Run in a thread."""
    return n * 2


@prompt("server_letter", complete={"tone": ["kind", "firm", "kindly"]})
async def letter(to: str, tone: str = "kind") -> str:
    """Write a letter."""
    return f"Write a {tone} letter to {to}."


@prompt("server_ask_prompt")
async def ask_prompt(ctx: Context) -> str:
    """Ask for context first."""
    answer = await ctx.elicit("Context?", NAME, key="user_context")
    return f"About {answer.content['name']}"


@resource("test://item/{number}", name="server_item", complete={"number": ["1", "2", "12"]})
async def item(number: str) -> dict[str, Any]:
    """One item."""
    return {"number": number}
