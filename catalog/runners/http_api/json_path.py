"""A small subset of JSONPath for answers: $.items[0].name, $.items[*].name, $["odd name"]. No filters."""

from __future__ import annotations

import json
import re
from typing import Any

from django.utils.translation import gettext_noop as _

from catalog.runners.settings_errors import SettingsProblem

STEP = re.compile(r"""\.([A-Za-z_][A-Za-z0-9_-]*)|\[(-?\d{1,9})\]|\[(\*)\]|\.(\*)|\[("(?:[^"\\]|\\.)*")\]""")
ALL = object()
Path = tuple[Any, ...]


def parse_path(text: str) -> Path:
    """Return the steps of a path: names, indexes, ALL. An empty text and `$` select everything.

    Raises ValueError with a sentence when the path is invalid.
    """
    text = text.strip()
    if not text or text == "$":
        return ()
    if not text.startswith("$"):
        raise SettingsProblem(_("a selection must start with $, as in $.items[0].name"))
    steps: list[Any] = []
    position = 1
    while position < len(text):
        match = STEP.match(text, position)
        if match is None:
            odd = _("the selection is not valid from %(part)s on")
            raise SettingsProblem(odd, part=repr(text[position : position + 20]))
        name, index, star, dot_star, quoted = match.groups()
        if name is not None:
            steps.append(name)
        elif index is not None:
            steps.append(int(index))
        elif quoted is not None:
            steps.append(json.loads(quoted))
        else:
            assert star or dot_star  # noqa: S101 - the pattern has no other branch
            steps.append(ALL)
        position = match.end()
    return tuple(steps)


def select(value: Any, path: Path) -> Any:
    """Return the selected value; a list after a `*`, None where nothing is found."""
    for position, step in enumerate(path):
        if step is ALL:
            items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
            found = [select(item, path[position + 1 :]) for item in items]
            return [item for item in found if item is not None]
        if isinstance(step, int) and isinstance(value, list):
            value = value[step] if -len(value) <= step < len(value) else None
        elif isinstance(step, str) and isinstance(value, dict):
            value = value.get(step)
        else:
            return None
    return value
