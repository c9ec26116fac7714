"""Sentences that a schema has for its own rules: `errorMessage`, as in ajv-errors.

A text stands for every problem of its schema. An object has texts by keyword, by name for `required` and `properties`,
and `_` for anything else.
"""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from catalog.schemas.errors import MAX_MESSAGE_CHARACTERS
from toolhub import invisible

KEYWORD: Final = "errorMessage"
MAX_PATH_STEPS: Final = 200
_BY_NAME: Final = frozenset({"required", "properties"})


def find(error: Any, root: dict[str, Any]) -> str | None:
    """Return the sentence that the schema of a jsonschema error has for it, on one line; None when it has none."""
    own = error.schema.get(KEYWORD) if isinstance(error.schema, dict) else None
    if own is not None and (found := _choose(own, error)) is not None:
        return found
    path = list(error.absolute_schema_path)
    for length in range(min(len(path), MAX_PATH_STEPS) - 2, -1, -1):
        if path[length] == "properties" and isinstance(holder := _walk(root, path[:length]), dict):
            texts = holder.get(KEYWORD)
            named = texts.get("properties") if isinstance(texts, dict) else None
            if isinstance(named, dict) and (found := _clean(named.get(path[length + 1]))) is not None:
                return found
    return None


def _choose(texts: Any, error: Any) -> str | None:
    if not isinstance(texts, dict):
        return _clean(texts)
    found = texts.get(error.validator)
    if error.validator == "required" and isinstance(found, dict):
        found = found.get(error.validator_value[0])
    return _clean(found) or _clean(texts.get("_"))


def _walk(root: Any, path: list[Any]) -> Any:
    for step in path:
        if isinstance(root, dict):
            root = root.get(step)
        elif isinstance(root, list) and isinstance(step, int) and step < len(root):
            root = root[step]
        else:
            return None  # through a reference: the schema behind it has the sentence
    return root


def _clean(text: Any) -> str | None:
    if not isinstance(text, str) or not text.strip():
        return None
    return " ".join(invisible.remove(text).split())[:MAX_MESSAGE_CHARACTERS]


def find_mistake(texts: Any) -> str | None:
    """Return what is wrong with the value of `errorMessage`, or None."""
    if isinstance(texts, str):
        return _find_mistake_in_text(texts)
    if not isinstance(texts, dict):
        return _("it must be a text, or an object with a text for each keyword")
    for keyword, value in texts.items():
        inner = value.items() if keyword in _BY_NAME and isinstance(value, dict) else [(keyword, value)]
        for name, text in inner:
            if not isinstance(text, str):
                return _("%(name)s needs a text") % {"name": name[:100]}
            if (mistake := _find_mistake_in_text(text)) is not None:
                return mistake
    return None


def _find_mistake_in_text(text: str) -> str | None:
    if not text.strip():
        return _("a text is blank")
    if len(text) > MAX_MESSAGE_CHARACTERS:
        values = {"size": f"{len(text):,}", "most": f"{MAX_MESSAGE_CHARACTERS:,}"}
        return _("a text has %(size)s characters, and the maximum is %(most)s") % values
    return None
