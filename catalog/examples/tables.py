"""An example tool that calculates with a table of the workspace."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from catalog import workspace
from catalog.examples.results import Facts
from catalog.functions import tool
from catalog.functions.content import ToolError

CSV_BYTES = 10_000_000
MAX_COLUMNS = 200
Operation = Literal["sum", "average", "count", "min", "max"]
_CALCULATIONS: dict[str, Callable[[list[float]], float]] = {
    "sum": math.fsum,
    "average": lambda found: math.fsum(found) / len(found),
    "min": min,
    "max": max,
}
_PATH = "Path of the file relative to the workspace, as in samples/sales.csv."
_COLUMN = Annotated[str, Field(max_length=200)]


@dataclass(slots=True)
class ColumnSummary(Facts):
    column: str
    """The name of the column."""
    operation: str
    """What was calculated."""
    result: float | None
    """Nothing when the column has no numbers."""
    skipped: int
    """Cells that were not counted."""


@dataclass(slots=True)
class TableSummary(Facts):
    path: str
    """The path of the file."""
    rows: int
    """The number of rows below the header."""
    results: list[ColumnSummary]
    """One result for each column and operation."""


@dataclass(slots=True)
class _Column:
    numbers: list[float] = field(default_factory=list)
    filled: int = 0


@tool(title="Analyze a CSV file", read_only=True, idempotent=True, open_world=False)
def analyze_csv(
    path: Annotated[str, Field(description=_PATH, max_length=500)] = "",
    filepath: Annotated[
        str, Field(description="The same as path, under the name that some clients use.", max_length=500)
    ] = "",
    column: Annotated[
        str,
        Field(description="Name of one column, exactly as in the first line of the file.", max_length=200),
    ] = "",
    columns: Annotated[
        list[_COLUMN],
        Field(
            description="Names of several columns. Without a column: all columns of numbers.", max_length=MAX_COLUMNS
        ),
    ] = [],  # noqa: B006 - read only, and JSON Schema shows it
    operation: Annotated[
        Operation | None, Field(description="What to calculate; count counts the cells that are not empty.")
    ] = None,
    operations: Annotated[
        list[Operation], Field(description="Several things to calculate. Without any: the sum.", max_length=5)
    ] = [],  # noqa: B006
) -> TableSummary:
    """Calculate sums, averages, counts, minima or maxima of columns of a CSV file in the workspace. Use it for
    questions about numbers in a table, instead of reading the whole file. Cells that are not numbers are skipped and
    counted in the answer. Changes nothing."""
    chosen = _choose(path, filepath)
    wanted = list(dict.fromkeys([*([operation] if operation else []), *operations])) or ["sum"]
    names, rows, found = _read(chosen)
    asked = list(dict.fromkeys([*([column] if column else []), *columns]))
    for name in asked:
        if name not in names:
            raise ToolError(f"There is no column {name!r}. The file has: {', '.join(names)[:1000] or 'no columns'}.")
    shown = asked or [name for name in names if found[name].numbers and len(found[name].numbers) == found[name].filled]
    if not shown:
        raise ToolError(f"The file has no column of numbers. It has: {', '.join(names)[:1000] or 'no columns'}.")
    return TableSummary(chosen, rows, [_summarise(name, one, found[name], rows) for name in shown for one in wanted])


def _choose(path: str, filepath: str) -> str:
    if path and filepath and path != filepath:
        raise ToolError("path and filepath name two files. Give one of them.")
    if not (path or filepath):
        raise ToolError("Give the path of a CSV file, as in samples/sales.csv.")
    return path or filepath


def _read(path: str) -> tuple[Sequence[str], int, dict[str, _Column]]:
    """Return the names of the columns, the number of rows, and what is in each column. Raises ToolError."""
    text = workspace.read(path, CSV_BYTES).decode("utf-8-sig", "replace")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        names = [name.strip() for name in reader.fieldnames or []]
        if len(names) > MAX_COLUMNS:
            raise ToolError(f"The file has {len(names)} columns. At most {MAX_COLUMNS} can be read.")
        reader.fieldnames = names
        found = {name: _Column() for name in names}
        rows = 0
        for row in reader:
            rows += 1
            for name in found:
                cell = (row[name] or "").strip()
                if cell:
                    found[name].filled += 1
                    if (number := _number(cell)) is not None:
                        found[name].numbers.append(number)
    except csv.Error as error:
        raise ToolError(f"This is not a CSV file that can be read: {error} (line {reader.line_num}).") from None
    return names, rows, found


def _summarise(name: str, operation: str, found: _Column, rows: int) -> ColumnSummary:
    if operation == "count":
        return ColumnSummary(name, operation, found.filled, rows - found.filled)
    if not found.numbers and operation != "sum":
        return ColumnSummary(name, operation, None, rows)
    try:
        result = _CALCULATIONS[operation](found.numbers)
    except OverflowError:
        raise ToolError("The numbers are too large.") from None
    return ColumnSummary(name, operation, result, rows - len(found.numbers))


def _number(cell: str) -> float | None:
    try:
        number = float(cell)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
