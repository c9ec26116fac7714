"""Results of tried tools as parts that a template shows: text as text, pictures and sound from an address."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from audit import display
from audit.redaction import redactor
from audit.redaction.schema_fields import has_marks
from catalog.functions import media
from toolhub import invisible

MAX_PARTS = 200
"""Maximum parts of one result that a page shows."""
PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})
SOUND_TYPES = frozenset({"audio/mpeg", "audio/flac", "audio/ogg", "audio/wav", "audio/mp4"})


@dataclass(frozen=True, slots=True)
class Part:
    kind: str
    """text | json | image | audio | link | resource | file"""
    number: int
    text: str = ""
    title: str = ""
    uri: str = ""
    href: str = ""
    """Set only for web addresses; any other address is shown as text without a link."""
    mime: str = ""
    bytes: int = 0


def hide_marked(result: dict[str, Any], schema: Any) -> dict[str, Any]:
    """Return a result without the secrets that the output schema of its tool marks: the page shows what the log keeps.

    Where the schema marks none, nothing is hidden.
    """
    if not isinstance(schema, dict) or not has_marks(schema):
        return result
    logged = {"structuredContent" if name == "structured" else name: value for name, value in result.items()}
    shown: dict[str, Any] = redactor.result_redactor(schema).value(logged)
    return {"structured" if name == "structuredContent" else name: value for name, value in shown.items()}


def parts(content: list[dict[str, Any]]) -> list[Part]:
    return [_part(number, block) for number, block in enumerate(content[:MAX_PARTS])]


def format_json(value: Any) -> str:
    return display.format_body(json.dumps(value, ensure_ascii=False))


def decode_body(block: dict[str, Any]) -> tuple[bytes, str]:
    """Return the bytes of a picture, sound or file, and the detected media type ("" for neither picture nor sound).

    Raises LookupError when the part has none.
    """
    inner = block.get("resource", block)
    data = inner.get("data", inner.get("blob"))
    if not isinstance(data, str):
        raise LookupError
    try:
        raw = base64.b64decode(data)
    except binascii.Error:
        raise LookupError from None
    kind = media.kind_of(raw)
    return raw, kind if kind in PICTURE_TYPES or kind in SOUND_TYPES else ""


def _part(number: int, block: dict[str, Any]) -> Part:
    kind = str(block.get("type"))
    if kind == "text":
        return _text(number, str(block.get("text", "")))
    if kind in {"image", "audio"}:
        return _media(number, block, str(block.get("mimeType", "")))
    if kind == "resource_link":
        uri = str(block.get("uri", ""))
        title = str(block.get("title") or block.get("name") or uri)
        description = str(block.get("description") or "")
        return Part(
            "link",
            number,
            invisible.show(description),
            invisible.show(title),
            invisible.show(uri),
            _href(uri),
            _mime(block),
        )
    if kind == "resource" and isinstance(inner := block.get("resource"), dict):
        uri = invisible.show(str(inner.get("uri", "")))
        if "blob" in inner:
            found = _media(number, block, str(inner.get("mimeType", "")))
            return Part(found.kind, number, uri=uri, mime=found.mime, bytes=found.bytes)
        return Part("resource", number, display.format_body(str(inner.get("text", ""))), uri=uri, mime=_mime(inner))
    return Part("json", number, format_json(block))


def _text(number: int, text: str) -> Part:
    if text[:1] in {"{", "["}:
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            pass
        else:
            return Part("json", number, display.format_body(text))
    cut = text if len(text) <= display.MAX_TEXT_BYTES else text[: display.MAX_TEXT_BYTES] + "\n…"
    return Part("text", number, invisible.show(cut))


def _media(number: int, block: dict[str, Any], declared_type: str) -> Part:
    try:
        raw, kind = decode_body(block)
    except LookupError:
        return Part("json", number, format_json(block))
    shown = "image" if kind in PICTURE_TYPES else "audio" if kind in SOUND_TYPES else "file"
    return Part(shown, number, mime=kind or invisible.show(declared_type[:100]), bytes=len(raw))


def _mime(block: dict[str, Any]) -> str:
    return invisible.show(str(block.get("mimeType") or "")[:100])


def _href(uri: str) -> str:
    try:
        return uri if urlsplit(uri).scheme in {"http", "https"} else ""
    except ValueError:
        return ""
