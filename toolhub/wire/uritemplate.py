"""URI templates of RFC 6570 level 1: `{name}` and nothing else, matched in linear time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

MAX_TEMPLATE_CHARACTERS: Final = 2000

_NAME: Final = re.compile(r"[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*\Z")
_BAD_PERCENT: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_NOT_IN_VALUE: Final = re.compile(r"[/?#{}\x00-\x20\x7f]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Template:
    text: str
    variables: tuple[str, ...]
    literals: tuple[str, ...]
    """The text before, between and after the variables: always one more than there are variables."""

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded value of every variable, or None if `uri` does not match."""
        if len(uri) > 8 * MAX_TEMPLATE_CHARACTERS or not uri.startswith(self.literals[0]):
            return None
        if not self.variables:
            return {} if uri == self.text else None
        values: dict[str, str] = {}
        position = len(self.literals[0])
        last = len(self.variables) - 1
        for index, name in enumerate(self.variables):
            literal = self.literals[index + 1]
            # A value has at least one character. The first match of the next literal is the right one, because a later
            # one could only move characters between neighbours.
            if index == last:
                end = len(uri) - len(literal)
                if end <= position or not uri.endswith(literal):
                    return None
            else:
                end = uri.find(literal, position + 1)
                if end < 0:
                    return None
            value = _decode(uri[position:end])
            if value is None:
                return None
            values[name] = value
            position = end + len(literal)
        return values

    def expand(self, values: dict[str, str]) -> str:
        parts = [self.literals[0]]
        for name, literal in zip(self.variables, self.literals[1:], strict=True):
            parts += (quote(values[name], safe=""), literal)
        return "".join(parts)


def parse(text: str) -> Template:
    """Parse the template in `text`. Raises ValueError with a sentence for the template's author."""
    if len(text) > MAX_TEMPLATE_CHARACTERS:
        raise ValueError(f"A URI template has at most {MAX_TEMPLATE_CHARACTERS} characters.")
    literals: list[str] = []
    variables: list[str] = []
    rest = text
    while True:
        literal, brace, rest = rest.partition("{")
        if "}" in literal:
            raise ValueError("A closing brace has no opening one before it.")
        if variables and not literal and brace:
            raise ValueError("Two variables need text between them.")
        literals.append(literal)
        if not brace:
            return Template(text, tuple(variables), tuple(literals))
        name, brace, rest = rest.partition("}")
        if not brace:
            raise ValueError(f"The variable that begins with {{{name[:40]} has no closing brace.")
        if not _NAME.match(name):
            raise ValueError(
                f"{{{name[:40]}}} is not a plain variable: only {{name}} with letters, digits, _ and . is understood, "
                "no operators, lists or modifiers."
            )
        if name in variables:
            raise ValueError(f"The variable {name} is there twice.")
        variables.append(name)


def _decode(raw: str) -> str | None:
    if _NOT_IN_VALUE.search(raw) or _BAD_PERCENT.search(raw):
        return None
    if "%" not in raw:
        return raw
    try:
        value = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(value) else value
