"""Suggestions for one prompt: placeholders and arguments that do not belong together, and texts that steer a model."""

from __future__ import annotations

import re
from typing import Any

from catalog.advice import injection
from catalog.advice.suggestions import Suggestion

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")


def check_prompt(row: Any) -> list[Suggestion]:
    """Return the suggestions for a row of the catalogue, or for anything with its attributes.

    The messages of a prompt are instructions by their nature; what people choose it by must not be.
    """
    declared = {argument["name"] for argument in row.arguments}
    used: set[str] = set()
    for message in row.messages:
        text = message.get("content", {}).get("text", "")
        used.update(PLACEHOLDER.findall(text) if isinstance(text, str) else ())
    found = [Suggestion("placeholder_unknown", {"name": name}) for name in sorted(used - declared)]
    if row.messages:
        found += [Suggestion("argument_unused", {"name": name}) for name in sorted(declared - used)]
    texts = {"name": row.name, "title": row.title, "description": row.description, "arguments": row.arguments}
    return [*found, *injection.check_texts(texts)]
