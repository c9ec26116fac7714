"""Hints: the next step that is added to an error of a tool, chosen by its code or by a pattern in its sentence.

An administrator writes them in the settings of a tool; the common codes have one already. Codes are HTTP statuses
("404"; "4xx" and "5xx" stand for all of them), exit statuses of programs, codes of MCP errors ("-32602"), SQLSTATEs,
and the words "timeout" and "unreachable".
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from django.utils.translation import gettext_lazy
from django.utils.translation import gettext_noop as _
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from catalog.errors import ToolError
from catalog.functions.content import Result
from catalog.functions.context import Context
from catalog.runners.settings_errors import SettingsProblem
from catalog.schemas import patterns
from toolhub import contact

MAX_HINTS = 30
MAX_SEARCHED_CHARACTERS = 10_000
"""Characters of an error in which patterns are searched."""
MAX_SEARCH_SECONDS = 0.5
CODE = re.compile(r"[0-9A-Za-z-]{1,12}")
"""A code of ToolError that a hint can name. Only such codes are logged."""
LABELS: Mapping[str, Any] = {
    "hints": gettext_lazy("Hints"),
    "code": gettext_lazy("Code"),
    "pattern": gettext_lazy("Pattern"),
    "text": gettext_lazy("Text"),
}
DESCRIPTION: Final = _(
    "The next step that a client reads after an error, chosen by its code (404, 4xx, timeout) or by a pattern in it."
)
Run = Callable[[dict[str, Any], Context], Awaitable[Any]]


class Hint(BaseModel):
    model_config = ConfigDict(extra="forbid")

    code: str = Field(
        default="", max_length=12, description=_("The code of the error, such as 404, 5xx or timeout. Empty: any.")
    )
    pattern: str = Field(
        default="", max_length=200, description=_("A pattern (RE2) that the error contains. Empty: any.")
    )
    text: str = Field(
        min_length=1, max_length=500, description=_("What to do next, such as: Search for the customer first.")
    )

    @field_validator("code")
    @classmethod
    def _check_code(cls, code: str) -> str:
        if code and not CODE.fullmatch(code):
            raise SettingsProblem(_("enter a code such as 404, 5xx, -32602 or timeout"))
        return code

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, pattern: str) -> str:
        if pattern:
            patterns.searcher(pattern)
        return pattern

    @field_validator("text")
    @classmethod
    def _check_text(cls, text: str) -> str:
        if not text.strip():
            raise SettingsProblem(_("enter the next step"))
        return text

    @model_validator(mode="after")
    def _check_condition(self) -> Hint:
        if not (self.code or self.pattern):
            raise SettingsProblem(_("enter a code, a pattern, or both"))
        return self

    def fits(self, code: str, text: str) -> bool:
        """Return whether the hint is one for this error."""
        if self.code and self.code.lower() not in (code.lower(), _family(code)):
            return False
        return not self.pattern or patterns.searcher(self.pattern)(text)


DEFAULTS: Final[Mapping[str, str]] = {
    "400": "Read the answer, and correct the arguments that it names.",
    "401": "The credentials of this tool were not accepted: ask {contact} to check them.",
    "403": "The credentials of this tool may not do this: use something else, or ask {contact}.",
    "404": "Check the names and IDs in the arguments: nothing has them.",
    "409": "It conflicts with what is there now: read the present state before you try again.",
    "410": "It was there once and is gone: do not ask for it again.",
    "422": "Read the answer, and correct the arguments that it names.",
    "429": "Too many requests were sent: wait a minute before the next one.",
    "5xx": "The service itself failed: try again in a minute, and tell {contact} if it fails again.",
    "timeout": "Ask for less, or try again in a minute.",
    "unreachable": "Try again in a minute, and tell {contact} if it fails again.",
}
"""The hints for tools without one of their own: for HTTP APIs and upstream servers. `find` fills in the contact."""


def with_hints(run: Run, hints: Sequence[Hint], defaults: Mapping[str, str] = {}) -> Run:
    """Return `run` with a hint after every error that has one."""

    async def hinted(arguments: dict[str, Any], context: Context) -> Any:
        try:
            result = await run(arguments, context)
        except ToolError as error:
            if type(error) is ToolError and (text := find(hints, error.code, str(error), defaults)):
                audit_message = error.audit_message and f"{error.audit_message} {text}"
                raise ToolError(
                    f"{error} {text}", audit_message=audit_message, code=error.code, rejected=error.rejected
                ) from None
            raise
        if isinstance(result, Result) and result.is_error and (text := find(hints, result.code, _text(result))):
            result.content = [*result.content, text]
        return result

    return hinted


def find(hints: Sequence[Hint], code: str, text: str, defaults: Mapping[str, str] = {}) -> str:
    """Return the first hint that fits, or else the default of the code; empty for none."""
    patterns.set_regex_budget(MAX_SEARCH_SECONDS)
    try:
        found = next((hint.text for hint in hints if hint.fits(code, text[:MAX_SEARCHED_CHARACTERS])), "")
    except patterns.BudgetError:
        found = ""
    finally:
        patterns.set_regex_budget(float("inf"))
    if not found:
        found = (defaults.get(code, "") or defaults.get(_family(code), "")).replace("{contact}", contact.english())
    return f"Next step: {found.strip()}" if found else ""


def _family(code: str) -> str:
    """Return 4xx for 404, and so on; empty for what is no HTTP status."""
    return f"{code[0]}xx" if len(code) == 3 and code.isdigit() else ""


def _text(result: Result) -> str:
    """Return the texts of a result, as far as patterns are searched in them."""
    found: list[str] = []
    for item in result.content:
        text = item.get("text") if isinstance(item, Mapping) else getattr(item, "text", item)
        if isinstance(text, str):
            found.append(text[:MAX_SEARCHED_CHARACTERS])
        if sum(map(len, found)) >= MAX_SEARCHED_CHARACTERS:
            break
    return "\n".join(found)
