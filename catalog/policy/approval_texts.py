"""Approval rules in the language of the page: what one means as a sentence, and what a person's tool asks."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from catalog.conditions import definitions, windows, words
from catalog.conditions.mistakes import Mistake
from catalog.models import ApprovalRule
from catalog.policy import asking, messages
from catalog.policy.asking import PERSON, Ask
from catalog.policy.definitions import Snapshot, ToolDefinition
from catalog.policy.rules import Requester
from catalog.schemas import errors
from toolhub.invisible import show

MAX_LISTED_CHARACTERS: Final = 200
"""Maximum length of the conditions and time windows of a rule in a list."""


def describe_rule(row: ApprovalRule, approvers: int) -> str:
    """Return what a rule means. `approvers`: how many people can approve, where it does not ask who calls."""
    calls = _describe_calls(row)
    if conditions := _describe_conditions(row):
        calls = _("%(calls)s where %(conditions)s") % {"calls": calls, "conditions": conditions}
    if first := _describe_first_time(row):
        calls = _("%(calls)s, %(first)s,") % {"calls": calls, "first": first}
    if times := _describe_windows(row):
        calls = _("%(calls)s, %(times)s,") % {"calls": calls, "times": times}
    if row.asks == ApprovalRule.Asks.APPROVERS and not approvers:
        text = _("%(calls)s do not run: nobody can approve them.") % {"calls": calls}
    else:
        text = _("%(calls)s ask %(people)s.") % {"calls": calls, "people": _describe_people(row, approvers)}
    if not row.enabled:
        text = _("Switched off: %(sentence)s") % {"sentence": text}
    return _("In trial: %(sentence)s") % {"sentence": text} if row.trial else text


def describe_target(row: ApprovalRule) -> str:
    """Return what a rule is for: "tool x", "destructive tools in toolset y", "grant 7", "all tools"."""
    if row.grant is not None:
        return _("grant %(number)s") % {"number": row.grant.pk}
    if row.tool is not None:
        return messages.target("tool", show(row.tool.name))
    if row.toolset is not None:
        name = show(row.toolset.name)
        return _("destructive tools in toolset %s") % name if row.destructive_only else messages.target("toolset", name)
    return _("all destructive tools") if row.destructive_only else messages.target("all", "")


def describe_when(row: ApprovalRule) -> str:
    """Return for which calls and at what times a rule asks, for a list; empty for one that always does."""
    parts = [part for part in (_describe_conditions(row), _describe_first_time(row), _describe_windows(row)) if part]
    text = parts[0] if parts else ""
    for part in parts[1:]:
        text = _("%(first)s; %(second)s") % {"first": text, "second": part}
    return errors.cut(text, MAX_LISTED_CHARACTERS)


def describe_asked(row: ApprovalRule, approvers: int) -> str:
    """Return whom a rule asks, for a list."""
    if row.asks == ApprovalRule.Asks.PERSON:
        return _("the person who calls")
    if row.group is None:
        return _("a group that was deleted")
    text = ngettext("%(group)s (%(number)s approver)", "%(group)s (%(number)s approvers)", approvers)
    return text % {"group": show(row.group.name), "number": f"{approvers:,}"}


def describe_asks(
    snapshot: Snapshot, requester: Requester, tool: ToolDefinition, now: float, environment: str, *, own: bool
) -> list[str]:
    """Return what calls of the tool by this person ask, a sentence for each question. `own`: the person reads it."""
    asks = asking.all_asks(snapshot, requester, tool, now, environment)
    return [_describe_ask(ask, own=own) for ask in asks]


def _describe_ask(ask: Ask, *, own: bool) -> str:
    some = all(rule.conditions or rule.first_time or rule.windows for rule in ask.rules)
    if ask.asks == PERSON:
        if own:
            return _("For some calls, it asks you to approve.") if some else _("It asks you to approve each call.")
        return _("Asks for approval by the user, for some calls.") if some else _("Asks for approval by the user.")
    if ask.group_id is None:
        return (
            _("Asks for approval, for some calls. Nobody can approve: the group was deleted.")
            if some
            else _("Asks for approval. Nobody can approve: the group was deleted.")
        )
    text = _("Asks for approval by %(group)s, for some calls.") if some else _("Asks for approval by %(group)s.")
    return text % {"group": show(ask.group_name)}


def _describe_calls(row: ApprovalRule) -> str:
    if row.grant is None:
        text = _("Calls of %(what)s") % {"what": describe_target(row)}
    else:
        values = {"what": show(messages.name_target(row.grant)), "number": row.grant.pk}
        text = _("Calls of %(what)s that only grant %(number)s allows") % values
    if row.destructive_only and (row.tool is not None or row.grant is not None):
        return _("%(calls)s, as far as it is destructive,") % {"calls": text}
    return text


def _describe_conditions(row: ApprovalRule) -> str:
    try:
        return show(words.join([words.translate(one) for one in definitions.parse(row.conditions)]))
    except Mistake as mistake:
        return words.mistake(mistake)


def _describe_first_time(row: ApprovalRule) -> str:
    if not row.first_time:
        return ""
    try:
        name = words.argument_name(definitions.parse_path(row.first_time))
    except ValueError:
        name = row.first_time
    return _("the first time with a value of %(argument)s") % {"argument": show(name)}


def _describe_windows(row: ApprovalRule) -> str:
    try:
        found = words.join([words.translate_window(one) for one in windows.parse(row.windows)])
    except Mistake as mistake:
        return words.mistake(mistake)
    if not found:
        return ""
    return _("outside %(windows)s") % {"windows": found} if row.outside_windows else found


def _describe_people(row: ApprovalRule, approvers: int) -> str:
    if row.asks == ApprovalRule.Asks.PERSON:
        return _("the person who calls")
    text = ngettext("the only approver in %(group)s", "one of %(number)s approvers in %(group)s", approvers)
    return text % {"number": f"{approvers:,}", "group": show(row.group.name) if row.group is not None else ""}
