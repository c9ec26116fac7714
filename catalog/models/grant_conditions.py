"""Checks of a grant's conditions and flags against what exists: value lists, flags, and the arguments of its items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError

from catalog.conditions import flags, words
from catalog.conditions.definitions import FIXED, Condition, parse
from catalog.conditions.expectations import BELONGS_TO
from catalog.conditions.forms import Alternative, Permission
from catalog.conditions.item_arguments import ItemArguments
from catalog.conditions.mistakes import ConditionError, FlagError

if TYPE_CHECKING:
    from catalog.models import Grant, Tool

MAX_TRIED_ITEMS = 500
"""Number of items of each kind of a toolset that are tried: conditions must fit one of them."""


def check_grant(row: Grant) -> None:
    """Raise ValidationError unless the conditions fit an item of the grant, and all lists and flags exist."""
    _check_flags(row)
    try:
        conditions = parse(row.conditions)
    except ConditionError:
        return  # the validator of the field says so
    if not conditions:
        return
    if problem := _find_problem(row, conditions):
        raise ValidationError({"conditions": words.mistake(problem)})


def _check_flags(row: Grant) -> None:
    try:
        names = flags.parse(row.flags) - settings.FLAGS.keys()
    except FlagError:
        return  # the validator of the field says so
    if names:
        known = apps.get_model("catalog", "Flag")._default_manager.filter(name__in=names).values_list("name", flat=True)
        for name in sorted(names - set(known)):
            raise ValidationError({"flags": words.mistake(FlagError("no_flag", name=name[:100]))})


def _find_problem(row: Grant, conditions: tuple[Condition, ...]) -> ConditionError | None:
    lists: dict[str, list[str]] = {}
    for number, one in enumerate(conditions, 1):
        if row.effect == row.Effect.DENY and one.operator == FIXED:
            return ConditionError("fixed_denied", number)
        if one.operator == BELONGS_TO:
            found = apps.get_model("catalog", "ValueList")._default_manager.filter(name=one.value).first()
            if found is None:
                return ConditionError("no_list", number, name=one.value[:100])
            lists[one.value] = sorted({value for part in found.parts.all() for value in part.entries})
    problem: ConditionError | None = None
    for arguments in _find_arguments(row):
        problem = _find_misfit(conditions, lists, arguments)
        if problem is None:
            break
    return problem


def _find_misfit(
    conditions: tuple[Condition, ...], lists: Mapping[str, list[str]], arguments: ItemArguments
) -> ConditionError | None:
    """Return why no call of the item could satisfy the conditions, as far as its definition tells.

    An empty value list may get values later. What a grant denies must be possible as well: otherwise it denies nothing.
    """
    tried = [one for one in conditions if one.operator != BELONGS_TO or lists.get(one.value)]
    form = arguments.narrow(Permission.build([Alternative.of(0, tried, lists, names_item=True)], []))
    for one in conditions:
        if not form.original.has_place(one.steps):
            return ConditionError("no_argument", path=one.steps)
        if form.original.is_secret(one.steps):
            return ConditionError("secret", path=one.steps)
    return form.misfits.get(0)


def _find_arguments(row: Grant) -> Iterator[ItemArguments]:
    """Yield the arguments of the grant's item, or of the items of its toolset."""
    if row.tool is not None:
        yield _of_tool(row.tool)
    elif row.prompt is not None:
        yield ItemArguments.of_prompt(row.prompt.arguments)
    elif row.resource is not None:
        yield ItemArguments.of_address(row.resource.uri_template)
    elif row.toolset is not None:
        for tool in row.toolset.tools.order_by("pk")[:MAX_TRIED_ITEMS]:
            yield _of_tool(tool)
        for prompt in row.toolset.prompts.order_by("pk")[:MAX_TRIED_ITEMS]:
            yield ItemArguments.of_prompt(prompt.arguments)
        for resource in row.toolset.resources.exclude(uri_template="").order_by("pk")[:MAX_TRIED_ITEMS]:
            yield ItemArguments.of_address(resource.uri_template)


def _of_tool(tool: Tool) -> ItemArguments:
    return ItemArguments(tool.input_schema, tool.fill_defaults)
