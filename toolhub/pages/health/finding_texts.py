"""Texts of the findings: each finding with its evidence and the advice that usually fixes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from audit import display, hooks, local_time, outcomes
from audit.admin.base import calls_url
from catalog.advice.changes import Change
from catalog.schemas import errors
from toolhub import invisible
from toolhub.pages.health import findings, queries
from toolhub.pages.health.cause_texts import describe_cause, describe_turn
from toolhub.pages.health.queries import Attempt, CallSample, NameFact

MAX_LISTED_FINDINGS = 20


@dataclass(slots=True)
class Finding:
    tool: str
    text: str
    detail: str = ""
    """The logged answer to the client."""
    evidence: list[tuple[str, str]] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    link: str = ""
    edit: tuple[str, Change] | None = None
    """A tool and the change of its definition that would help; the page links to the editor with it."""
    edit_link: str = ""


@dataclass(slots=True)
class Section:
    id: str
    title: str
    about: str
    empty_text: str
    """The text shown when there are no findings."""
    findings: list[Finding]
    number: int


def _calls_link(words: str, **filters: str) -> tuple[str, str]:
    return words, calls_url(**filters)


def _call_link(attempt: Attempt) -> tuple[str, str]:
    return _("the last call"), reverse("admin:audit_call_change", args=(attempt.id,))


def _answer_text(attempt: Attempt | None) -> str:
    """Return the answer to the client, in the language of the page when the text is from toolhub."""
    return invisible.show(hooks.sentence(attempt.reason, attempt.detail)[:300]) if attempt is not None else ""


def _since_address(sample: CallSample) -> str:
    return local_time.format_for_url(sample.since)


def _tool_label(tool: str) -> str:
    return invisible.show(tool[:128])


# --- arguments ---------------------------------------------------------------------------------------------------


def rejected_section(sample: CallSample) -> Section:
    found = findings.find_rejected_arguments(sample.attempts)
    shown = [_argument_finding(one, sample) for one in found[:MAX_LISTED_FINDINGS]]
    return Section(
        "arguments",
        _("Arguments that are often rejected"),
        _("Calls whose arguments do not match the schema. The definition does not tell the model what to send."),
        _("No argument was rejected more than twice."),
        shown,
        len(found),
    )


PROBLEM_TEXTS = {
    findings.MISSING: gettext_lazy("“%(parameter)s” is missing"),
    findings.UNKNOWN: gettext_lazy("“%(parameter)s” is not a known parameter"),
    findings.CHOICE: gettext_lazy("“%(parameter)s” is not an allowed value: expected %(expected)s"),
    findings.BOUND: gettext_lazy("“%(parameter)s” is out of range: expected %(expected)s"),
    findings.PATTERN: gettext_lazy("“%(parameter)s” has the wrong format: expected %(expected)s"),
    findings.TYPE: gettext_lazy("“%(parameter)s” has the wrong type: expected %(expected)s"),
    findings.OTHER: gettext_lazy("The arguments do not match the schema"),
}


def _argument_finding(one: findings.RejectedArgument, sample: CallSample) -> Finding:
    known = one.problem
    wanted = errors.translate_expected(known.code, known.params) if known is not None else ""
    parameter, expected = invisible.show(one.parameter[:100]), invisible.show(wanted[:200])
    what = PROBLEM_TEXTS[one.kind] % {"parameter": parameter, "expected": expected}
    times = ngettext(
        "%(what)s, in %(number)s of %(of)s call.", "%(what)s, in %(number)s of %(of)s calls.", one.calls
    ) % {
        "what": what,
        "number": one.number,
        "of": one.calls,
    }
    evidence = [
        _calls_link(
            _("the rejected calls"), tool=one.tool, outcome=outcomes.INVALID_ARGUMENTS, since=_since_address(sample)
        ),
    ]
    if one.last is not None:
        evidence.append(_call_link(one.last))
    change = _argument_change(one)
    return Finding(
        _tool_label(one.tool),
        times,
        _answer_text(one.last),
        evidence,
        [_argument_advice(one)],
        edit=(one.tool, change) if change is not None else None,
    )


def _argument_advice(one: findings.RejectedArgument) -> str:
    kind = one.kind
    if kind == findings.MISSING:
        return _("Add a default to the schema, or say in its description where the value comes from.")
    if kind == findings.UNKNOWN and one.intended:
        return _(
            "Clients send it instead of “%(right)s”. Rename the parameter, or say its name in its description."
        ) % {"right": invisible.show(errors.path_text(one.intended, any_item=True)[:100])}
    if kind == findings.UNKNOWN:
        return _("Models expect this parameter. Add it, or name the parameter to use instead in the description.")
    if kind == findings.CHOICE:
        return _(
            "List the allowed values as an enum and describe each one. Accept other values if their meaning is clear."
        )
    if kind == findings.BOUND:
        return _("State the allowed range in the parameter's description, or widen it if the tool can handle more.")
    if kind == findings.PATTERN:
        return _("Show an example of the format in the description, such as 2026-01-31.")
    if kind == findings.TYPE:
        return _("Describe the type with an example. Allow numbers as text if models send them that way.")
    return _("Add an example of complete arguments to the description.")


_CHANGES = {
    findings.MISSING: "required",
    findings.CHOICE: "choices",
    findings.BOUND: "bounds",
    findings.PATTERN: "format",
    findings.TYPE: "type",
}


def _argument_change(one: findings.RejectedArgument) -> Change | None:
    if one.kind == findings.UNKNOWN and one.intended and one.problem is not None:
        change = Change("other_name", one.intended, str(one.problem.path[-1]))
        return change if change.is_possible else None
    if one.kind in _CHANGES and one.problem is not None and one.problem.path:
        return Change(_CHANGES[one.kind], one.problem.path)
    return None


# --- names that are not there --------------------------------------------------------------------------------------


def invented_section(sample: CallSample) -> Section:
    found = findings.find_invented_names(sample.attempts)
    facts = queries.explain_names([one.name for one in found[:MAX_LISTED_FINDINGS]])
    return Section(
        "unknown",
        _("Tools that clients do not find"),
        _("Names that clients called at least three times although they were not given such a tool."),
        _("Clients called only tools that they were given."),
        [_invented_finding(one, facts[one.name], sample) for one in found[:MAX_LISTED_FINDINGS]],
        len(found),
    )


def _invented_finding(one: findings.InventedName, fact: NameFact, sample: CallSample) -> Finding:
    text = ngettext("%(calls)s by %(users)s user.", "%(calls)s by %(users)s users.", one.users) % {
        "calls": ngettext("%(number)s call", "%(number)s calls", one.number) % {"number": one.number},
        "users": one.users,
    }
    evidence = [
        _calls_link(_("these calls"), tool=one.name, outcome="not_ok", since=_since_address(sample)),
        _call_link(one.last),
    ]
    change = Change("use_this", name=one.name)
    fitting = fact.state in (queries.RENAMED, queries.SIMILAR) and change.is_possible
    return Finding(
        _tool_label(one.name), text, "", evidence, [_name_cause(fact)], edit=(fact.tool, change) if fitting else None
    )


def _name_cause(fact: NameFact) -> str:
    texts = {
        queries.NO_ACCESS: _("The tool exists, but these users have no access to it. Grant access, or leave it so."),
        queries.OFF: _("The tool is switched off. Clients that were started before may still call it."),
        queries.QUARANTINED: _("The tool is in quarantine. Review its changes to bring it back."),
        queries.RENAMED: _("It was renamed to %(tool)s. Clients and saved prompts still use the old name."),
        queries.DELETED: _("It was deleted on %(at)s. Clients and saved prompts still use its name."),
        queries.SIMILAR: _("No tool has this name. %(tool)s is similar: say in its description what it is for."),
        queries.ABSENT: _("No tool has this name or a similar one. Models expect such a tool: consider adding it."),
    }
    at = local_time.format_time_with_zone(fact.at, "minutes") if fact.at is not None else ""
    return texts[fact.state] % {"tool": _tool_label(fact.tool), "at": at}


# --- slow, failing, given up, repeated ---------------------------------------------------------------------------


def trouble_section(sample: CallSample) -> Section:
    found = findings.find_troubles(sample.attempts, queries.find_young())
    return Section(
        "trouble",
        _("Slow and failing tools"),
        _(
            "A tool is listed for five failed calls that are a fifth of all, three timeouts, or a p95 latency of ten "
            "seconds. In its first day, it is judged after %(calls)d calls."
        )
        % {"calls": findings.MIN_YOUNG_CALLS},
        _("No slow or failing tools."),
        [_trouble_finding(one, sample) for one in found[:MAX_LISTED_FINDINGS]],
        len(found),
    )


def _trouble_finding(one: findings.Trouble, sample: CallSample) -> Finding:
    text = ngettext(
        "%(failed)s of %(ran)s call failed (timed out: %(timeouts)s). p95 latency: %(p95)s.",
        "%(failed)s of %(ran)s calls failed (timed out: %(timeouts)s). p95 latency: %(p95)s.",
        one.ran,
    ) % {"failed": one.failed, "ran": one.ran, "timeouts": one.timeouts, "p95": display.format_duration(one.p95) or "–"}
    advice = [*describe_turn(one), *map(describe_cause, one.causes)]
    if one.timeouts >= findings.MIN_TIMEOUTS:
        advice.append(_("Increase its timeout, let it run as a task, or let clients request less per call."))
    if one.p95 is not None and one.p95 >= findings.MIN_SLOW_MICROSECONDS and not one.timeouts:
        advice.append(_("Report progress, or let it run as a task. Clients may give up on long silent calls."))
    since = _since_address(sample)
    evidence = [
        _calls_link(words, tool=one.tool, outcome=outcome, since=since)
        for number, words, outcome in (
            (one.failed - one.timeouts, _("the errors"), outcomes.TOOL_ERROR),
            (one.timeouts, _("the timeouts"), outcomes.TIMEOUT),
        )
        if number
    ] or [_calls_link(_("its calls"), tool=one.tool, since=since)]
    if one.last is not None:
        evidence.append(_call_link(one.last))
    slow = one.timeouts >= findings.MIN_TIMEOUTS
    edit = (one.tool, Change("longer_timeout")) if slow else None
    # A cause that only the tool's own sentence tells is that sentence already.
    answer = "" if any(cause.code == findings.OWN for cause in one.causes) else _answer_text(one.error)
    return Finding(_tool_label(one.tool), text, answer, evidence, advice, edit=edit)


def abandoned_section(sample: CallSample) -> Section:
    found = findings.find_abandoned_tools(sample.attempts)
    shown = [
        Finding(
            _tool_label(one.tool),
            ngettext(
                "After %(number)s of %(errors)s error, the client did not call it again within ten minutes.",
                "After %(number)s of %(errors)s errors, the client did not call it again within ten minutes.",
                one.errors,
            )
            % {"number": one.number, "errors": one.errors},
            _answer_text(one.last),
            [
                _calls_link(_("its unsuccessful calls"), tool=one.tool, outcome="not_ok", since=_since_address(sample)),
                _call_link(one.last),
            ],
            [_("Say in the error what to change: the wrong value, the allowed values, or the tool to use first.")],
        )
        for one in found[:MAX_LISTED_FINDINGS]
    ]
    return Section(
        "given-up",
        _("Tools that clients give up on"),
        _("Tools that clients mostly do not call again within ten minutes of an error."),
        _("Clients try again after an error, or there were too few errors to tell."),
        shown,
        len(found),
    )


def loop_section(sample: CallSample) -> Section:
    found = findings.find_loops(sample.attempts)
    shown = []
    for one in found[:MAX_LISTED_FINDINGS]:
        first, last = (
            local_time.format_for_url(datetime.fromtimestamp(int(at), UTC)) for at in (one.first.at, one.last.at + 1)
        )
        if one.outcome == outcomes.OK:
            advice = _("Say in the description that the result does not change, or say in the result when to retry.")
        else:
            advice = _(
                "The error does not say what to change, so the model repeats the call. Name the problem in the error."
            )
        shown.append(
            Finding(
                _tool_label(one.tool),
                _("%(client)s of %(user)s sent the same arguments %(number)s times within ten minutes.")
                % {
                    "client": invisible.show(one.first.client[:60]) or one.first.credential,
                    "user": invisible.show(one.first.user),
                    "number": one.number,
                },
                _answer_text(one.last),
                [
                    _calls_link(
                        _("these calls"), tool=one.tool, credential=one.first.credential, since=first, until=last
                    ),
                    _call_link(one.last),
                ],
                [advice, _("A limit of the same call stops such loops. The model reads what to do instead.")],
                edit=(one.tool, Change("no_repeat")) if one.outcome == outcomes.OK else None,
            )
        )
    return Section(
        "loops",
        _("Repeated identical calls"),
        _("One client called a tool with the same arguments at least five times within ten minutes."),
        _("No client repeated the same call."),
        shown,
        len(found),
    )


# --- never called ------------------------------------------------------------------------------------------------


def unused_section() -> Section:
    found, number, counted, live = queries.find_unused()
    shown = []
    for one in found:
        advice = list(map(str, one.similar_tools))
        if not one.granted:
            advice.insert(0, _("No grant allows this tool to anyone. Grant access to it, or disable it."))
        elif not one.similar_tools:
            advice.append(
                _("Say in the description when to use it, or disable it: every tool uses context-window space.")
            )
        text = _("It has been enabled for %(days)d days without a call.") % {"days": queries.UNUSED_DAYS}
        shown.append(Finding(_tool_label(one.tool), text, "", [], advice))
    about = _("Tools that have been enabled for %(days)d days or longer, and had no call in that time.") % {
        "days": queries.UNUSED_DAYS
    }
    if not live:
        about += " " + _("Counted up to %(at)s. Newer calls are still being counted.") % {
            "at": local_time.format_time_with_zone(counted, "minutes")
        }
    return Section(
        "unused", _("Tools that are never called"), about, _("Every tool that is old enough was called."), shown, number
    )
