"""Tools compiled for calling: argument validator, redactors, runner."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Any

from django.db import DatabaseError, InterfaceError

from audit.redaction import redactor
from catalog.calls import call_log, judgement, masking, truncation
from catalog.conditions.forms import Accepted, Form, Refused
from catalog.errors import CallNotLogged, ToolError
from catalog.functions.content import ABSENT
from catalog.functions.context import Context
from catalog.functions.results import BadResult, Produced, produce, size_of
from catalog.policy import snapshot
from catalog.policy.definitions import Snapshot, ToolDefinition
from catalog.runners import factory, registry
from catalog.runners.destinations import by_secret
from catalog.runners.factory import Run
from catalog.schemas import defaults, errors, validator
from catalog.schemas.errors import SchemaProblem
from catalog.secrets.resolve import Sent
from toolhub import contact
from toolhub.parts import parts

log = logging.getLogger(__name__)
MAX_PREPARED_TOOLS = 20_000


async def load_catalogue() -> Snapshot:
    try:
        return await snapshot.ensure_in_time()
    except (DatabaseError, InterfaceError, TimeoutError):
        log.warning("the catalogue cannot be read", exc_info=True)
        raise CallNotLogged("the catalogue cannot be read now") from None


class PreparedTool:
    """One tool compiled for calling."""

    __slots__ = (
        "_check",
        "_check_output",
        "_redactor",
        "arguments_text",
        "asks_before_task",
        "complete",
        "has_requirements",
        "result_redactor",
        "run",
        "secrets_sent",
        "tool",
    )

    def __init__(self, tool: ToolDefinition) -> None:
        self.tool = tool
        self._check = validator.validator(tool.hash, tool.input_schema)
        self._check_output = None
        if tool.output_schema is not None:
            self._check_output = validator.validator(f"{tool.hash}:result", tool.output_schema)
        self._redactor = redactor.redactor(tool.input_schema, tool.record_bodies)
        self.arguments_text = self._redactor.text
        self.result_redactor = redactor.result_redactor(tool.output_schema, tool.record_bodies)
        self.run, self.secrets_sent = _prepare_run(tool)
        self.complete: defaults.Fill = dict
        """Fills in the defaults of valid arguments, as far as the tool gets them."""
        if tool.fill_defaults and (fill := defaults.compile_fill(tool.input_schema)) is not None:
            self.run, self.complete = _wrap_with_defaults(self.run, fill), fill
        self.asks_before_task = _asks_before_task(tool)
        self.has_requirements = bool(tool.requires_capabilities) or tool.task_support == "required"

    async def find_problem(self, arguments: Any, user_id: int | None = None) -> SchemaProblem | None:
        """Return the problems of this user's arguments: the fields and what was expected; None for valid ones."""
        limit = self.tool.max_argument_bytes
        size = size_of(arguments, limit)
        if size > limit:
            return SchemaProblem((), errors.TOO_LARGE, {"limit": limit})
        problem = await validator.find_problem(self._check, arguments, size, user_id=user_id)
        if problem is None:
            return None
        return await validator.find_others(self._check, arguments, size, problem, user_id)

    async def judge(self, form: Form, arguments: dict[str, Any], user_id: int | None = None) -> Accepted | Refused:
        """Return this user's arguments by their own form of the tool, fixed values filled in, or their problems."""
        limit = self.tool.max_argument_bytes
        size = size_of(arguments, limit)
        if size > limit:
            return Refused(SchemaProblem((), errors.TOO_LARGE, {"limit": limit}))
        return await judgement.judge_large(form, arguments, size, self._check, user_id)

    def rejected_arguments_text(self, arguments: Any, hidden: list[str] | None = None) -> str:
        """Return the arguments of a rejected call for the audit log."""
        return call_log.redact_rejected_arguments(arguments, self._redactor, hidden)

    async def execute(self, arguments: dict[str, Any], context: Context) -> Produced:
        """Run the tool and turn its result into one that can be sent."""
        value = await self.run(arguments, context)
        if context._held is not None:
            await context.flush()
        check = self._check_output
        produced = produce(value, check is not None)
        if check is not None and not produced.is_error:
            await _validate_output(check, produced)
        if context.secrets:
            masking.mask_result(produced, context.secrets)
        if produced.size > self.tool.max_result_bytes:
            return await truncation.fit_to_limit(produced, self.tool, context)
        return produced


async def _validate_output(check: validator.Check, produced: Produced) -> None:
    """Raise BadResult unless the structured result is there and is what the output schema says."""
    if produced.structured is ABSENT:
        raise BadResult("The tool returned no structured result, and its output schema promises one.")
    problem = await validator.find_problem(check, produced.structured, produced.size, validator.MAX_RESULT_SECONDS)
    if problem is not None:
        raise BadResult(f"The tool's result does not match its output schema: {errors.english_of_result(problem)}")


def _prepare_run(tool: ToolDefinition) -> tuple[Run, Sent]:
    """Return the run function and the secrets that it needs, each with its destinations."""
    try:
        settings = registry.parse_settings(tool.runner, tool.settings)
        return factory.prepare_parsed(tool.runner, settings), by_secret(registry.flows_of(tool.runner, settings))
    except (LookupError, ValueError) as error:
        log.warning("the tool %s is not set up: %s", tool.name, error)
    except BaseException:
        log.exception("the tool %s is not set up", tool.name)

    async def unavailable(arguments: dict[str, Any], context: Context) -> Any:
        raise ToolError(f"This tool is not set up correctly. Ask {contact.english()} to check its settings.")

    return unavailable, {}


def _wrap_with_defaults(run: Run, fill: defaults.Fill) -> Run:
    """Wrap `run` so that defaults are filled in; only tools whose schema has defaults pay for this."""

    def filled(arguments: dict[str, Any], context: Context) -> Awaitable[Any]:
        return run(fill(arguments), context)

    return filled


def _asks_before_task(tool: ToolDefinition) -> bool:
    if tool.task_support == "forbidden":
        return False
    try:
        asks = registry.runner(tool.runner).asks_before_task
        return asks is not None and asks(registry.parse_settings(tool.runner, tool.settings))
    except BaseException:  # noqa: BLE001 - `_prepare_run` has logged it
        return False


class PreparedTools:
    """The prepared tools of this process, each kept as long as its definition is in force."""

    def __init__(self) -> None:
        self._prepared: dict[int, PreparedTool] = {}

    def get(self, tool: ToolDefinition) -> PreparedTool:
        """Return the prepared tool of this definition; it is made on the first call."""
        prepared = self._prepared.get(tool.id)
        if prepared is None or prepared.tool is not tool:
            prepared = self._prepared[tool.id] = PreparedTool(tool)
            if len(self._prepared) > MAX_PREPARED_TOOLS:
                del self._prepared[next(iter(self._prepared))]
        return prepared


def get_prepared(tool: ToolDefinition) -> PreparedTool:
    """Return the prepared tool of this definition, or of the tool of which it is a person's own form."""
    return parts.get(PreparedTools).get(tool.base or tool)
