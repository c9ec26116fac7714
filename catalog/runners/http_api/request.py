"""One request from settings and arguments: every value is sent as its exact text, or is rejected.

Secrets are filled in here and nowhere earlier.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets as random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from catalog.errors import ToolError
from catalog.functions.results import clean_text, dump
from catalog.runners.http_api.settings import PLACEHOLDER, FilePart, Settings
from catalog.runners.secret_refs import names, reveal, reveal_all
from toolhub import egress

COOKIE_VALUE = re.compile(r"[!#-+\--:<-\[\]-~]*")
"""RFC 6265: no blanks, quotes, commas, semicolons, backslashes."""
FORM_TYPE = "application/x-www-form-urlencoded"
_IN_PART = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


@dataclass(frozen=True, slots=True)
class Request:
    url: str
    headers: dict[str, str]
    content: bytes | None


class Builder:
    """A builder of requests for the settings of one tool, which it reads once."""

    __slots__ = ("_cookies", "_headers", "_query", "_revealing", "_settings", "_used")

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._revealing = bool(names(settings))
        self._used = {
            *PLACEHOLDER.findall(settings.url),
            *settings.query.values(),
            *settings.headers.values(),
            *settings.cookies.values(),
            *(part.argument for part in settings.files.values()),
            *(part.filename_argument for part in settings.files.values()),
        }
        plain = not self._revealing
        self._query: list[tuple[str, str]] = [*self._texts(settings.static_query, {}).items()] if plain else []
        self._headers = self._texts(settings.static_headers, {}) if plain else {}
        self._cookies = self._texts(settings.static_cookies, {}) if plain else {}

    def build(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> Request:
        """Return the request for these arguments. Raises ToolError and egress.Denied for values that cannot be sent."""
        settings = self._settings
        query, fixed, cookies = self._query, self._headers, self._cookies
        if self._revealing:
            query = [*self._texts(settings.static_query, secrets).items()]
            fixed = self._texts(settings.static_headers, secrets)
            cookies = self._texts(settings.static_cookies, secrets)
        url = egress.ensure_below(settings.base, self._address(arguments, query))
        content, content_type = self._content(arguments, secrets)
        headers = dict(fixed)
        for name, argument in settings.headers.items():
            value = arguments.get(argument)
            if value is not None:
                headers[name] = _text(value)
        if settings.cookies or cookies:
            self._add_cookies(headers, cookies, arguments)
        if content_type and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = settings.content_type or content_type
        return Request(url, headers, content)

    @staticmethod
    def _texts(given: Mapping[str, Any], secrets: Mapping[str, str]) -> dict[str, str]:
        return {name: reveal(value, secrets) for name, value in given.items()}

    def _address(self, arguments: Mapping[str, Any], fixed: list[tuple[str, str]]) -> str:
        def fill(match: re.Match[str]) -> str:
            if arguments.get(match[1]) is None:
                raise ToolError(f"The argument {match[1]} is required for the address.")
            value = arguments[match[1]]
            return egress.safe_path_value(clean_text(value) if isinstance(value, str) else value)

        url = PLACEHOLDER.sub(fill, self._settings.url)
        pairs = list(fixed)
        for name, argument in self._settings.query.items():
            value = arguments.get(argument)
            if isinstance(value, list):
                items = [_text(item) for item in value if item is not None]
                if self._settings.query_lists == "comma":
                    items = [",".join(items)] if items else []
                pairs += [(name, item) for item in items]
            elif value is not None:
                pairs.append((name, _text(value)))
        return f"{url}?{urlencode(pairs, quote_via=quote)}" if pairs else url

    def _add_cookies(self, headers: dict[str, str], fixed: dict[str, str], arguments: Mapping[str, Any]) -> None:
        found = dict(fixed)
        for name, argument in self._settings.cookies.items():
            # Values fixed by the administrator cannot be overridden.
            if arguments.get(argument) is not None and name not in fixed:
                value = _text(arguments[argument])
                if not COOKIE_VALUE.fullmatch(value):
                    raise ToolError(
                        f"The argument {argument} cannot be sent as a cookie: no blanks, quotes, commas, "
                        "semicolons, backslashes or characters outside of ASCII."
                    )
                found[name] = value
        if found:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in found.items())

    def _content(self, arguments: Mapping[str, Any], secrets: Mapping[str, str]) -> tuple[bytes | None, str]:
        settings = self._settings
        if settings.body_argument:
            return self._whole(arguments.get(settings.body_argument))
        if settings.body is None and not settings.static_body and not settings.files:
            return None, ""
        if settings.body == "*":
            given = {name: value for name, value in arguments.items() if name not in self._used}
        else:
            wanted = settings.body or {}
            given = {name: arguments[source] for name, source in wanted.items() if arguments.get(source) is not None}
        fixed = reveal_all(settings.static_body, secrets) if self._revealing else settings.static_body
        # Values fixed by the administrator cannot be overridden.
        body = {**given, **fixed}
        if settings.body_format == "json":
            return _json(body), "application/json"
        if settings.body_format == "form":
            pairs = [(name, _text(item)) for name, value in body.items() for item in _items(value)]
            return urlencode(pairs).encode(), FORM_TYPE
        return self._multipart(body, arguments)

    def _whole(self, value: Any) -> tuple[bytes | None, str]:
        name, form = self._settings.body_argument, self._settings.body_format
        if value is None:
            return None, ""
        if form == "json":
            return _json(value), "application/json"
        if not isinstance(value, str):
            raise ToolError(f"The argument {name} must be text.")
        if form == "text":
            return clean_text(value).encode(), "text/plain; charset=utf-8"
        return _decoded(value, name), "application/octet-stream"

    def _multipart(self, body: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[bytes, str]:
        parts: list[tuple[str, bytes]] = []
        for name, value in body.items():
            for item in _items(value):
                parts.append((f'Content-Disposition: form-data; name="{_quoted(name)}"', _text(item).encode()))
        for name, part in self._settings.files.items():
            if arguments.get(part.argument) is not None:
                head = (
                    f'Content-Disposition: form-data; name="{_quoted(name)}"; '
                    f'filename="{_quoted(_filename(part, arguments))}"\r\nContent-Type: {part.content_type}'
                )
                parts.append((head, _decoded(arguments[part.argument], part.argument)))
        # The boundary cannot be guessed, so no value can end its part.
        boundary = random.token_hex(24)
        lines = [f"--{boundary}\r\n{head}\r\n\r\n".encode() + content + b"\r\n" for head, content in parts]
        return b"".join([*lines, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"


def _filename(part: FilePart, arguments: Mapping[str, Any]) -> str:
    given = arguments.get(part.filename_argument) if part.filename_argument else None
    if given is None:
        return part.filename
    name = _text(given)
    if name in ("", ".", "..") or len(name) > 255 or re.search(r"[/\\\x00-\x1f\x7f]", name):
        raise ToolError(
            f"The argument {part.filename_argument} is not a valid file name. Use 1 to 255 characters "
            "without slashes and control characters."
        )
    return name


def _quoted(text: str) -> str:
    return clean_text(text).translate(_IN_PART)


def _decoded(value: Any, argument: str) -> bytes:
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (AttributeError, binascii.Error, ValueError):
        raise ToolError(f"The argument {argument} must be base64.") from None


def _items(value: Any) -> list[Any]:
    """Return the values of a form field: a list gives its items one after the other, null items are left out."""
    return [item for item in value if item is not None] if isinstance(value, list) else [value]


def _json(value: Any) -> bytes:
    return clean_text(dump(value)).encode()


def _text(value: Any) -> str:
    return clean_text(value if isinstance(value, str) else dump(value))
