"""The result of a tool from an answer: JSON, text, an image, audio, or bytes to store."""

from __future__ import annotations

import json
import re
from typing import Any

from catalog import threads
from catalog.errors import ToolError
from catalog.functions.content import Audio, EmbeddedResource, Image, Structured, Text
from catalog.functions.results import MIME_TYPE
from catalog.runners.http_api.json_path import parse_path, select
from catalog.runners.http_api.settings import Settings
from toolhub import egress, invisible, media
from toolhub.wire.json_size import MAX_VALUES, has_too_many_values

MAX_EXCERPT_CHARACTERS = 500
MAX_INLINE_BYTES = 1_048_576
"""Size above which a JSON text is parsed off the event loop."""
_TEXT_TYPES = frozenset({"application/xml", "application/javascript", "application/yaml", "image/svg+xml"})


class ResponseConverter:
    """A converter of answers for the settings of one tool, which it reads once."""

    __slots__ = ("_path", "_settings")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._path = parse_path(settings.select)

    async def content(self, reply: egress.Reply, url: str) -> Any:
        """Return the content of an answer. Raises ToolError for an error, or when it does not fit the settings."""
        if reply.status >= 400:
            sentence = (
                f"The API answered with status {reply.status}{_asked_pause(reply)}. {excerpt(reply.text)}".strip()
            )
            raise ToolError(sentence, code=str(reply.status), rejected=reply.status == 401)
        if 300 <= reply.status < 400:
            why = f"The API answered with a redirect (status {reply.status}), which is not followed."
            if "location" not in reply.headers:
                raise ToolError(why)
            # The target of the redirect is not checked, so that the message is the same as for every other denied
            # address.
            raise ToolError(f"The request failed: {egress.DeniedAddress.SENTENCE}.", audit_message=why)
        wanted: str = self._settings.response
        if not reply.body:
            return self._empty(reply, wanted)
        if wanted == "auto":
            wanted = _detect_format(reply)
        if wanted == "text":
            return Text(reply.text)
        if wanted == "json":
            return await self._json(reply)
        if wanted == "binary":
            kind = reply.media_type if MIME_TYPE.fullmatch(reply.media_type) else "application/octet-stream"
            # The URL without its query, which may hold a secret.
            return EmbeddedResource(url.partition("?")[0], blob=reply.body, mime_type=kind)
        return _convert_media(reply, wanted)

    def _empty(self, reply: egress.Reply, wanted: str) -> Any:
        if self._settings.select:
            return Structured(None)
        if wanted in ("image", "audio", "binary"):
            raise ToolError(f"The API answered with status {reply.status} and no content.")
        return Text(f"The API answered with status {reply.status} and no content.")

    async def _json(self, reply: egress.Reply) -> Any:
        try:
            size = len(reply.body)
            value = await threads.checks().run(lambda: _read(reply)) if size > MAX_INLINE_BYTES else _read(reply)
        except (ValueError, RecursionError):
            raise ToolError(f"The API did not answer with JSON. {excerpt(reply.text)}".strip()) from None
        if self._path:
            value = select(value, self._path)
        return _select_members(value, self._settings.keep) if self._settings.keep else value


def _asked_pause(reply: egress.Reply) -> str:
    """Return how long the API asks to wait before the next request (RFC 9110, 10.2.3); empty when it does not."""
    seconds = reply.headers.get("retry-after", "")
    asked = reply.status in (429, 503) and seconds.isascii() and seconds.isdigit() and len(seconds) <= 6
    return f" and asks to wait {int(seconds)} s" if asked else ""


def _select_members(value: Any, members: list[str]) -> Any:
    if isinstance(value, list):
        return [_select_members(item, members) if isinstance(item, dict) else item for item in value]
    return {name: value[name] for name in members if name in value} if isinstance(value, dict) else value


def _convert_media(reply: egress.Reply, wanted: str) -> Image | Audio:
    found = media.kind_of(reply.body)
    article = "an image" if wanted == "image" else "audio"
    if not found.startswith(f"{wanted}/"):
        raise ToolError(f"The API did not answer with {article}, despite its content type.")
    claimed = reply.media_type
    if claimed.startswith(("image/", "audio/", "video/", "text/")) and not media.matches_type(reply.body, claimed):
        raise ToolError(f"The API labels its response {claimed[:100]}, but its bytes are {found}.")
    return Image(reply.body, found) if wanted == "image" else Audio(reply.body, found)


def _detect_format(reply: egress.Reply) -> str:
    kind = reply.media_type
    if kind == "application/json" or kind.endswith("+json"):
        return "json"
    if kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith("+xml"):
        return "text"
    family = kind.partition("/")[0]
    # Bytes that are no image or audio are stored as the type that they are.
    return family if family in ("image", "audio") and media.kind_of(reply.body).startswith(family) else "binary"


def _read(reply: egress.Reply) -> Any:
    def refuse(name: str) -> Any:
        raise ValueError(name)

    if has_too_many_values(reply.body):
        raise ToolError(f"The API's answer has more than {MAX_VALUES:,} values. Ask it for less.")
    return json.loads(reply.text, parse_constant=refuse)


def excerpt(text: str) -> str:
    """Return the beginning of an error answer on one line, without markup and control characters."""
    text = re.sub(r"<(script|style)\b.*?</\1\s*>", " ", text[:20_000], flags=re.DOTALL | re.IGNORECASE)
    text = re.sub(r"<[^<>]{0,500}>", " ", text)
    text = " ".join(invisible.remove(text).split())
    return text if len(text) <= MAX_EXCERPT_CHARACTERS else text[:MAX_EXCERPT_CHARACTERS] + " ..."
