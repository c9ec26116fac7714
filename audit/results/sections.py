"""Arguments and result as the sections of a page of a call: the administrator's and the user's are the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from audit import display
from audit.models import Call
from audit.results import content, kept, tables

MAX_RENDERED_BYTES = 40_000
"""Maximum bytes in the page of the contents by kind, of the facts and tables, and then of the text itself, each."""


@dataclass(slots=True)
class Section:
    """One body of a call."""

    name: str
    title: str
    body: display.Body
    notes: list[str]
    downloads: list[tuple[str, str]]
    """Address and label."""
    is_whole: bool = True
    """Whether the shown text is all of it, so that it can be copied from the page."""
    parts: list[content.Part] = field(default_factory=list)
    more: int = 0
    """Number of parts that are not shown."""
    view: tables.View | None = None

    @property
    def is_rendered(self) -> bool:
        return bool(self.parts or self.view)


def of_call(
    call: Call,
    definition: str,
    *,
    download: Callable[[str], str],
    part: Callable[[int], str],
    advise: bool = False,
) -> list[Section]:
    """Return the arguments and the result of a call.

    `definition` is the definition that clients had, for the labels of structured results; empty if unknown. `download`
    gives the address of a file by its name, `part` that of a picture, sound or file in the result by its number;
    `advise` adds the setting that keeps more.
    """
    return [
        _section(_("Arguments"), kept.read_arguments(call), download, advise),
        _result(call, definition, download, part, advise),
    ]


def _section(
    title: str,
    found: kept.Kept,
    download: Callable[[str], str],
    advise: bool,
    max_bytes: int = display.MAX_TEXT_BYTES,
) -> Section:
    body = kept.show(found, max_bytes)
    files = [(download(one.what), one.label) for one in kept.downloads(found)]
    return Section(
        found.name,
        title,
        body,
        kept.notes(found, body, advise=advise),
        files,
        found.is_complete and not body.truncated,
    )


def _result(
    call: Call, definition: str, download: Callable[[str], str], part: Callable[[int], str], advise: bool
) -> Section:
    found = kept.read_result(call)
    value: Any = kept.value(found)
    blocks = content.blocks(value)
    view = tables.describe(value, tables.output_schema(definition), MAX_RENDERED_BYTES)
    rendered = bool(blocks or view)
    section = _section(_("Result"), found, download, advise, MAX_RENDERED_BYTES if rendered else display.MAX_TEXT_BYTES)
    section.parts = content.parts(blocks, part, MAX_RENDERED_BYTES)
    section.more = max(0, len(blocks) - content.MAX_PARTS)
    section.view = view
    return section


def part_of(call: Call, number: int) -> tuple[bytes, str]:
    """Return the bytes of one part of the result and its media type, as `content.decode_body` does.

    Raises LookupError when there are none.
    """
    blocks = content.blocks(kept.value(kept.read_result(call)))
    if not 0 <= number < min(len(blocks), content.MAX_PARTS):
        raise LookupError
    return content.decode_body(blocks[number])
