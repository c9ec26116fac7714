"""Lookup of the page of a call or change by any identifier in the audit log."""

from __future__ import annotations

import re
from uuid import UUID

from django.urls import reverse

from audit.format import chain
from audit.models import Action, Call, Link

_ID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE)
_LINK = re.compile(r"(?:link )?([0-9]{1,7}):([0-9]{1,12})")
_MAX_TEXT_CHARACTERS = 300


def find_url(text: str) -> str:
    """Return the URL of the call or change that the text names; empty when there is none."""
    row = find_row(text)
    return "" if row is None else row_address(row)


def row_address(row: Call | Action) -> str:
    """Return the URL of the page of a call or change."""
    return reverse(f"admin:audit_{row._meta.model_name}_change", args=(row.pk,))


def find_row(text: str) -> Call | Action | None:
    """Return the call or change that the text names, without its bodies; None when there is none.

    The text may be its id in any spelling, alone or inside a sentence such as an error message, or one of its links as
    `writer:sequence`.
    """
    text = text.strip()[:_MAX_TEXT_CHARACTERS]
    if match := _LINK.fullmatch(text):
        writer, sequence = int(match[1]), int(match[2])
        link = (
            Link.objects.filter(pk=chain.link_id(writer, sequence)).first()
            if sequence >> chain.SEQUENCE_BITS == 0
            else None
        )
        text = link.subject if link is not None else ""
    if (match := _ID.search(text)) is None:
        return None
    key = UUID(match[0])
    return (
        Call.objects.only("id", "name", "username", "outcome").filter(pk=key).first()
        or Action.objects.only("id", "actor", "verb", "kind", "target").filter(pk=key).first()
    )
