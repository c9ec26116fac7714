"""Rules and reasons in the language of the page, made from their codes. Clients and the log get English."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from audit import local_time
from audit.types import Reason
from catalog.conditions import measures, words
from catalog.models import ApprovalRule, Grant, Limit, Tool
from catalog.policy import limit_texts
from catalog.policy.definitions import APPROVAL, GRANT, LIMIT, LIMIT_REACHED, Rule
from catalog.schemas import errors
from catalog.schemas.errors import SchemaProblem
from toolhub.chinese import close_blanks
from toolhub.invisible import show

CHANGED_MEANWHILE = gettext_lazy("The catalogue is being changed at the same time. Try again.")
"""For `large_changes.Stale`."""
SENTENCES: dict[str, str | Promise] = {
    "rule.no_user": gettext_lazy("There is no such user."),
    "rule.inactive": gettext_lazy("The user is not active."),
    "rule.no_grant": gettext_lazy("No grant allows it."),
    "rule.other_toolsets": gettext_lazy("The token is restricted to other toolsets."),
    "rule.disabled": gettext_lazy("It is switched off."),
    "rule.not_offered": gettext_lazy("It is switched off or no longer exists."),
    "rule.quarantined": gettext_lazy("Quarantined: its definition changed at its source."),
    "rule.quarantined_gone": gettext_lazy("Quarantined: its source no longer has it."),
    "rule.quarantined_rejected": gettext_lazy("Quarantined: a reviewer rejected the change of its definition."),
    "rule.unlistable": gettext_lazy("Hidden: its schema breaks a rule. Open the tool to see which."),
    "rule.unpinned": gettext_lazy(
        "It waits for a comparison with its upstream server, which pins the tool that it calls."
    ),
    "rule.unfit": gettext_lazy("No arguments satisfy the conditions of the grants."),
    "obstacle.closed": gettext_lazy("Its time windows open again %(day)s (%(time)s)."),
    "obstacle.flags": gettext_lazy("It applies only where these flags are on: %(names)s."),
    "obstacle.unfit": gettext_lazy("Its conditions do not fit: %(mistake)s"),
    "obstacle.later": gettext_lazy("It starts %(day)s (%(time)s)."),
    "obstacle.ended": gettext_lazy("It ended %(day)s (%(time)s)."),
    "obstacle.elsewhere": gettext_lazy("It applies only in %(names)s, not in %(environment)s."),
    "obstacle.not_member": gettext_lazy("%(user)s is not in the group %(name)s."),
    "obstacle.only_others": gettext_lazy("Only other people have access."),
    "rule.own_result": gettext_lazy("The result belongs to the user."),
    "unknown.tool": gettext_lazy("There is no tool with this name."),
    "unknown.prompt": gettext_lazy("There is no prompt with this name."),
    "unknown.resource": gettext_lazy("There is no resource at this address."),
    "unknown.result": gettext_lazy("There is no such result, it belongs to another user, or it has expired."),
    "unknown.result_removed": gettext_lazy("The result was removed to make room for newer results."),
    "run.timed_out": gettext_lazy("Stopped after %(seconds)s s."),
    "run.failed": gettext_lazy("It failed unexpectedly. The server log has the details."),
    "run.internal": gettext_lazy("An internal error occurred. The server log has the details."),
    "run.not_started": gettext_lazy("It could not be started. The server log has the details."),
    "run.not_logged": gettext_lazy("Nothing ran: the audit log did not answer in time."),
    "run.client_left": gettext_lazy("Nothing ran: the client disconnected first."),
    "run.server_stopped": gettext_lazy("The server stopped while the call ran."),
    "run.process_ended": gettext_lazy("The server process ended before it could log how the call ended."),
    "cancelled.by_client": gettext_lazy("The client cancelled the call."),
    "cancelled.client_gone": gettext_lazy("The client disconnected."),
    "cancelled.session_ended": gettext_lazy("The client ended the session."),
    "cancelled.task": gettext_lazy("The client cancelled the task."),
    "cancelled.in_browser": gettext_lazy("%(name)s cancelled the call in the browser."),
    "cancelled.in_admin": gettext_lazy("%(name)s cancelled the call in the admin."),
    "cancelled.disconnected": gettext_lazy("An administrator ended the connection."),
    "cancelled.slow_reader": gettext_lazy("The client read its messages too slowly."),
    "cancelled.too_many": gettext_lazy("The client sent too many messages at once."),
    "cancelled.uploads": gettext_lazy("The client sent too many large messages at once."),
    "cancelled.too_large": gettext_lazy("The client sent a message that is too large."),
    "cancelled.binary_frame": gettext_lazy("The client sent a binary frame."),
    "cancelled.unchecked": gettext_lazy("The access token could not be checked."),
    "cancelled.internal": gettext_lazy("An internal error ended the connection."),
    "cancelled.unknown": gettext_lazy("The call was cancelled."),
    "cancelled.server_stopping": gettext_lazy("The server is stopping."),
    "cancelled.access_revoked": gettext_lazy("Access was revoked."),
    "busy.calls": gettext_lazy(
        "Denied: %(most)s calls of the user were running. Identical attempts at that time: %(attempts)s."
    ),
    "busy.session": gettext_lazy(
        "Denied: %(most)s requests of the session were in progress. Identical attempts at that time: %(attempts)s."
    ),
    "run.asked": gettext_lazy("It asked for %(keys)s."),
    "run.scope": gettext_lazy("The tool is not read-only, and the app was connected without the scope %(scope)s."),
    "run.capabilities": gettext_lazy("The client must declare these capabilities: %(names)s."),
    "approval.waiting": gettext_lazy("It waits for an approval: %(rules)s."),
    "approval.expired": gettext_lazy("It did not run: no approval in time."),
    "approval.lost": gettext_lazy("It did not run: its approval was withdrawn, used by another call, or is void."),
    "approval.too_many": gettext_lazy(
        "It did not run: %(most)s calls of the user wait for an approval, which is the maximum."
    ),
}
"""The reasons for decisions without a grant or limit, and for the ends of runs, by code."""


def translate(rule: Rule) -> str:
    """Return a rule in the language of the page."""
    return _translate(rule.code, rule.params)


def translate_reason(reason: Reason) -> str:
    """Return the reason of a decision in the language of the page; empty when the code is not known."""
    problem = SchemaProblem.from_reason(reason)
    try:
        return _translate(reason.code, reason.params) if problem is None else errors.translate(problem)
    except (KeyError, TypeError, ValueError):
        return ""  # parameters were edited: the page shows the English sentence


def describe_obstacle(obstacle: Reason, *, user: str, now: float, environment: str) -> str:
    """Return an obstacle of `catalog.policy.obstacles` in the language of the page, for the user of this name.

    `now` (seconds since 1970) and `environment` are those that were asked about. Times are in the reader's zone.
    """
    values: dict[str, Any] = {**obstacle.params, "user": user, "environment": environment}
    if "at" in values:
        at, asked = (datetime.fromtimestamp(seconds, UTC) for seconds in (values["at"], now))
        values |= {"day": _name_day(at, asked), "time": local_time.format_time_with_zone(at, "minutes")}
    if "mistake" in values:
        values["mistake"] = words.mistake(values["mistake"])
    if "names" in values:
        values["names"] = ", ".join(values["names"])
    return _translate(obstacle.code, values)


def _name_day(at: datetime, now: datetime) -> str:
    days = (timezone.localdate(at) - timezone.localdate(now)).days
    match days:
        case 0:
            return _("today")
        case -1:
            return _("yesterday")
        case 1:
            return _("tomorrow")
    text = ngettext("in %(number)s day", "in %(number)s days", days)
    if days < 0:
        text = ngettext("%(number)s day ago", "%(number)s days ago", -days)
    return text % {"number": f"{abs(days):,}"}


def name_row(row: object) -> str:
    """Return the name of a grant or a rule in the language of the page; `str()` of any other row."""
    if not isinstance(row, ApprovalRule | Grant | Limit):
        return str(row)
    name = translate(rule_of(row))
    return _("%(rule)s (in trial)") % {"rule": name} if row.trial else name


def rule_of(row: ApprovalRule | Grant | Limit) -> Rule:
    """Return the rule for a row."""
    if isinstance(row, ApprovalRule):
        return Rule(APPROVAL, {"number": row.pk or "(new)", "name": row.name})
    if isinstance(row, Limit):
        kind = "tool" if row.tool_id is not None else "toolset" if row.toolset_id is not None else "all"
        kind = "method" if row.method else kind
        name, subject_name = row.method or str(row.tool or row.toolset or ""), str(row.user or row.group or "")
        params = {"number": row.pk or "(new)", "rate": row.rate, "kind": kind, "name": name}
        params |= {"by": row.scope, "whom": subject_name}
        return Rule(LIMIT, params if row.measure == measures.CALLS else {**params, "measure": row.measure})
    kind, name = _target_of(row)
    by = "user" if row.user_id is not None else "group" if row.group_id is not None else "everyone"
    params = {"number": row.pk or "(new)", "effect": row.effect, "kind": kind, "name": name}
    params |= {"by": by, "whom": str(row.user or row.group or "")}
    return Rule(GRANT, {**params, "conditional": True} if row.conditions else params)


def name_target(grant: Grant) -> str:
    """Return the target of a grant, in words."""
    kind, name = _target_of(grant)
    return target(kind, name) if kind else "-"


def name_subject(grant: Grant) -> str:
    """Return the subject of a grant, in words."""
    params = rule_of(grant).params
    return subject(params["by"], params["whom"])


def list_marks(tool: Tool) -> list[str]:
    """Return what to know of a tool before somebody gets access to it, as words."""
    marks = (
        (tool.destructive and not tool.read_only, _("destructive")),
        (not tool.enabled, _("switched off")),
        (tool.quarantined_since is not None, _("quarantined")),
    )
    return [words for holds, words in marks if holds]


def name_with_marks(tool: Tool) -> str:
    """Return the name of a tool with its marks in brackets: "delete_file (destructive, switched off)"."""
    marks = ", ".join(list_marks(tool))
    return close_blanks(f"{show(tool.name)} ({marks})") if marks else show(tool.name)


def target(kind: str, name: str) -> str:
    match kind:
        case "tool":
            return _("tool %s") % name
        case "toolset":
            return _("toolset %s") % name
        case "resource":
            return _("resource %s") % name
        case "prompt":
            return _("prompt %s") % name
        case "method":
            return _("method %s") % name
    return _("all tools")


def subject(by: str, name: str = "") -> str:
    match by:
        case "user":
            return _("user %s") % name
        case "group":
            return _("group %s") % name
        case "each_member":
            return _("each member of %s") % name
        case "group_together":
            return _("the members of %s together") % name
        case "each_user":
            return _("each user")
        case "everyone_together":
            return _("everyone together")
    return _("everyone")


def _target_of(grant: Grant) -> tuple[str, str]:
    kind = next((kind for kind in Grant.TARGETS if getattr(grant, f"{kind}_id") is not None), "")
    return kind, str(getattr(grant, kind)) if kind else ""


def _translate(code: str, params: Mapping[str, Any]) -> str:
    if code in (GRANT, LIMIT, LIMIT_REACHED):
        text = _translate_rule(code, params)
    elif code == APPROVAL:
        text = _("Approval rule %(number)s: %(name)s") % params
    elif code == "approval.denied":
        text = (_("%(by)s denied it: %(reason)s") if params["reason"] else _("%(by)s denied it.")) % params
    else:
        text = str(SENTENCES.get(code, "")) % params
    if text and (names := params.get("approved_by")):
        return _("%(rule)s, approved by %(by)s") % {"rule": text, "by": names}
    if text and (number := params.get("lifted_by")):
        return _("%(rule)s, without approval (grant %(number)s)") % {"rule": text, "number": number}
    return text


def format_amount(measure: str, rate: str) -> str:
    """Return what a limit allows in a few words: 30/m, cost 5000/month, 3 at a time, same call 5/10m."""
    match measure:
        case measures.COST:
            return _("cost %(rate)s") % {"rate": rate}
        case measures.RUNNING:
            return _("%(rate)s at a time") % {"rate": rate}
        case measures.REPEATS:
            return _("same call %(rate)s") % {"rate": rate}
        case measures.ERRORS:
            return _("same error %(rate)s") % {"rate": rate}
    return rate


def _translate_rule(code: str, params: Mapping[str, Any]) -> str:
    values = {
        **params,
        "what": target(params["kind"], params["name"]),
        "whom": subject(params["by"], params["whom"]),
    }
    if code == GRANT:
        denies = params["effect"] == Grant.Effect.DENY
        sentence = _("Grant %(number)s: allow %(what)s to %(whom)s")
        sentence = (_("Grant %(number)s: deny %(what)s to %(whom)s") if denies else sentence) % values
        return _("%(grant)s, with conditions") % {"grant": sentence} if params.get("conditional") else sentence
    values["amount"] = format_amount(params.get("measure", measures.CALLS), params["rate"])
    limit = _("Limit %(number)s: %(amount)s on %(what)s for %(whom)s") % values
    if code == LIMIT:
        return limit
    return _("%(limit)s: wait %(time)s") % {"limit": limit, "time": limit_texts.format_seconds(params["seconds"])}
