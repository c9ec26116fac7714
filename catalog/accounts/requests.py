"""Requests to services and their authorization servers, all through `toolhub.egress`.

What a service names decides where the next request goes. So a private network is reached only at an address that an
administrator entered: a service outside cannot lead this server to addresses inside.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from catalog.accounts.problems import AccountProblem
from catalog.runners import destinations, networks
from catalog.runners.settings_errors import SettingsProblem
from toolhub import egress, invisible

if TYPE_CHECKING:
    import httpx2

TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 262_144
MAX_SHOWN_CHARACTERS = 200
MAX_TEXT_CHARACTERS = 2_000
"""Maximum characters of an address, a scope or a client ID, as the columns have them."""
FORM = "application/x-www-form-urlencoded"
_LENGTHS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers about the form of a body that `toolhub.egress` has already unpacked."""


def show(text: object) -> str:
    """Return a text of a service as a short line in which nothing is hidden."""
    shown = " ".join(invisible.show(str(text)[: MAX_SHOWN_CHARACTERS * 4]).split())
    return shown[:MAX_SHOWN_CHARACTERS]


def host_of(url: str) -> str:
    """Return the origin of an address for people; the address itself if it is none."""
    try:
        return egress.origin_of(url).removeprefix("https://")
    except egress.DeniedAddress:
        return show(url)


def is_text(value: str, most: int = MAX_TEXT_CHARACTERS) -> bool:
    """Return whether a text of a service is one that our tables and headers can hold: printable ASCII, not too long."""
    return 0 < len(value) <= most and value.isascii() and value.isprintable()


def check_address(url: str, entered: frozenset[str]) -> str:
    """Return the address. Raises AccountProblem unless it is https, or on this machine itself and entered by hand."""
    try:
        destinations.check_https(url)
        secure = url.lower().startswith("https://") or egress.origin_of(url) in entered
    except (SettingsProblem, egress.DeniedAddress):
        secure = False
    if not secure or not is_text(url):
        raise AccountProblem("insecure", where=show(url))
    return url


async def get(url: str, entered: frozenset[str]) -> httpx2.Response:
    """Return the answer to a GET for JSON, whatever its status. Raises AccountProblem."""
    from mcp.client.auth.utils import create_oauth_metadata_request

    headers = dict(create_oauth_metadata_request(url).headers)
    version = {name: value for name, value in headers.items() if name.startswith("mcp-")}
    return await _send("GET", url, entered, {"Accept": "application/json, text/event-stream", **version}, None)


async def post_form(
    url: str, entered: frozenset[str], form: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> httpx2.Response:
    """Return the answer to a form, whatever its status. Raises AccountProblem."""
    named = {"Accept": "application/json", "Content-Type": FORM, **(headers or {})}
    return await _send("POST", url, entered, named, urlencode(form).encode())


async def post_json(url: str, entered: frozenset[str], body: Mapping[str, Any]) -> httpx2.Response:
    """Return the answer to a JSON object, whatever its status. Raises AccountProblem."""
    named = {"Accept": "application/json", "Content-Type": "application/json"}
    return await _send("POST", url, entered, named, json.dumps(body).encode())


async def _send(
    method: str, url: str, entered: frozenset[str], headers: Mapping[str, str], content: bytes | None
) -> httpx2.Response:
    import httpx2

    check_address(url, entered)
    try:
        reply = await egress.fetch(
            method,
            url,
            headers=headers,
            content=content,
            timeout=TIMEOUT_SECONDS,
            max_bytes=MAX_ANSWER_BYTES,
            resolver=networks.resolver(),
            allowed=networks.allowed() if egress.origin_of(url) in entered else (),
        )
    except egress.EgressError as error:
        raise AccountProblem("unreachable", where=host_of(url), why=str(error)) from error
    kept = {name: value for name, value in reply.headers.items() if name not in _LENGTHS}
    return httpx2.Response(reply.status, headers=kept, content=reply.body, request=httpx2.Request(method, url))


def read_json(response: httpx2.Response) -> dict[str, Any]:
    """Return the JSON object of an answer; {} for anything else."""
    try:
        found = json.loads(response.content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
