"""The members of a source's definition, and the columns that hold them, for tools, resources and prompts.

A definition is a dict in the shape of the protocol's lists; `settings` is added by importers that make the settings of
a tool type too, `ui` is the member of that name in `_meta`, and `text` or `blob` the content of a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from catalog.functions.results import clean_name, clean_text
from catalog.models.base import CatalogueItem
from catalog.models.items import Prompt, Resource
from catalog.models.tools import Tool

IDENTITIES: Final = ("uri", "uriTemplate", "name")
"""The members by which a source knows an item; the first of them that is there counts."""
MEMBERS: Final[Mapping[type[CatalogueItem], tuple[str, ...]]] = {
    Tool: ("title", "description", "inputSchema", "outputSchema", "annotations", "settings", "icons", "ui"),
    Resource: ("name", "title", "description", "mimeType", "annotations", "text", "blob", "icons", "ui"),
    Prompt: ("title", "description", "arguments", "icons"),
}
"""The members that an item takes over, in the order in which a review shows them."""
ALL_MEMBERS: Final = tuple(dict.fromkeys((*IDENTITIES, *(name for names in MEMBERS.values() for name in names))))
OPTIONAL: Final = ("icons", "ui")
"""Members that are kept only where a setting of the source says so."""
HINTS: Final = {
    "readOnlyHint": "read_only",
    "destructiveHint": "destructive",
    "idempotentHint": "idempotent",
    "openWorldHint": "open_world",
}
_COLUMNS: Final = {"inputSchema": "input_schema", "outputSchema": "output_schema", "mimeType": "mime_type", "ui": "app"}
_EMPTY: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("title", "description", "mimeType", "name"), ""),
    **dict.fromkeys(("icons", "arguments"), ()),
    "annotations": {},
}


def columns(model: type[CatalogueItem]) -> tuple[str, ...]:
    """Return the columns of an item that hold the members of its source's definition."""
    names: list[str] = []
    for member in MEMBERS[model]:
        if member == "annotations" and model is Tool:
            names += ["annotation_title", *HINTS.values()]
        else:
            names.append(_COLUMNS.get(member, member))
    return tuple(names)


def identity(definition: Mapping[str, Any]) -> str:
    """Return the name, address or address template by which the source knows the item; empty for no definition."""
    return next((str(definition[member]) for member in IDENTITIES if definition.get(member)), "")


def own_value(row: CatalogueItem, member: str) -> Any:
    """Return the item's own value in the shape of a definition."""
    if member == "annotations" and isinstance(row, Tool):
        hints = {hint: getattr(row, column) for hint, column in HINTS.items() if getattr(row, column) is not None}
        return {**({"title": row.annotation_title} if row.annotation_title else {}), **hints}
    return getattr(row, _COLUMNS.get(member, member))


def is_unedited(row: CatalogueItem, before: Mapping[str, Any], member: str) -> bool:
    """Return whether the item still has the value of `before`, the definition that it was filled from."""
    own, other = own_value(row, member), before.get(member)
    return bool(own == (_empty(member) if other is None else other))


def set_member(row: CatalogueItem, member: str, value: Any) -> None:
    """Copy one member of a definition to its columns. Raises ValidationError for a tool without an input schema."""
    if member == "annotations" and isinstance(row, Tool):
        hints = value if isinstance(value, dict) else {}
        row.annotation_title = _text(hints.get("title"))[:200]
        for hint, column in HINTS.items():
            given = hints.get(hint)
            setattr(row, column, given if isinstance(given, bool) else None)
    elif member == "inputSchema":
        if not isinstance(value, dict):
            raise ValidationError({"input_schema": _("The definition has no input schema.")})
        row.input_schema = value  # type: ignore[attr-defined]
    elif member == "settings":
        if isinstance(value, dict):
            row.settings = value  # type: ignore[attr-defined]
    elif member in ("title", "description", "name", "mimeType"):
        text = _text(value) if member == "description" else clean_name(_text(value))
        setattr(row, _COLUMNS.get(member, member), text)
    else:
        setattr(row, _COLUMNS.get(member, member), _empty(member) if value is None else value)


def _text(value: Any) -> str:
    return clean_text(str(value or "")).replace("\0", "\ufffd")


def _empty(member: str) -> Any:
    found = _EMPTY.get(member)
    return list(found) if isinstance(found, tuple) else found
