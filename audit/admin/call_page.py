"""Content of the page of one call, in the order of a reader's questions: decision, execution, hash chain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils.translation import gettext as _

from audit import display, hooks, local_time, outcomes
from audit.admin.base import calls_url, row_url
from audit.integrity import proof
from audit.models import Call
from audit.queries import comparison, neighbours
from audit.results import sections
from toolhub import invisible


def context(call: Call, viewer: Any) -> dict[str, Any]:
    """Return the template context of the page as `viewer` may read it, without the theme's part."""
    definition = comparison.definition_of(call)
    return {
        "decision": _decision(call),
        "decision_tone": "success" if call.outcome not in outcomes.REJECTED else "warning",
        "facts": _facts(call),
        "related": [_show_related(one) for one in hooks.catalogue().find_related(call, viewer)],
        "sections": sections.of_call(
            call,
            definition.text if definition is not None and definition.exact else "",
            download=lambda what: reverse("admin:audit_call_copy", args=(call.pk, what)),
            part=lambda number: reverse("admin:audit_call_part", args=(call.pk, number)),
            advise=True,
        ),
        "definition": definition,
        "definition_text": display.body(definition.text) if definition is not None else None,
        "neighbours": _rows(neighbours.list_nearby(call)),
        "neighbours_address": calls_url(user=call.username, credential=call.credential_id, client=call.client_name),
        "repeats": (repeats := neighbours.find_repeats(call)),
        "repeated": _rows(repeats.calls) if repeats.count > 1 else [],
        "proof": proof.compute(call),
        "can_curl": call.method in {"tools/call", "prompts/get", "resources/read"},
    }


def _show_related(one: hooks.Related) -> hooks.Related:
    """Return it with names and notes as plain text, in which invisible characters are visible."""
    details = [invisible.show(text[:1000]) for text in one.details]
    return replace(one, name=invisible.show(one.name[:300]), details=details)


def _decision(call: Call) -> list[tuple[str, str]]:
    """Return (title, text) of the decision, the rule, and the limit or check that stopped the call."""
    decisions = {
        outcomes.REFUSED: _('Denied by the rule below. The client received "Unknown tool".'),
        outcomes.UNKNOWN_TOOL: _("Rejected: no tool, prompt or resource has this name."),
        outcomes.LIMITED: _("Rejected: a limit was reached."),
        outcomes.INVALID_ARGUMENTS: _("Rejected: the arguments do not match the schema."),
        outcomes.WAITING: _("Waited for approval. Nothing ran: a call that runs after an approval has its own entry."),
        outcomes.APPROVAL_DENIED: _("Rejected: a person denied the approval."),
        outcomes.APPROVAL_EXPIRED: _("Rejected: nobody approved it in time, or its approval was lost."),
    }  # fmt: skip
    found = [(_("Decision"), decisions.get(call.outcome, _("Allowed to run.")))]
    found.append((_("Rule"), hooks.sentence(call.rule_reason, call.rule) or _("no rule")))
    names = {outcomes.LIMITED: _("Limit"), outcomes.INVALID_ARGUMENTS: _("Validation error")}
    if call.outcome in names:
        found.append((names[call.outcome], hooks.sentence(call.detail_reason, call.detail)))
    return _format_facts(found)


def _facts(call: Call) -> list[tuple[str, str]]:
    client = f"{call.client_name} {call.client_version}".strip()
    address = call.address or _("this machine")
    transport = _("%(transport)s, protocol version %(revision)s, from %(address)s") % {
        "transport": call.transport, "revision": call.revision, "address": address,
    }  # fmt: skip
    facts = [
        (_("Tool, prompt or resource"), call.name),
        (_("Method"), call.method),
        (_("User"), f"{call.username} (id {call.user_id})" if call.user_id else call.username),
        (_("Origin"), _origin(call)),
        (_("Credential"), f"{call.credential} ({call.credential_id})"),
        (_("Client (self-reported)"), client or _("(not given)")),
        (_("Transport"), transport),
        (_("Definition"), call.definition),
        (_("Error"), ": ".join(filter(None, (call.error_class, hooks.sentence(call.detail_reason, call.detail))))),
        (_("Started"), local_time.format_time_with_zone(call.started_at, "exact")),
        (_("Ended"), local_time.format_time_with_zone(call.ended_at, "exact") if call.ended_at else ""),
        (_("Duration"), display.format_duration(call.duration_us)),
        (_("Result size"), _size(call)),
        (_("Request ID"), call.request_id),
    ]
    return _format_facts(facts)


def _origin(call: Call) -> str:
    """Return who tried the call in the admin; empty for a call by a client."""
    kind, _colon, number = call.credential_id.partition(":")
    if call.transport != "admin" and kind != "admin":
        return ""
    administrator = None
    if kind == "admin" and number.isdecimal() and len(number) < 19:
        administrator = get_user_model()._default_manager.filter(pk=int(number)).first()
    name = administrator.get_username() if administrator is not None else call.credential
    if call.transport == "test":
        return _("Test case run by %(name)s") % {"name": name}
    return _("Tried in the admin by %(name)s") % {"name": name}


def _size(call: Call) -> str:
    if not call.result_sha256:
        return ""
    return _("%(count)s bytes, SHA-256 %(digest)s") % {"count": f"{call.result_bytes:,}", "digest": call.result_sha256}


def _rows(nearby: list[neighbours.NearbyCall]) -> list[tuple[neighbours.NearbyCall, str, str]]:
    """Return each call with its displayed name and the URL of its page, which is empty for the page's own call."""
    return [(one, invisible.show(one.call.name[:200]), "" if one.is_current else row_url(one.call)) for one in nearby]


def _format_facts(facts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, invisible.show(value[:2000])) for name, value in facts if value]
