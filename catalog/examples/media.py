"""Example tools for the other kinds of content, and for a question to the person."""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field

from catalog.examples.results import Facts, with_sentence
from catalog.functions import Context, result_schema, tool
from catalog.functions.content import Audio, EmbeddedResource, Image, ResourceLink, Structured, ToolError

RATE = 8000
"""Samples of sound in a second."""
BAR, GAP, HEIGHT = 24, 8, 120
"""Pixels of a bar, between two bars, and of the highest one."""
_BACKGROUND, _COLOUR = b"\xff\xff\xff", b"\x00\x7a\x6c"


@dataclass(slots=True)
class Picture(Facts):
    width: int
    """In pixels."""
    height: int
    """In pixels."""
    mime_type: str
    """image/png."""


@tool(
    title="Draw a bar chart",
    read_only=True,
    idempotent=True,
    open_world=False,
    output_schema=result_schema(Picture),
)
def draw_chart(
    values: Annotated[
        list[Annotated[float, Field(ge=0, le=1e12)]],
        Field(description="The heights of the bars, as in [3, 1, 4].", min_length=1, max_length=50),
    ],
) -> Structured:
    """Create a bar chart of numbers and return it as a PNG picture. Use it to show a person a few numbers at a glance,
    or to try how a client shows pictures. Changes nothing."""
    highest = max(values) or 1.0
    width = GAP + len(values) * (BAR + GAP)
    tops = [round(value / highest * HEIGHT) for value in values]
    lines = []
    for row in range(HEIGHT, 0, -1):
        line = _BACKGROUND * GAP
        for top in tops:
            line += (_COLOUR if row <= top else _BACKGROUND) * BAR + _BACKGROUND * GAP
        lines.append(b"\0" + line)
    picture = Image(_png(width, HEIGHT, b"".join(lines)), "image/png")
    return with_sentence(Picture(width, HEIGHT, "image/png"), f"A chart with {len(values)} bars.", picture)


@dataclass(slots=True)
class Sound(Facts):
    hertz: float
    """The pitch."""
    seconds: float
    """How long it sounds."""
    mime_type: str
    """audio/wav."""


@tool(title="Play a tone", read_only=True, idempotent=True, open_world=False, output_schema=result_schema(Sound))
def play_tone(
    hertz: Annotated[float, Field(description="The pitch, as in 440 for the note A.", ge=50, le=3500)] = 440,
    seconds: Annotated[float, Field(description="How long it sounds.", ge=0.1, le=5)] = 1,
) -> Structured:
    """Make a tone and return it as a WAV sound. Use it to try how a client plays sounds. Changes nothing."""
    count = int(RATE * seconds)
    samples = b"".join(
        struct.pack("<h", int(12_000 * math.sin(2 * math.pi * hertz * step / RATE))) for step in range(count)
    )
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16, 1, 1, RATE, RATE * 2, 2, 16, b"data", len(samples))  # fmt: skip  # noqa: E501
    sound = Audio(header + samples, "audio/wav")
    facts = Sound(hertz, seconds, "audio/wav")
    return with_sentence(facts, f"A tone of {hertz:g} Hz, {seconds:g} s long.", sound)


@dataclass(slots=True)
class Attached(Facts):
    uris: list[str]
    """The URIs of what is attached."""


@tool(title="Attach a guide", read_only=True, idempotent=True, open_world=False, output_schema=result_schema(Attached))
def attach_guide() -> Structured:
    """Return a short text as an embedded resource, and a link to the guide of the examples. Use it to try how a client
    shows resources in a result. Changes nothing.
    """
    note, guide = "note://toolhub-examples/welcome", "toolhub-examples://guide"
    embedded = EmbeddedResource(note, text="# Welcome\n\nThis text came as a resource.", mime_type="text/markdown")
    link = ResourceLink(guide, "guide", title="Guide to the examples", mime_type="text/markdown")
    return with_sentence(Attached([note, guide]), "A note, and a link to the guide.", embedded, link)


class _Greeting(BaseModel):
    name: str = Field(description="What you want to be called.", min_length=1, max_length=100)


@dataclass(slots=True)
class Answer(Facts):
    action: str
    """accept, decline or cancel."""
    name: str
    """The name that the person gave; empty without one."""


@tool(
    title="Ask me",
    read_only=True,
    idempotent=True,
    open_world=False,
    timeout=600,
    output_schema=result_schema(Answer),
    requires_capabilities=("elicitation",),
)
async def ask_me(ctx: Context) -> Structured:
    """Ask the person for a name in a form of the client, and greet them. Use it to try how a client shows the question
    of a tool. Changes nothing."""
    answer = await ctx.elicit("What is your name?", _Greeting, key="name")
    name = str((answer.content or {}).get("name", "")) if answer.action == "accept" else ""
    if answer.action == "accept" and not name.strip():
        raise ToolError("The answer has no name.")
    sentence = f"Hello, {name}." if name else f"No name: the answer was {answer.action}."
    return with_sentence(Answer(answer.action, name), sentence)


def _png(width: int, height: int, lines: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
