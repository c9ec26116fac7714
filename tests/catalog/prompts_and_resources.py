"""Functions behind the prompts and resources that the tests of the call pipeline publish."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from catalog.functions import Context, prompt, resource
from catalog.functions.content import Assistant, EmbeddedResource, Image, Message, ToolError, User

RAN: list[str] = []
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


BROKEN: dict[str, Any] = {
    "interrupt": KeyboardInterrupt,
    "group": lambda text: BaseExceptionGroup(text, [KeyboardInterrupt()]),
    "cancelled": asyncio.CancelledError,
    "exit": SystemExit,
    "closed": GeneratorExit,
}


def _tones(typed: str, earlier: dict[str, str]) -> list[str]:
    return [f"{earlier.get('to', 'nobody')}-{n}" for n in range(150) if typed in f"{n}"]


async def _broken(typed: str) -> list[str]:
    if typed == "wait":
        RAN.append("waits")
        await asyncio.Event().wait()
    raise BROKEN.get(typed, RuntimeError)("no suggestions")


@prompt("sample_letter", complete={"to": ["Ada", "Alan", "Grace"], "tone": _tones, "place": _broken})
async def letter(
    to: str, tone: str = "kind", place: str = "", form: Literal["short", "long"] = "short"
) -> list[Message]:
    """Write a letter."""
    RAN.append("sample_letter")
    return [
        User(f"Write a {form} {tone} letter to {to}{place}."),
        Assistant("Gladly."),
        User(Image(b"\x89PNG\r\n\x1a\n")),
    ]


@prompt("sample_thread")
def in_thread() -> str:
    """Made in a thread."""
    return "from a thread"


@prompt("sample_ask")
async def ask(ctx: Context) -> str:
    """Asks first."""
    return f"About {(await ctx.elicit('Whom?', NAME, key='who')).content['name']}"


@prompt("sample_fail")
async def fail(how: str) -> Any:
    """Fails."""
    if how == "sentence":
        raise ToolError("The archive is closed.")
    if how == "shape":
        return {"role": "robot", "content": "x"}
    raise RuntimeError("password=hunter2")


@resource("sample://{kind}/{number}", name="sample_template", complete={"kind": ["book", "film"]})
async def item(kind: str, number: str) -> Any:
    """One thing."""
    RAN.append(f"{kind} {number}")
    if kind == "bytes":
        return b"\x00\x01"
    if kind == "json":
        return {"number": number}
    if kind == "several":
        return [EmbeddedResource(f"sample://part/{n}", text=str(n), mime_type="text/plain") for n in range(2)]
    if kind == "nothing":
        return None
    if kind == "broken":
        raise RuntimeError("password=hunter2")
    if kind == "slow":
        await asyncio.sleep(1000)
    return f"{kind} number {number}"


@resource("sample-clock://now", name="sample_clock", mime_type="text/markdown")
def clock() -> str:
    """Always new."""
    return "# now"
