"""What conditions can be about: the arguments of a tool or a prompt, or the variables of a resource's address. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.conditions.forms import Form, Permission
from toolhub.wire import uritemplate


@dataclass(frozen=True, slots=True)
class ItemArguments:
    """The arguments of one item as a JSON Schema; prompts and addresses get one that says what MCP says of them."""

    schema: dict[str, Any]
    fills_defaults: bool = False
    takes_fixed: bool = True
    """False for an address, whose variables a client always sends."""

    @classmethod
    def of_prompt(cls, arguments: Iterable[Mapping[str, Any]]) -> ItemArguments:
        """Return the arguments of a prompt: texts, some of them with a list of choices."""
        properties: dict[str, Any] = {}
        required = []
        for argument in arguments:
            properties[argument["name"]] = {"type": "string"}
            if argument.get("enum"):
                properties[argument["name"]]["enum"] = [str(choice) for choice in argument["enum"]]
            if argument.get("required"):
                required.append(argument["name"])
        return cls(_object(properties, required))

    @classmethod
    def of_address(cls, address: str) -> ItemArguments:
        """Return the variables of an address, all of them required. An address that is no template has none."""
        try:
            variables = uritemplate.parse(address).variables
        except ValueError:
            variables = ()
        return cls(_object({name: {"type": "string", "minLength": 1} for name in variables}, variables), False, False)

    def narrow(self, permission: Permission) -> Form:
        """Return the form of a person who has this permission."""
        return Form(permission, self.schema, fills_defaults=self.fills_defaults, takes_fixed=self.takes_fixed)


def _object(properties: dict[str, Any], required: Iterable[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    names = list(required)
    return {**schema, "required": names} if names else schema
