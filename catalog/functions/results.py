"""Results of calls, and the conversion of a function's return value to content blocks that are safe to send.

All output is plain JSON data in the shape of the newest protocol revision: text without lone surrogates, base64 that
decodes, names without control characters.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pydantic_core import PydanticSerializationError, to_jsonable_python

from catalog.errors import ToolError
from catalog.functions.content import ABSENT, BLOCKS, Result, Structured, Text
from catalog.functions.sanitise import format_note, is_clean, sanitise_text
from toolhub import media
from toolhub.wire import meta

dump = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

MIME_TYPE = re.compile(
    r"[A-Za-z0-9!#$&^_.+-]{1,127}/[A-Za-z0-9!#$&^_.+-]{1,127}(?:\s*;\s*[A-Za-z0-9_.-]+=[^\x00-\x1f\x7f]{1,200})*"
)
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20\x7f<>\"`{}\\^|]+")
BINARY = frozenset({"data", "blob"})
BLOCK_TYPES = frozenset({"text", "image", "audio", "resource", "resource_link"})


@dataclass(slots=True)
class ToolResult:
    content: list[dict[str, Any]]
    structured: Any
    """Any JSON value, null included, or ABSENT."""
    is_error: bool
    meta: dict[str, Any] | None
    call_id: UUID
    size: int = 0
    """Approximate size on the wire, in bytes."""


@dataclass(slots=True)
class PromptResult:
    description: str
    messages: list[dict[str, Any]]
    call_id: UUID


@dataclass(slots=True)
class ResourceResult:
    contents: list[dict[str, Any]]
    call_id: UUID


@dataclass(slots=True)
class Produced:
    """A result before it is measured against the limit and logged."""

    content: list[dict[str, Any]]
    structured: Any = ABSENT
    """Any JSON value, null included, or ABSENT."""
    is_error: bool = False
    meta: dict[str, Any] | None = None
    size: int = 0
    """Approximate size on the wire, in bytes."""


class BadResult(ToolError):
    """A return value that cannot be sent. The message goes to the caller, so it contains nothing of the value."""


def produce(value: Any, structured: bool = False) -> Produced:
    """Return the result for a function's return value; `structured` when its tool has an output schema."""
    if type(value) is str and not structured:
        return _text(value)
    if isinstance(value, Produced):
        return value
    if isinstance(value, Result):
        inner = value.structured.value if isinstance(value.structured, Structured) else value.structured
        present = inner is not None or value.structured is not None
        produced = _structured(inner, value.content or None) if present else _blocks(value.content)
        produced.is_error = value.is_error
        produced.meta = _foreign_meta(to_plain_json(value.meta)[0]) or None
        return produced
    if isinstance(value, Structured):
        return _structured(value.value, value.content)
    if isinstance(value, BLOCKS):
        return _blocks((value,))
    if isinstance(value, list | tuple) and any(isinstance(item, BLOCKS) for item in value):
        return _blocks(value)
    if value is None and not structured:
        return Produced([])
    if isinstance(value, bytes):
        raise BadResult("The tool returned bytes without a type. It must return Image, Audio or EmbeddedResource.")
    if structured:
        return _structured(value, None)
    if type(value) is str:
        return _text(value)
    return _text(_json_text(value))


def failure(sentence: str, meta: dict[str, Any] | None = None) -> Produced:
    """Return a result with `isError` and a message for the model."""
    produced = _text(sentence)
    produced.is_error, produced.meta = True, meta
    return produced


def _text(text: str) -> Produced:
    text = clean_text(text)
    if not is_clean(text):
        return _sanitise_content([{"type": "text", "text": text}])
    return Produced([{"type": "text", "text": text}], size=utf8_length(text))


def _sanitise_content(content: list[dict[str, Any]], structured: Any = ABSENT) -> Produced:
    """Return a sanitised result with a note that says how many places were changed."""
    total = 0

    def clean(value: Any) -> Any:
        nonlocal total
        if isinstance(value, str):
            value, changed = sanitise_text(value)
            total += changed
            return value
        if isinstance(value, dict):
            return {clean(str(name)): inner if name in BINARY else clean(inner) for name, inner in value.items()}
        return [clean(item) for item in value] if isinstance(value, list) else value

    structured = clean(structured)
    in_data, total = total, 0
    content = [clean(block) for block in content]
    if total or in_data:
        # The text mostly repeats the data: the note counts the changes once, not each time they are shown.
        content.append({"type": "text", "text": format_note(max(total, in_data))})
    size = sum(size_of_block(item) for item in content)
    return Produced(content, structured, size=size + (0 if structured is ABSENT else utf8_length(dump(structured))))


def utf8_length(text: str) -> int:
    """Return the length in bytes as UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def clean_text(text: str) -> str:
    """Return `text` in a form that can be sent as UTF-8: a lone surrogate becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean_name(text: str) -> str:
    """Return a name, title or address on one line, without control characters."""
    return CONTROL.sub("", clean_text(text))[:2000]


def exact_text(value: object) -> str:
    """Return `str(value)` as a plain string: a subclass of str could run code wherever it is used later."""
    return str.__str__(str(value))


def to_plain_json(value: Any) -> tuple[Any, str]:
    """Return (the value as plain JSON data, its text): exact dicts, lists, texts and numbers, never subclasses.

    Raises BadResult for values that JSON cannot hold: cycles, NaN, objects.
    """
    try:
        value = to_jsonable_python(value)
        text = dump(value)
    except (ValueError, TypeError, RecursionError, PydanticSerializationError):
        raise BadResult("The tool returned a value that cannot be written as JSON.") from None
    cleaned = clean_text(text)
    if cleaned is not text and cleaned != text:
        return json.loads(cleaned), cleaned
    return value, text


def _json_text(value: Any) -> str:
    """Return the value as JSON text. Raises BadResult for values that JSON cannot hold."""
    try:
        return clean_text(dump(value))
    except TypeError:
        return to_plain_json(value)[1]
    except (ValueError, RecursionError):
        raise BadResult("The tool returned a value that cannot be written as JSON.") from None


def _structured(value: Any, content: Iterable[Any] | None) -> Produced:
    try:
        value = to_jsonable_python(value)  # tuples become lists, which is what a schema calls an array
    except (ValueError, RecursionError, PydanticSerializationError):
        raise BadResult("The tool returned a value that cannot be written as JSON.") from None
    value, text = to_plain_json(value)
    if _json_needs_sanitising(text):
        cleaned = _sanitise_content([], value)
        value, text = cleaned.structured, dump(cleaned.structured)
        if content is None:
            return Produced([{"type": "text", "text": text}, *cleaned.content], value, size=2 * utf8_length(text))
    if content is None:
        return Produced([{"type": "text", "text": text}], value, size=2 * utf8_length(text))
    produced = _blocks(content)
    produced.structured = value
    produced.size += utf8_length(text)
    return produced


def _blocks(items: Iterable[Any]) -> Produced:
    content = [block(item) for item in items]
    if any(_needs_sanitising(item) for item in content):
        return _sanitise_content(content)
    return Produced(content, size=sum(size_of_block(item) for item in content))


def _needs_sanitising(item: dict[str, Any]) -> bool:
    if item["type"] == "text" and item.keys() <= {"type", "text"}:
        return not is_clean(item["text"])
    return _json_needs_sanitising(dump({name: value for name, value in item.items() if name not in BINARY}))


def _json_needs_sanitising(text: str) -> bool:
    """Return whether strings in this JSON text may need sanitising: control characters are escaped in it."""
    return "\\u00" in text or "\x7f" in text or not is_clean(text)


def block(item: Any) -> dict[str, Any]:
    """Return one content block, from a helper, from text or from a dict in the shape of the protocol."""
    if isinstance(item, str):
        return {"type": "text", "text": clean_text(exact_text(item))}
    if isinstance(item, Text) and item.annotations is None:
        return {"type": "text", "text": clean_text(exact_text(item.text))}
    if isinstance(item, BLOCKS):
        item = item.wire()
    if not isinstance(item, dict) or item.get("type") not in BLOCK_TYPES:
        return {"type": "text", "text": _json_text(item)}
    made: dict[str, Any] = to_plain_json(item)[0]
    made = dict(made)
    if "_meta" in made:
        made["_meta"] = _foreign_meta(made["_meta"])
    match made["type"]:
        case "text":
            made["text"] = str(made.get("text", ""))
        case "image" | "audio":
            made["data"] = _base64(made.get("data"))
            made["mimeType"] = _mime_type(made.get("mimeType"), made["type"])
            _check_media_type(made)
        case "resource":
            made["resource"] = resource_content(made.get("resource"))
        case "resource_link":
            made |= {"uri": uri(made.get("uri")), "name": clean_name(str(made.get("name") or made.get("uri")))}
            made |= {key: clean_name(str(made[key])) for key in ("title", "mimeType") if key in made}
    return made


def resource_content(value: Any) -> dict[str, Any]:
    """Return {uri, mimeType?, text | blob} for `contents` of resources/read and for an embedded resource."""
    if not isinstance(value, dict):
        raise BadResult("The tool returned a resource without content.")
    made: dict[str, Any] = {"uri": uri(value.get("uri"))}
    if value.get("mimeType"):
        made["mimeType"] = _mime_type(value["mimeType"], "")
    if value.get("blob") is not None:
        made["blob"] = _base64(value["blob"])
    else:
        made["text"] = clean_text(str(value.get("text") or ""))
    if isinstance(value.get("_meta"), dict):
        made["_meta"] = _foreign_meta(value["_meta"])
    return made


def uri(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 8192 or not URI.fullmatch(value):
        raise BadResult("The tool returned a resource whose address is not a URI.")
    return clean_text(value)


def _base64(value: Any) -> str:
    """Return `value`. Raises BadResult unless it is base64 text that decodes."""
    if not isinstance(value, str):
        raise BadResult("The tool returned binary content that is not base64.")
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise BadResult("The tool returned binary content that is not valid base64.") from None
    return value


def _check_media_type(made: dict[str, Any]) -> None:
    """Raise BadResult unless the bytes have the declared MIME type, as far as it can be detected from them."""
    data = base64.b64decode(made["data"][:64])
    found, claimed = media.kind_of(data), made["mimeType"].partition(";")[0].strip().lower()
    if (found or claimed in media.DETECTABLE_TYPES) and not media.matches_type(data, claimed):
        what = f"are {found}" if found else "are not"
        raise BadResult(f"The tool returned {made['type']} data labelled {claimed}, but the bytes {what}.")


def _foreign_meta(value: Any) -> dict[str, Any]:
    return meta.foreign(value) if isinstance(value, dict) else {}


def _mime_type(value: Any, family: str) -> str:
    if not isinstance(value, str) or not MIME_TYPE.fullmatch(value) or (family and not value.startswith(f"{family}/")):
        kind = f"an {family}" if family else "a resource"
        raise BadResult(f"The tool returned {kind} whose MIME type is not valid.")
    return value


def size_of_block(item: dict[str, Any]) -> int:
    """Return the approximate size of a block in bytes."""
    inner = item["resource"] if item["type"] == "resource" else item
    return utf8_length(inner.get("text") or inner.get("data") or inner.get("blob") or "") + 64


def size_of(value: Any, limit: int) -> int:
    """Return the approximate size of `value` as JSON, in bytes.

    Counting stops above `limit`, so huge values cost little.
    """
    total, stack = 0, [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is str:
            total += 2 + utf8_length(item)
        elif kind is dict:
            total += 2
            for key, entry in item.items():
                total += len(key) + 4
                stack.append(entry)
        elif kind is list:
            total += 2 + len(item)
            stack.extend(item)
        else:
            total += 4 if item is None or kind is bool else len(repr(item))
        if total > limit:
            break
    return total
