"""Names from a document: of tools, arguments, and their descriptions."""

from __future__ import annotations

import re
from typing import Any

from catalog.openapi.schemas import plain_text

MAX_NAME_CHARACTERS = 64
"""Maximum length of a tool name that clients accept, in characters."""
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


def tool_name(operation: dict[str, Any], method: str, path: str) -> str:
    """Return the tool's name: operationId made valid, else method_path."""
    given = operation.get("operationId")
    text = (
        given
        if isinstance(given, str) and re.search(r"[A-Za-z0-9]", given)
        else method + "_" + re.sub(r"[{}]", "", path)
    )
    name = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_.-]", "_", text)).strip("_.-")
    return name[:MAX_NAME_CHARACTERS].rstrip("_.-") or method


def title(operation: dict[str, Any]) -> str:
    return " ".join(plain_text(operation.get("summary"), 200).split())


def description(operation: dict[str, Any], method: str, path: str) -> str:
    """Return summary and description, limited in length; never empty, because models choose tools by it."""
    summary, more = plain_text(operation.get("summary"), 300), plain_text(operation.get("description"), 1_700)
    if more.startswith(summary):
        summary = ""
    found = f"{summary.rstrip('.')}. {more}" if summary and more else summary or more
    return found or f"{method.upper()} {plain_text(path, 500)}"


class Arguments:
    """The argument names of one tool: each unique, those in the path valid between braces."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def take(self, name: str, place: str) -> str:
        wanted = name
        if not _ARGUMENT.fullmatch(name) or (place == "path" and not (name.isascii() and name.isidentifier())):
            wanted = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")[:MAX_NAME_CHARACTERS] or place
            wanted = wanted if wanted.isidentifier() else f"_{wanted}"
        found, number = wanted, 2
        if found in self.taken:
            found = f"{wanted}_{place}"
        while found in self.taken:
            found, number = f"{wanted}_{place}{number}", number + 1
        self.taken.add(found)
        return found
