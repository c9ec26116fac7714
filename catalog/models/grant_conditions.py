"""Checks of conditions and flags against what exists: value lists, flags, and the arguments of the items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError

from catalog.conditions import definitions, flags, words
from catalog.conditions.definitions import ITEMS, MAX_STEPS, ONLY, Condition, parse, parse_path
from catalog.conditions.expectations import BELONGS_TO
from catalog.conditions.forms import Alternative, Permission
from catalog.conditions.item_arguments import ItemArguments
from catalog.conditions.mistakes import ConditionError, FlagError
from catalog.conditions.original import Original
from catalog.models.items import Prompt, Resource
from catalog.models.tools import Tool

if TYPE_CHECKING:
    from catalog.models import ApprovalRule, Grant

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
    problem = definitions.find_unfit(conditions) if row.effect == row.Effect.DENY else None
    if problem := problem or _find_problem(conditions, _find_arguments(row)):
        raise ValidationError({"conditions": words.mistake(problem)})


def check_approval_rule(row: ApprovalRule) -> None:
    """Raise ValidationError unless the conditions fit a tool of the rule, and all value lists exist."""
    if row.first_time:
        _check_first_time(row)
    try:
        conditions = parse(row.conditions)
    except ConditionError:
        return  # the validator of the field says so
    if not conditions:
        return
    problem = definitions.find_unfit(conditions, asks=True) or _find_problem(conditions, _find_tools(row))
    if problem:
        raise ValidationError({"conditions": words.mistake(problem)})


def _check_first_time(row: ApprovalRule) -> None:
    """Raise ValidationError unless a tool of the rule has this argument."""
    problem: ConditionError | None = None
    try:
        steps = parse_path(row.first_time)
    except ValueError:
        problem = ConditionError("path", path=row.first_time[:100], most=MAX_STEPS)
    else:
        if ITEMS in steps:
            problem = ConditionError("first_time_items", path=steps)
        elif (found := [Original(one.schema) for one in _find_tools(row)]) and not any(
            one.has_place(steps) for one in found
        ):
            problem = ConditionError("no_argument", path=steps)
    if problem is not None:
        raise ValidationError({"first_time": words.mistake(problem)})


def _check_flags(row: Grant) -> None:
    try:
        names = flags.parse(row.flags) - settings.FLAGS.keys()
    except FlagError:
        return  # the validator of the field says so
    if names:
        known = apps.get_model("catalog", "Flag")._default_manager.filter(name__in=names).values_list("name", flat=True)
        for name in sorted(names - set(known)):
            raise ValidationError({"flags": words.mistake(FlagError("no_flag", name=name[:100]))})


def _find_problem(conditions: tuple[Condition, ...], items: Iterable[ItemArguments]) -> ConditionError | None:
    """Return why the conditions fit none of the items."""
    lists: dict[str, list[str]] = {}
    for number, one in enumerate(conditions, 1):
        if one.operator == BELONGS_TO:
            found = apps.get_model("catalog", "ValueList")._default_manager.filter(name=one.value).first()
            if found is None:
                return ConditionError("no_list", number, name=one.value[:100])
            lists[one.value] = sorted({value for part in found.parts.all() for value in part.entries})
    problem: ConditionError | None = None
    for arguments in items:
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
        if one.operator == ONLY:
            continue  # it names no values, so that secrets do not matter
        if not form.original.has_place(one.steps):
            return ConditionError("no_argument", path=one.steps)
        if form.original.is_secret(one.steps):
            return ConditionError("secret", path=one.steps)
    return form.misfits.get(0)


def _find_arguments(row: Grant) -> Iterator[ItemArguments]:
    """Yield the arguments of the grant's item, or of the items of its toolset."""
    item = row.tool or row.prompt or row.resource
    if item is not None:
        yield arguments_of(item)
    elif row.toolset is not None and row.toolset.pk is not None:
        for tool in row.toolset.tools.order_by("pk")[:MAX_TRIED_ITEMS]:
            yield arguments_of(tool)
        for prompt in row.toolset.prompts.order_by("pk")[:MAX_TRIED_ITEMS]:
            yield arguments_of(prompt)
        for resource in row.toolset.resources.exclude(uri_template="").order_by("pk")[:MAX_TRIED_ITEMS]:
            yield arguments_of(resource)


def _find_tools(row: ApprovalRule) -> Iterator[ItemArguments]:
    """Yield the arguments of the rule's tool, or of the tools of its grant, its toolset, or the catalogue."""
    if row.tool is not None:
        yield arguments_of(row.tool)
        return
    if row.grant is not None and row.grant.tool is not None:
        yield arguments_of(row.grant.tool)
        return
    toolset = row.toolset if row.grant is None else row.grant.toolset
    if toolset is None and not row.all_tools:
        return  # a grant of a prompt or resource, which the check of the target refuses
    tools = Tool.objects.all() if toolset is None else toolset.tools.all()
    for tool in tools.order_by("pk")[:MAX_TRIED_ITEMS]:
        yield arguments_of(tool)


def arguments_of(item: Tool | Prompt | Resource) -> ItemArguments:
    """Return what conditions on this item can be about."""
    if isinstance(item, Tool):
        return ItemArguments(item.input_schema, item.fill_defaults)
    if isinstance(item, Prompt):
        return ItemArguments.of_prompt(item.arguments)
    return ItemArguments.of_address(item.uri_template)
