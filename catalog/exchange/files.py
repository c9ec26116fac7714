"""Catalogue files: YAML or JSON, told apart by their content, written so that they read back the same."""

from __future__ import annotations

import json
from typing import Any

import yaml

from catalog.exchange.values import FileError
from catalog.openapi import document

MAX_VALUES = 20_000_000
_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, value: str) -> Any:
    """Write several lines as a block; quote text that a YAML reader could take for another type."""
    style = None
    if "\n" in value:
        style = "|"
    elif document.parse_plain_scalar(value) != value or value.lower() in {
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
        "<<",
        "=",
    }:
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _number(dumper: Any, value: float) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:float", json.dumps(value))


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _number)


def write(content: dict[str, Any], *, as_json: bool) -> str:
    """Return the text of a file. Raises ValueError for text that YAML cannot hold (a lone surrogate); JSON can."""
    if as_json:
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    text: str = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    try:
        same = json.dumps(read(text)) == json.dumps(content)
    except FileError:
        same = False
    if not same:
        raise ValueError("the catalogue contains text that YAML cannot represent. Export to a .json file")
    return text


def read(text: str) -> Any:
    try:
        return document.read(text, MAX_VALUES)
    except document.DocumentError as error:
        raise FileError("the file", str(error).replace("The document", "It")) from None
