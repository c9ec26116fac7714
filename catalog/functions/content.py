"""Return values of functions: content blocks, structured data, messages of a prompt.

A function may also return plain values: text becomes a text block, a list with blocks in it becomes those blocks, and
anything else (numbers, dicts, dataclasses, pydantic models) becomes JSON text, plus structured content where the tool
has an output schema.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal

from catalog.errors import ClientLacks, ClientRefused, NeedsInput, ProtocolError, ToolError

__all__ = [
    "ABSENT",
    "Absent",
    "Assistant",
    "Audio",
    "ClientLacks",
    "ClientRefused",
    "Content",
    "EmbeddedResource",
    "Image",
    "NeedsInput",
    "ProtocolError",
    "ResourceLink",
    "Result",
    "Structured",
    "Text",
    "ToolError",
    "User",
]


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""No structured content. None is JSON's null, which is a value like any other (from 2026-07-28 on)."""


def _base64(data: bytes | str) -> str:
    return base64.b64encode(data).decode("ascii") if isinstance(data, bytes) else data


def _present(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value not in (None, "")}


@dataclass(slots=True)
class Text:
    text: str
    annotations: dict[str, Any] | None = None

    def wire(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text, **_present(annotations=self.annotations)}


@dataclass(slots=True)
class Image:
    data: bytes | str
    """The bytes themselves, or base64 text."""
    mime_type: str = "image/png"
    annotations: dict[str, Any] | None = None

    def wire(self) -> dict[str, Any]:
        data = _base64(self.data)
        return {"type": "image", "data": data, "mimeType": self.mime_type, **_present(annotations=self.annotations)}


@dataclass(slots=True)
class Audio:
    data: bytes | str
    """The bytes themselves, or base64 text."""
    mime_type: str = "audio/wav"
    annotations: dict[str, Any] | None = None

    def wire(self) -> dict[str, Any]:
        data = _base64(self.data)
        return {"type": "audio", "data": data, "mimeType": self.mime_type, **_present(annotations=self.annotations)}


@dataclass(slots=True)
class EmbeddedResource:
    uri: str
    text: str | None = None
    blob: bytes | str | None = None
    mime_type: str = ""
    annotations: dict[str, Any] | None = None

    def wire(self) -> dict[str, Any]:
        inner: dict[str, Any] = {"uri": self.uri, **_present(mimeType=self.mime_type)}
        if self.blob is None:
            inner["text"] = self.text or ""
        else:
            inner["blob"] = _base64(self.blob)
        return {"type": "resource", "resource": inner, **_present(annotations=self.annotations)}


@dataclass(slots=True)
class ResourceLink:
    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size: int | None = None

    def wire(self) -> dict[str, Any]:
        return {
            "type": "resource_link",
            "uri": self.uri,
            "name": self.name,
            **_present(title=self.title, description=self.description, mimeType=self.mime_type, size=self.size),
        }


@dataclass(slots=True)
class Structured:
    """Any JSON value for programs; `content` replaces the JSON text that the model would read otherwise."""

    value: Any
    content: list[Any] | None = None


@dataclass(slots=True)
class Result:
    """A complete result, for a function that sets `is_error` together with content, or sets `_meta`."""

    content: list[Any] = field(default_factory=list)
    structured: Any = None
    """A JSON value or a `Structured` with one; None is nothing, and `Structured(None)` is JSON's null."""
    is_error: bool = False
    meta: dict[str, Any] | None = None
    code: str = ""
    """The code of an error, by which hints are chosen."""


Content = Text | Image | Audio | EmbeddedResource | ResourceLink
BLOCKS = (Text, Image, Audio, EmbeddedResource, ResourceLink)


@dataclass(slots=True)
class Message:
    content: str | Content
    role: Literal["user", "assistant"] = "user"

    def wire(self) -> dict[str, Any]:
        content = self.content
        return {"role": self.role, "content": (Text(content) if isinstance(content, str) else content).wire()}


def User(content: str | Content) -> Message:
    """Return a message of a prompt in the user's voice."""
    return Message(content)


def Assistant(content: str | Content) -> Message:
    """Return a message of a prompt in the assistant's voice."""
    return Message(content, "assistant")
