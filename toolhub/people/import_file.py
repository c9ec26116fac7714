"""The file of an import of people: CSV in UTF-8 with a header, read into rows, each with its line."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass

from django.utils.translation import gettext as _

MAX_BYTES = 1_000_000
MAX_ROWS = 1_000
USERNAME, EMAIL, FIRST_NAME, LAST_NAME, GROUPS = "username", "email", "first_name", "last_name", "groups"
COLUMNS = (USERNAME, EMAIL, FIRST_NAME, LAST_NAME, GROUPS)
GROUP_SEPARATOR = ";"
MAX_NAMED_COLUMNS = 10


class Unreadable(Exception):
    """A file that cannot be read as a whole; the text is a sentence that says where and why."""


@dataclass(frozen=True, slots=True)
class Row:
    """One person of the file. Columns that the file does not have are empty."""

    line: int
    username: str = ""
    email: str = ""
    first_name: str = ""
    last_name: str = ""
    groups: tuple[str, ...] = ()
    surplus: int = 0
    """Number of cells beyond the header."""


def parse(content: bytes) -> list[Row]:
    """Return the rows of the file. Raises Unreadable."""
    if len(content) > MAX_BYTES:
        raise Unreadable(_("The file is larger than 1 MB. Split it."))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Unreadable(
            _("Line %(line)d is not UTF-8. Save the file as “CSV UTF-8” and choose it again.") % {"line": line}
        ) from None
    if "\0" in text:
        raise Unreadable(_("The file contains NUL characters: it is not a CSV file."))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next((cells for cells in reader if any(map(str.strip, cells))), None)
        if header is None:
            raise Unreadable(_("The file is empty. It needs a header: %(columns)s.") % {"columns": ",".join(COLUMNS)})
        names = _read_header(header)
        return _read_rows(reader, names)
    except csv.Error as error:
        raise Unreadable(
            _("Line %(line)d is not valid CSV: %(problem)s.") % {"line": reader.line_num, "problem": error}
        ) from None


def _read_header(cells: list[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise Unreadable(_("Separate the columns by commas: %(columns)s.") % {"columns": ",".join(COLUMNS)})
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        listed = ", ".join(f"“{name[:50]}”" for name in unknown[:MAX_NAMED_COLUMNS])
        raise Unreadable(
            _("The header has unknown columns: %(unknown)s. Possible are %(columns)s.")
            % {"unknown": listed, "columns": ", ".join(COLUMNS)}
        )
    if len(set(names)) != len(names):
        raise Unreadable(_("The header names a column twice."))
    if USERNAME not in names:
        raise Unreadable(_("The header needs the column “username”."))
    return names


def _read_rows(reader: csv._reader, names: list[str]) -> list[Row]:  # type: ignore[name-defined]
    rows: list[Row] = []
    before = reader.line_num
    for cells in reader:
        line, before = before + 1, reader.line_num
        values = [cell.strip() for cell in cells]
        if not any(values):
            continue
        if len(rows) == MAX_ROWS:
            raise Unreadable(_("The file has more than %(number)s rows. Split it.") % {"number": f"{MAX_ROWS:,}"})
        given = dict(zip(names, values, strict=False))
        groups = tuple(dict.fromkeys(filter(None, map(str.strip, given.pop(GROUPS, "").split(GROUP_SEPARATOR)))))
        surplus = sum(1 for value in values[len(names) :] if value)
        rows.append(Row(line=line, groups=groups, surplus=surplus, **given))
    if not rows:
        raise Unreadable(_("The file has a header and no rows."))
    return rows
