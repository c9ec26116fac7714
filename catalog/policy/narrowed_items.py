"""One person's form of an item: its definition narrowed by the conditions of the grants. Pure.

    narrowed = narrow(tool, permission)
    narrowed.item        the definition as the person sees it; None when they may send nothing, so that they see nothing
    narrowed.form        judges what they send

A form takes about a millisecond to make (tests/bench), so the last ones are kept: people of one group share theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from catalog.conditions.forms import Form, Permission
from catalog.conditions.item_arguments import ItemArguments
from catalog.policy.definitions import Item, PromptDefinition, ResourceDefinition, ToolDefinition, digest

MAX_KEPT: Final = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Narrowed:
    item: Item | None
    form: Form


@lru_cache(maxsize=MAX_KEPT)
def narrow(item: Item, permission: Permission) -> Narrowed:
    """Return the form of an item of the snapshot for people who have this permission."""
    form = arguments_of(item).narrow(permission)
    if form.schema is None:
        return Narrowed(None, form)
    if isinstance(item, ToolDefinition):
        return Narrowed(_narrow_tool(item, form, form.schema), form)
    if isinstance(item, PromptDefinition):
        return Narrowed(_narrow_prompt(item, form, form.schema), form)
    return Narrowed(_narrow_resource(item, form), form)


def arguments_of(item: Item) -> ItemArguments:
    """Return what conditions on this item can be about."""
    if isinstance(item, ToolDefinition):
        return ItemArguments(item.input_schema, item.fill_defaults)
    if isinstance(item, PromptDefinition):
        return ItemArguments.of_prompt(item.arguments)
    return ItemArguments.of_address(item.uri if item.is_template else "")


def _narrow_tool(tool: ToolDefinition, form: Form, schema: dict[str, Any]) -> ToolDefinition:
    wire = {**tool.wire, "inputSchema": schema}
    return replace(tool, input_schema=schema, wire=wire, wire_hash=digest(wire), base=tool, form=form)


def _narrow_prompt(prompt: PromptDefinition, form: Form, schema: dict[str, Any]) -> PromptDefinition:
    """Return the prompt without its fixed arguments, with the choices that are left."""
    arguments = []
    for argument in prompt.arguments:
        shown = schema["properties"].get(argument["name"])
        if shown is None:
            continue
        left = {key: value for key, value in argument.items() if key != "enum"}
        if argument["name"] in schema.get("required", ()):
            left["required"] = True
        choices = [shown["const"]] if "const" in shown else shown.get("enum")
        if choices is not None:
            left["enum"] = choices
        arguments.append(left)
    wire = {key: value for key, value in prompt.wire.items() if key != "arguments"}
    if arguments:
        wire["arguments"] = [{key: one[key] for key in one if key != "enum"} for one in arguments]
    return replace(prompt, arguments=arguments, wire=wire, wire_hash=digest(wire), base=prompt, form=form)


def _narrow_resource(resource: ResourceDefinition, form: Form) -> ResourceDefinition:
    """Return the resource with its form: MCP has no words for what the variables of an address may be."""
    return replace(resource, form=form) if resource.is_template else resource
