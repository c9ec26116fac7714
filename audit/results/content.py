"""Content of results as parts that a template shows: text as text, pictures and sound from an address of this site."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from audit import display
from toolhub import invisible, media

MAX_PARTS = 200
"""Maximum parts of one result that a page shows."""
MAX_URI_CHARACTERS, MAX_TYPE_CHARACTERS = 2_000, 100
PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
SOUND_TYPES = frozenset({"audio/mpeg", "audio/flac", "audio/ogg", "audio/wav", "audio/mp4"})
Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    kind: str
    """text | json | image | audio | link | resource | file"""
    number: int
    text: str = ""
    truncated: bool = False
    """Whether `text` is the beginning only."""
    title: str = ""
    uri: str = ""
    href: str = ""
    """Set only for web addresses; any other address is shown as text without a link."""
    mime: str = ""
    bytes: int = 0
    address: str = ""
    """Where the bytes of a picture, sound or file come from."""
    role: str = ""
    """Who says it, in the message of a prompt."""


def blocks(value: Any) -> list[Block]:
    """Return the content blocks of a logged result: of a tool, the messages of a prompt, the contents of a resource."""
    if not isinstance(value, dict):
        return []
    if isinstance(found := value.get("content"), list):
        pass
    elif isinstance(messages := value.get("messages"), list):
        found = [
            {**one["content"], "role": one.get("role")} if isinstance(one.get("content"), dict) else one
            for one in messages
            if isinstance(one, dict)
        ]
    elif isinstance(contents := value.get("contents"), list):
        found = [{"type": "resource", "resource": one} for one in contents]
    else:
        return []
    return [one for one in found if isinstance(one, dict)]


def parts(found: list[Block], address: Callable[[int], str], max_bytes: int = display.MAX_TEXT_BYTES) -> list[Part]:
    """Return the first MAX_PARTS blocks as parts, whose texts have at most `max_bytes` bytes together in the page.

    `address` gives the address of a part's bytes by the number of its block.
    """
    shown = []
    for number, block in enumerate(found[:MAX_PARTS]):
        part = _part(number, block, max(max_bytes, 200))
        if part.kind in {"image", "audio", "file"}:
            part = replace(part, address=address(number))
        max_bytes -= display.count_page_bytes(part.text)
        role = block.get("role")
        shown.append(replace(part, role=invisible.show(role[:MAX_TYPE_CHARACTERS])) if isinstance(role, str) else part)
    return shown


def decode_body(block: Block) -> tuple[bytes, str]:
    """Return the bytes of a picture, sound or file, and the detected media type ("" for neither picture nor sound).

    Raises LookupError when the part has none.
    """
    inner = block.get("resource", block)
    if not isinstance(inner, dict):
        raise LookupError
    data = inner.get("data", inner.get("blob"))
    if not isinstance(data, str):
        raise LookupError
    try:
        raw = base64.b64decode(data)
    except (binascii.Error, ValueError):
        raise LookupError from None
    kind = media.kind_of(raw)
    return raw, kind if kind in PICTURE_TYPES or kind in SOUND_TYPES else ""


def _part(number: int, block: Block, room: int) -> Part:
    kind = str(block.get("type"))
    if kind == "text":
        return _text(number, str(block.get("text", "")), room)
    if kind in {"image", "audio"}:
        return _media(number, block, str(block.get("mimeType", "")), room)
    if kind == "resource_link":
        uri = str(block.get("uri", ""))[:MAX_URI_CHARACTERS]
        title = str(block.get("title") or block.get("name") or uri)[:MAX_URI_CHARACTERS]
        description = display.body(str(block.get("description") or ""), room)
        return Part(
            "link",
            number,
            description.text,
            description.truncated,
            invisible.show(title),
            invisible.show(uri),
            _href(uri),
            _mime(block),
        )
    if kind == "resource" and isinstance(inner := block.get("resource"), dict):
        uri = invisible.show(str(inner.get("uri", ""))[:MAX_URI_CHARACTERS])
        if "blob" in inner:
            return replace(_media(number, block, str(inner.get("mimeType", "")), room), uri=uri)
        body = display.body(str(inner.get("text", "")), room)
        return Part("resource", number, body.text, body.truncated, uri=uri, mime=_mime(inner))
    return _json(number, block, room)


def _text(number: int, text: str, room: int) -> Part:
    body = display.body(text, room)
    return Part("json" if _is_json(text) else "text", number, body.text, body.truncated)


def _is_json(text: str) -> bool:
    if text[:1] not in {"{", "["} or not display.is_parseable(text):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _json(number: int, block: Block, room: int) -> Part:
    body = display.body(json.dumps(block, ensure_ascii=False), room)
    return Part("json", number, body.text, body.truncated)


def _media(number: int, block: Block, declared_type: str, room: int) -> Part:
    try:
        raw, kind = decode_body(block)
    except LookupError:
        return _json(number, block, room)
    shown = "image" if kind in PICTURE_TYPES else "audio" if kind in SOUND_TYPES else "file"
    return Part(shown, number, mime=kind or invisible.show(declared_type[:MAX_TYPE_CHARACTERS]), bytes=len(raw))


def _mime(block: Block) -> str:
    return invisible.show(str(block.get("mimeType") or "")[:MAX_TYPE_CHARACTERS])


def _href(uri: str) -> str:
    try:
        return uri if urlsplit(uri).scheme in {"http", "https"} else ""
    except ValueError:
        return ""
