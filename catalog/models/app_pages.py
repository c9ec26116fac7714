"""Pages that a client shows beside a call (MCP Apps, extension `io.modelcontextprotocol/ui`, SEP-1865)."""

from __future__ import annotations

import re
from typing import Any

from django.utils.translation import gettext_lazy as _

from catalog.canonical import dumps
from catalog.models.fields import reject

SCHEME = "ui://"
ADDRESS = re.compile(r"ui://[^\s<>\x00-\x20\x7f-\x9f\"'`\\^|{}]{1,490}")
_HOST = re.compile(r"[A-Za-z0-9.:/*_\[\]-]{1,500}")
MAX_CHARACTERS = 10_000
RESOURCE_MEMBERS = ("csp", "permissions", "domain", "prefersBorder")


def is_page(address: str) -> bool:
    return address.startswith(SCHEME)


def check_tool(value: Any) -> None:
    """Check the `_meta.ui` of a tool: the address of its page, and who may call the tool (MCP Apps)."""
    _check_app(value, {"resourceUri", "visibility"})
    address = value.get("resourceUri")
    if address is not None and not (isinstance(address, str) and ADDRESS.fullmatch(address)):
        reject(_('"resourceUri" must be the address of a page, such as ui://weather/map.'))
    seen = value.get("visibility", ["model"])
    if not isinstance(seen, list) or not seen or not all(one in ("model", "app") for one in seen):
        reject(_('"visibility" must be a list of "model" and "app".'))


def check_resource(value: Any) -> None:
    """Check the `_meta.ui` of a page: what its sandbox may do (MCP Apps)."""
    _check_app(value, set(RESOURCE_MEMBERS))
    csp = value.get("csp", {})
    if not isinstance(csp, dict) or not all(
        isinstance(hosts, list) and all(isinstance(host, str) and _HOST.fullmatch(host) for host in hosts)
        for hosts in csp.values()
    ):
        reject(_('"csp" must have lists of addresses, such as {"connectDomains": ["https://api.example.com"]}.'))
    if not isinstance(value.get("permissions", {}), dict):
        reject(_('"permissions" must be an object such as {"camera": {}}.'))
    if not isinstance(value.get("domain", ""), str) or not isinstance(value.get("prefersBorder", True), bool):
        reject(_('"domain" must be text, and "prefersBorder" true or false.'))


def _check_app(value: Any, known: set[str]) -> None:
    if not isinstance(value, dict):
        reject(_("Enter an object."))
    if unknown := set(value) - known:
        reject(_('"%(member)s" is not a known key. Remove it.'), member=sorted(unknown)[0])
    if len(dumps(value)) > MAX_CHARACTERS:
        reject(_("This is too large. The maximum is %(most)s characters."), most=f"{MAX_CHARACTERS:,}")
