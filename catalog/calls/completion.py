"""Suggestions for arguments of prompts and variables of resource templates that the caller may use."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from audit.types import Caller
from catalog import threads
from catalog.calls import upstream_items
from catalog.calls.execution import Deadline, log_failure, was_cancelled
from catalog.calls.prepared_tools import load_catalogue
from catalog.conditions.forms import Form
from catalog.errors import InvalidArguments, UnknownPrompt, UnknownResource
from catalog.functions import registry
from catalog.functions.results import clean_name, exact_text
from catalog.language import in_english
from catalog.policy import visibility
from catalog.policy.definitions import PromptDefinition, ResourceDefinition
from catalog.schemas import patterns, validator

MAX_VALUES = 100
"""The protocol's own limit."""
TIMEOUT_SECONDS = 5.0
Source = Callable[..., Any] | Sequence[str]


@in_english
async def complete(
    caller: Caller, ref: dict[str, Any], argument: dict[str, Any], context: dict[str, Any]
) -> tuple[list[str], int | None, bool]:
    """Return (values, total, has more) for an argument of a prompt or a variable of a template that the caller may use.

    Raises UnknownPrompt, UnknownResource, InvalidArguments.
    """
    await load_catalogue()
    name, typed = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(typed, str):
        raise InvalidArguments("argument: must have a name and a value, both text.")
    earlier = context.get("arguments")
    earlier = earlier if isinstance(earlier, dict) else {}
    item, source = _find_source(caller, ref, name)
    values = await _match_values(source, typed[:1000], earlier, caller.user_id)
    if item.form is not None:
        values = _keep_allowed(item.form, name, values)
    return values[:MAX_VALUES], len(values), len(values) > MAX_VALUES


def _keep_allowed(form: Form, name: str, values: list[str]) -> list[str]:
    """Return the values that the person may send; none beyond the budget of patterns."""
    try:
        with patterns.regex_budget(validator.MAX_LOOP_SECONDS):
            return [value for value in values if form.may_send(name, value)]
    except patterns.BudgetError:
        return []


def _find_source(caller: Caller, ref: Any, name: str) -> tuple[PromptDefinition | ResourceDefinition, Source]:
    """Return the prompt or resource that the caller sees, and what makes suggestions for this argument of it."""
    visible = visibility.for_credential(caller.credential)
    kind = ref.get("type") if isinstance(ref, dict) else None
    if kind == "ref/prompt" and isinstance(ref.get("name"), str):
        prompt = visible.prompts.get(ref["name"])
        if prompt is None:
            raise UnknownPrompt(ref["name"])
        for known in prompt[0].arguments:
            if known["name"] == name:
                return prompt[0], known.get("enum") or _find_maker(prompt[0], caller, name)
        raise InvalidArguments(f"argument.name: the prompt has no argument {name[:100]!r}.")
    if kind == "ref/resource" and isinstance(ref.get("uri"), str):
        resource = visible.templates.get(ref["uri"]) or visible.resources.get(ref["uri"])
        if resource is None:
            raise UnknownResource(ref["uri"])
        return resource[0], resource[0].completions.get(name) or _find_maker(resource[0], caller, name)
    raise InvalidArguments("ref: must be a ref/prompt with a name or a ref/resource with a uri.")


def _find_maker(item: PromptDefinition | ResourceDefinition, caller: Caller, name: str) -> Source:
    """Return what makes the suggestions: the item's upstream server, or its function; none without either."""
    if item.connection is not None:
        return functools.partial(upstream_items.complete, item, caller, name)
    if not item.function:
        return ()
    try:
        return registry.lookup(item.kind, item.function).complete.get(name, ())
    except LookupError:
        return ()


async def _match_values(source: Source, typed: str, earlier: dict[str, Any], user_id: int) -> list[str]:
    """Return all values that match the typed text: first those that begin with it, then those that contain it."""
    if not callable(source):
        wanted = typed.casefold()
        found = [str(value) for value in source]
        first = [value for value in found if value.casefold().startswith(wanted)]
        return first + [value for value in found if wanted in value.casefold() and value not in first]
    clock = Deadline(TIMEOUT_SECONDS)
    try:
        takes_earlier = len(inspect.signature(source).parameters) > 1
        call = functools.partial(source, typed, earlier) if takes_earlier else functools.partial(source, typed)
        made = await (call() if inspect.iscoroutinefunction(source) else threads.tools().run(call, user_id=user_id))
        values = [clean_name(exact_text(value)) for value in made or ()]
    except BaseException as error:
        if await was_cancelled(error, clock):
            raise
        log_failure(error, "suggestions could not be made")
        return []
    clock.close()
    return values
