"""Functions behind the tools that the tests of the call pipeline publish."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from django.utils.translation import get_language, gettext
from pydantic import Field

from catalog.functions import Context, Elicit, Roots, Sample, SyncContext, tool
from catalog.functions.content import (
    Audio,
    EmbeddedResource,
    Image,
    ProtocolError,
    ResourceLink,
    Result,
    Structured,
    Text,
    ToolError,
)

RAN: list[str] = []
"""Names of the functions that ran, in order: what a test empties first and looks at last."""
GATES: dict[str, asyncio.Event] = {}
OPEN: dict[str, threading.Event] = {}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool("call_add")
async def add(a: float, b: float) -> float:
    """Add two numbers."""
    RAN.append("call_add")
    return a + b


@tool("call_ticket")
async def ticket(region: str, amount: int = 0, note: str = "", sender: dict[str, Any] | None = None) -> str:
    """Write a ticket; return the arguments as they came."""
    RAN.append("call_ticket")
    return json.dumps({"region": region, "amount": amount, "note": note, "sender": sender})


@tool("call_echo")
async def echo(value: Any) -> Any:
    """Return what it is given."""
    return value


@tool("call_language")
async def language() -> str:
    """Say something in the language at hand."""
    return f"{get_language()}: {gettext('This field is required.')}"


@tool("call_wait", timeout=60)
async def wait(label: str) -> str:
    """Wait until it is cancelled."""
    GATES[label].set()
    await asyncio.sleep(1000)
    return "never"


@tool("call_slow", timeout=0.2)
async def slow() -> str:
    """Take longer than it may."""
    await asyncio.sleep(1000)
    return "never"


@tool("call_stubborn", timeout=0.2)
async def stubborn() -> str:
    """Swallow its first cancellation."""
    try:
        await asyncio.sleep(1000)
    except asyncio.CancelledError:
        await asyncio.sleep(1000)
    return "never"


@tool("call_thread", timeout=60)
def in_thread(label: str, ctx: SyncContext) -> str:
    """Wait in a thread until told to stop."""
    ctx.progress(1, 2, "waiting")
    OPEN[label].set()
    stopped = ctx.cancelled.wait(60)
    RAN.append(f"{label} stopped" if stopped else f"{label} ran out")
    return "never"


@tool("call_blocked", timeout=0.3)
def blocked(label: str) -> str:
    """Ignore everything until the test lets it go."""
    OPEN[label].wait(60)
    return "late"


@tool("call_held", timeout=60)
def held(label: str) -> str:
    """Keep its thread until the test lets it go."""
    OPEN[label].wait(60)
    return "held"


@tool("call_double")
def double(n: int) -> str:
    """Double a number, in a thread."""
    return f"{n * 2!r} in {threading.current_thread().name.partition('-')[0]}"


@tool("call_error")
async def error() -> str:
    """Fail with a sentence."""
    raise ToolError("The moon is not full.")


@tool("call_coded")
async def coded(code: str) -> str:
    """Fail with a code."""
    raise ToolError("Not there.", code=code)


PNG = b"\x89PNG\r\n\x1a\n"
WAV = b"RIFF\x24\0\0\0WAVEfmt "


@tool("call_break")
async def break_() -> str:
    """Fail without one."""
    raise RuntimeError("password=hunter2 in /srv/secret")


@tool("call_exit")
async def leave() -> str:
    """Try to end the process."""
    sys.exit(3)


@tool("call_exit_thread")
def leave_thread() -> str:
    """Try to end the process from a thread."""
    sys.exit(3)


@tool("call_protocol")
async def protocol() -> str:
    """End with an error of the protocol."""
    raise ProtocolError(-31000, "Not today", {"why": "holiday"})


@tool("call_self_cancel")
async def self_cancel() -> str:
    """Raise the exception that means cancelled, uncancelled."""
    raise asyncio.CancelledError


@tool("call_steps")
async def steps(ctx: Context, values: list[float], total: float) -> str:
    """Report these values as progress."""
    for value in values:
        await ctx.progress(value, total, f"at {value:g}")
    await ctx.log({"n": len(values)}, "warning", "steps")
    return "done"


@tool("call_kinds")
async def kinds(which: str) -> Any:
    """Return one of everything."""
    made: dict[str, Any] = {
        "text": "plain",
        "none": None,
        "number": 42,
        "dict": {"b": 1, "a": [1, 2]},
        "list": ["a", 1],
        "tuple": Structured({"pair": (1, 2)}),
        "image": Image(PNG, "image/png"),
        "audio": Audio(WAV, "audio/wav"),
        "other image": Image(b"\xff\xd8\xff\xe0", "image/png"),
        "page": Image(b"<html><script>", "image/jpeg"),
        "other audio": Audio(PNG, "audio/x-unheard-of"),
        "escapes": "red \x1b[31malert\x1b[0m, \x07bell, \x1b]0;title\x07end",
        "hidden": "ab" + "".join(chr(0xE0000 + ord(letter)) for letter in "obey") + "c\u202edcba",
        "hidden inside": Structured({"k\u202e": ["\x1b[2J", {"deep": "\U000e0041"}]}),
        "resource": EmbeddedResource("test://a", text="inside", mime_type="text/plain"),
        "blob": EmbeddedResource("test://b", blob=b"\x00\x01"),
        "link": ResourceLink("https://example.com/x", "x\ny", size=3),
        "mixed": ["first", Image(PNG), Text("last")],
        "result": Result(["bad news"], is_error=True, meta={"n": 1}),
        "structured": Structured({"n": 1}, ["for people"]),
        "surrogate": "a\ud800b",
        "surrogate inside": {"k": "a\ud800b"},
        "nan": {"k": float("nan")},
        "bytes": b"raw",
        "bad base64": Image("not base64!", "image/png"),
        "bad mime": Image(b"x", "text/html"),
        "bad uri": ResourceLink("no scheme", "x"),
        "object": object(),
    }
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    return cycle if which == "cycle" else made[which]


@dataclass(slots=True)
class Weather:
    celsius: float
    sky: Literal["clear", "grey"]


@tool("call_weather")
async def weather(sky: str) -> Weather:
    """Say a weather that may not fit its own schema."""
    return Weather(21.5, sky)  # type: ignore[arg-type]


ANY_ROOT = {
    "anyOf": [
        {"type": "array", "items": {"type": "integer"}, "maxItems": 1000},
        {"type": ["null", "boolean", "number"]},
        {"type": "string", "maxLength": 5},
    ]
}


@tool("call_json", output_schema=ANY_ROOT)
async def json_value(value: str, how: str = "plain") -> Any:
    """Return the JSON value that is written in `value`."""
    found = json.loads(value)
    if how == "nothing":
        return Text("only text")
    return {
        "plain": found,
        "structured": Structured(found, [Text("in words")]),
        "result": Result([], Structured(found)),
    }[how]


@tool("call_large", max_result_bytes=2000)
async def large(size: int, kind: Annotated[str, Field(description="What to return.")] = "text") -> Any:
    """Return that much."""
    if kind == "image":
        return [Text("small"), Image(PNG + b"i" * (size - len(PNG)))]
    if kind == "structured":
        return Structured({"body": "s" * size})
    return "t" * size


@tool("call_large_weather", max_result_bytes=2000, output_schema={"type": "object"})
async def large_weather(size: int) -> Any:
    """Return that much where structured content is promised."""
    return {"body": "s" * size}


@tool("call_name")
async def name(ctx: Context, greeting: str = "Hello") -> str:
    """Ask for a name."""
    RAN.append("call_name")
    answer = await ctx.elicit("What is your name?", NAME, key="name")
    return f"{greeting}, {answer.content['name']}!" if answer.accepted else answer.action


@tool("call_name_thread")
def name_thread(ctx: SyncContext) -> str:
    """Ask for a name from a thread."""
    return f"Hello, {ctx.elicit('Who?', NAME).content['name']}!"


@tool("call_name_group")
async def name_group(ctx: Context, fails: bool = False) -> str:
    """Ask for two names in tasks of a group."""

    async def fail() -> None:
        raise ValueError("not a question")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.elicit("Who?", NAME, key=key)) for key in ("first", "second")]
        if fails:
            group.create_task(fail())
    return " and ".join(task.result().content["name"] for task in tasks)


@tool("call_ask_all")
async def ask_all(ctx: Context) -> str:
    """Ask for three things at once."""
    answers = await ctx.ask_all(who=Elicit("Who?", NAME), thought=Sample("Think", 50), where=Roots())
    who: Any = answers["who"]
    thought: Any = answers["thought"]
    where: Any = answers["where"]
    return f"{who.content['name']} {thought.text} {where[0].uri}"


@tool("call_brave")
async def brave(ctx: Context) -> str:
    """Ask, and go on when the client cannot be asked."""
    try:
        await ctx.sample("Think")
    except Exception as error:  # noqa: BLE001 - what a careless function does
        return f"without: {error}"
    return "with"


@tool("call_patient", timeout=0.5)
async def patient(ctx: Context) -> str:
    """Ask somebody who takes longer than the tool may."""
    await ctx.elicit("Take your time", NAME, key="name")
    return "thanks"


@tool("call_sampling", requires_capabilities=["sampling"])
async def sampling() -> str:
    """Need a client that samples."""
    return "sampled"


@tool("call_task", task_support="required")
async def task() -> str:
    """Run as a task only."""
    return "as a task"


@tool("call_task_after", task_support="required", asks_before_task=True)
async def task_after(ctx: Context) -> str:
    """Ask, then run as a task."""
    return (await ctx.elicit("Who?", NAME, key="name")).content["name"]


@tool("call_busy_loop", timeout=5)
def busy_loop(seconds: float) -> str:
    """Sleep in a thread."""
    time.sleep(seconds)
    return "slept"
