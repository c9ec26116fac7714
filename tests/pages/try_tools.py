"""Tools that the tests of Try it run: slow ones, ones that ask, and one that returns every kind of content."""

from __future__ import annotations

import asyncio
import base64
import io
import wave
from pathlib import Path
from typing import Any

from catalog.functions import Context, tool
from catalog.functions.content import Audio, EmbeddedResource, Image, ResourceLink, Result, Structured, Text

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFUlEQVR4nGP4//8/AxAzMDAwMDAAACT+Av5+Vv5tAAAAAElFTkSuQmCC"
)
LARGE_CHARACTERS = 200_000
NAME = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer", "minimum": 1}},
    "required": ["name"],
}


def sound() -> bytes:
    held = io.BytesIO()
    with wave.open(held, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(1)
        out.setframerate(8000)
        out.writeframes(bytes(800))
    return held.getvalue()


@tool("try_steps")
async def steps(go_on: str, ctx: Context) -> str:
    """Reports progress, and goes on when the file is there."""
    await ctx.progress(1, 3, "the first step")
    await ctx.log("looked around")
    while not Path(go_on).exists():
        await asyncio.sleep(0.05)
    await ctx.progress(3, 3, "done")
    return f"{ctx.username} went on"


@tool("try_ask")
async def ask(ctx: Context) -> str:
    """Asks for a name."""
    answer: Any = await ctx.elicit("What is your <b>name</b>?", NAME)
    return f"{answer.action} {answer.content}"


@tool(
    "try_secret",
    output_schema={
        "type": "object",
        "properties": {"account": {"type": "string"}, "opening": {"type": "string", "format": "password"}},
    },
)
async def secret() -> Structured:
    """Returns a value that its schema marks as secret, also in its text."""
    return Structured({"account": "Ann", "opening": "sesame-4711"}, [Text("Say sesame-4711 at the door of Ann.")])


@tool("try_sample")
async def sample(ctx: Context) -> str:
    """Wants a model, which a page does not have."""
    return (await ctx.sample("Think")).text


@tool("try_everything")
async def everything() -> Result:
    """Returns every kind of content."""
    return Result(
        [
            Text(f"plain {HOSTILE}"),
            Text('{"b": 1, "a": [2]}'),
            Image(PICTURE),
            Audio(sound()),
            Image(b"<svg onload=alert(1)>", "image/svg+xml"),
            ResourceLink("https://example.com/report", HOSTILE, description="A report"),
            ResourceLink("file:///etc/passwd", "not of the web"),
            EmbeddedResource("docs://page", text=HOSTILE, mime_type="text/html"),
        ]
    )


@tool("try_large")
async def large(ctx: Context) -> str:
    """Returns much."""
    await ctx.log("a long line: " + "l" * 1_900)
    return "x" * LARGE_CHARACTERS
