"""`$ref` inside one document: nothing is fetched, and no reference is followed endlessly."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from django.utils.translation import gettext as _

from toolhub.wire import json_pointer

MAX_HOPS = 16
MAX_WORK_STEPS = 400_000
"""Maximum number of subschemas expanded for all operations of a document together."""


class OperationError(Exception):
    """A sentence with the reason why one operation cannot become a tool."""


class References:
    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._work = 0

    def spend(self) -> None:
        self._work += 1
        if self._work > MAX_WORK_STEPS:
            large = _(
                "The document is too large. The schemas of earlier operations used up the limit. Split the document."
            )
            raise OperationError(large)

    def target(self, reference: Any) -> Any:
        """Return the target of a reference. Raises OperationError unless it is inside the document."""
        if not isinstance(reference, str):
            raise OperationError(_('A "$ref" is not text.'))
        shown = {"reference": reference[:200]}
        if not reference.startswith("#"):
            raise OperationError(_('"$ref": %(reference)s is outside the document and is not fetched.') % shown)
        if not reference.startswith("#/"):
            raise OperationError(_('"$ref": %(reference)s is not a path such as #/components/schemas/Pet.') % shown)
        found: Any = self._document
        for step in reference[2:].split("/"):
            name = json_pointer.unescape(unquote(step))
            if isinstance(found, dict) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name[:6]) < len(found):
                found = found[int(name[:6])]
            else:
                raise OperationError(_('"$ref": %(reference)s is not in the document.') % shown)
        return found

    def resolve(self, value: Any) -> dict[str, Any]:
        """Return a parameter, body, response or path item itself, behind any number of references."""
        for _hop in range(MAX_HOPS):
            if not isinstance(value, dict):
                raise OperationError(_("A value in the document must be an object, but is not."))
            if "$ref" not in value:
                return value
            value = self.target(value["$ref"])
        raise OperationError(
            _('"$ref" passes through more than %(most)d references, or forms a loop.') % {"most": MAX_HOPS}
        )
