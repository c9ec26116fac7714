"""Client documents (OAuth Client ID Metadata Document): a client whose id is the https address of its own description.

django-oauth-toolkit decides when one is fetched, checks it and keeps it. It is fetched for a person who has signed in,
never for a request without one: otherwise anybody could have this server send requests.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import async_to_sync
from django.conf import settings
from oauth2_provider.cimd import CIMDError

from toolhub import egress, invisible
from toolhub.oauth import redirects
from toolhub.parts import parts

MAX_NAME_CHARACTERS, MAX_ID_CHARACTERS = 100, 255
_ID = re.compile(r"[\x21-\x7e]+")
MAY_FETCH = "toolhub.may_fetch"
"""A header that only our own code can set: those of requests are named HTTP_..."""
FETCH_SECONDS = 5.0
MAX_DOCUMENT_BYTES = 16_384
MIN_KEEP_SECONDS, MAX_KEEP_SECONDS = 300, 86_400
_MAX_AGE = re.compile(r"max-age\s*=\s*(\d{1,9})", re.IGNORECASE)


def is_client_id(text: object) -> bool:
    """Return whether this can be the id of a client: anything else is unknown, and no database is asked for it."""
    return isinstance(text, str) and 0 < len(text) <= MAX_ID_CHARACTERS and _ID.fullmatch(text) is not None


class Permission:
    """Whether a client document may be fetched now."""

    def has_permission(self, request: Any, client_id: str) -> bool:
        if not request.headers.get(MAY_FETCH):
            return False
        try:
            return are_read() and may_register({urlsplit(client_id).hostname or ""})
        except ValueError:
            return False


class Fetcher:
    """Fetches client documents through `toolhub.egress`."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the document and the seconds to keep it. Raises CIMDError."""
        _check_address(client_id)
        try:
            reply = async_to_sync(egress.fetch)(
                "GET",
                client_id,
                headers={"Accept": "application/json"},
                timeout=FETCH_SECONDS,
                max_bytes=MAX_DOCUMENT_BYTES,
                resolver=parts.get(egress.NameResolver).resolve,
                allowed=egress.parse_allowed(settings.CLIENT_NETWORKS),
            )
        except egress.EgressError as error:
            raise CIMDError(str(error)) from error
        if reply.status != 200:
            raise CIMDError(f"the address answers with status {reply.status}")
        if reply.media_type != "application/json" and not re.fullmatch(r"application/[\w.-]+\+json", reply.media_type):
            raise CIMDError(f"the document is {reply.media_type or 'of no type'}, not application/json")
        try:
            document = json.loads(reply.body)
        except (ValueError, RecursionError) as error:
            raise CIMDError("the document is not valid JSON") from error
        if not isinstance(document, dict):
            raise CIMDError("the document is not a JSON object")
        check_redirects(document.get("redirect_uris"))
        grants = document.get("grant_types", ["authorization_code"])
        if not isinstance(grants, list) or "authorization_code" not in grants:
            raise CIMDError("grant_types must contain authorization_code")
        document["grant_types"] = ["authorization_code"]  # the others are not offered here
        # Required by MCP (2026-07-28, "Client ID Metadata Documents"), not by the draft.
        name = document.get("client_name")
        if not isinstance(name, str) or not clean_name(name):
            raise CIMDError("client_name must be a text")
        document["client_name"] = clean_name(name)
        return document, find_keep_seconds(reply.headers.get("cache-control", ""))


def check_redirects(addresses: object) -> None:
    """Check the redirect addresses of a document. Raises CIMDError."""
    if not isinstance(addresses, list) or not 0 < len(addresses) <= redirects.MAX_ADDRESSES:
        raise CIMDError(f"redirect_uris must list 1 to {redirects.MAX_ADDRESSES} addresses")
    for address in addresses:
        if problem := redirects.find_problem(address):
            raise CIMDError(f"redirect_uris: {problem}")


def clean_name(name: str) -> str:
    """Return the name that a client gives itself as one short line in which nothing is hidden."""
    shown = invisible.show(name.encode("utf-8", "ignore").decode())
    return " ".join(shown.split())[:MAX_NAME_CHARACTERS]


def find_keep_seconds(cache_control: str) -> int:
    lowered = cache_control.lower()
    if "no-store" in lowered or "no-cache" in lowered:
        return MIN_KEEP_SECONDS
    found = _MAX_AGE.search(lowered)
    return min(MAX_KEEP_SECONDS, max(MIN_KEEP_SECONDS, int(found[1]))) if found else MAX_KEEP_SECONDS


def may_register(hosts: set[str]) -> bool:
    """Return whether clients with these hosts, and schemes of applications such as "cursor:", may register."""
    if settings.CLIENT_REGISTRATION == "listed":
        return bool(hosts) and all(host.lower() in settings.CLIENT_HOSTS for host in hosts)
    return bool(settings.CLIENT_REGISTRATION == "anyone")


def may_register_at_all() -> bool:
    return bool(settings.CLIENT_REGISTRATION != "nobody")


def are_read() -> bool:
    """Return whether a client that is not known here may introduce itself with its document."""
    return bool(settings.CLIENT_DOCUMENTS) and may_register_at_all()


def _check_address(client_id: str) -> None:
    """Check the id (draft-ietf-oauth-client-id-metadata-document, section 3). Raises CIMDError."""
    try:
        address = urlsplit(client_id)
        _ = address.port
    except ValueError:
        raise CIMDError("the id is no valid address") from None
    segments = address.path.split("/")
    if (
        not client_id.startswith("https://")
        # People are shown this host as the proof of who asks: no letters that look like others, and one spelling.
        or not redirects.HOST.fullmatch(address.netloc.rpartition(":")[0] or address.netloc)
        or not address.path.strip("/")
        or "@" in address.netloc
        or "#" in client_id
        or {".", ".."} & set(segments)
    ):
        raise CIMDError("the id must be an https address with a path, without a user, a fragment or dot segments")
