"""Comparison of two calls: arguments, result, status, and the definition of the tool at call time."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.utils.translation import gettext as _

from audit import display, hooks
from audit.models import Call
from audit.queries.search import CallSearch
from audit.results import kept
from audit.text_diff import Line, lines
from toolhub import invisible

MAX_CALLS_OF_TOOL = 300
"""Maximum calls of a tool, by whomever, among which the previous one of a user is looked for first."""


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    before: str
    after: str

    @property
    def differs(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference of two calls, of which the earlier is always `first`."""

    first: Call
    second: Call
    facts: list[Fact]
    arguments: list[Line]
    result: list[Line]
    definition: list[Line]
    """Difference of the definitions that clients received; empty when they are equal or no longer known."""
    definition_known: bool
    notes: list[str]
    """What the compared results lack."""

    @property
    def same_tool(self) -> bool:
        return (self.first.method, self.first.name) == (self.second.method, self.second.name)


def find_pair(keys: list[str]) -> tuple[Call, Call] | None:
    """Return the two calls that a URL names, the earlier first; None unless it names exactly two existing calls."""
    try:
        wanted = {UUID(key) for key in keys}
    except ValueError:
        return None
    found = list(Call.objects.filter(pk__in=wanted).order_by("pk")) if len(wanted) == 2 else []
    return (found[0], found[1]) if len(found) == 2 else None


def find_previous(call: Call) -> Call | None:
    """Return the previous call of the same tool by the same user; None if a bounded search does not find one."""
    if call.user_id is None:
        return None
    # Few calls of a rare tool, or the newest of a frequent one, are read sooner than thousands of the user's.
    earlier = Call.objects.filter(name=call.name, pk__lt=call.pk).order_by("-pk")
    newest = list(earlier.values_list("pk", "method", "user_id")[:MAX_CALLS_OF_TOOL])
    for pk, method, user_id in newest:
        if (method, user_id) == (call.method, call.user_id):
            return Call.objects.get(pk=pk)
    if len(newest) < MAX_CALLS_OF_TOOL:
        return None
    search = CallSearch(tool=call.name, method=call.method, user_id=call.user_id)
    rows = search.page(before=call.pk.hex, size=1).rows
    return Call.objects.get(pk=rows[0].pk) if rows else None


def compare_calls(first: Call, second: Call) -> Difference:
    known, definition = True, []
    if first.definition != second.definition:
        then, now = definition_of(first), definition_of(second)
        known = then is not None and now is not None
        definition = lines(then.text, now.text) if then is not None and now is not None else []
    results = [kept.read_result(call) for call in (first, second)]
    notes = dict.fromkeys(note for found in results if not found.is_complete for note in kept.notes(found))
    return Difference(
        first=first,
        second=second,
        facts=[Fact(name, invisible.show(a[:500]), invisible.show(b[:500])) for name, a, b in _facts(first, second)],
        arguments=lines(first.arguments, second.arguments),
        result=lines(*map(kept.readable, results)),
        definition=definition,
        definition_known=known,
        notes=list(notes),
    )


def definition_of(call: Call) -> hooks.Definition | None:
    """Return the definition of the call's tool, prompt or resource at call time; None if unknown."""
    if call.target_id is None or not call.definition:
        return None
    return hooks.catalogue().definition_at(call.method, call.target_id, call.definition, call.started_at)


def _facts(first: Call, second: Call) -> list[tuple[str, str, str]]:
    def client(call: Call) -> str:
        return f"{call.client_name} {call.client_version}".strip()

    def both(name: str) -> tuple[str, str]:
        return str(getattr(first, name)), str(getattr(second, name))

    return [
        (_("Tool, prompt or resource"), *both("name")),
        (_("Status"), str(first.get_outcome_display()), str(second.get_outcome_display())),
        (_("Duration"), display.format_duration(first.duration_us), display.format_duration(second.duration_us)),
        (_("Error"), _error(first), _error(second)),
        (_("Rule"), _rule(first), _rule(second)),
        (_("User"), *both("username")),
        (_("Credential"), *both("credential")),
        (_("Client"), client(first), client(second)),
        (_("Transport"), *both("transport")),
        (_("Protocol version"), *both("revision")),
        (_("Address"), *both("address")),
        (_("Result size"), f"{first.result_bytes:,}", f"{second.result_bytes:,}"),
        (_("Definition"), first.definition[:16], second.definition[:16]),
    ]


def _rule(call: Call) -> str:
    return hooks.sentence(call.rule_reason, call.rule)


def _error(call: Call) -> str:
    return ": ".join(filter(None, (call.error_class, hooks.sentence(call.detail_reason, call.detail))))
