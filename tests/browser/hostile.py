"""A database in which every text that can be stored is an attack: run inside the server's settings by `Hub.call`.

Nothing here names the pages, and little names the columns: whatever model or column is new is made hostile as well,
unless SPECIAL says what it has to hold instead (JSON of some shape, an address) or that it stays (KEEP).
"""

from __future__ import annotations

import itertools
import json
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from audit.types import Reason

KEEP = object()
PIECES = (
    '"><script>p()</script>',
    "<img src=x onerror=p()>",
    "'\"><svg onload=p()>",
    "</script><script>p()</script>",
    "</textarea></title></style></noscript><script>p()</script>",
    '" x-data x-init="p()" onmouseover="p()" y="',
    "<div x-data x-init=p()>",
    "javascript:p()",
    "{{1333*1333}}{% now 'Y' %}{{ request.user }}${p()}",
    "`+p()+`'+p()+'",
    "\u202etxt.exe\u2066\u200b\u0007",
    "<iframe src=javascript:p()></iframe><base href=//evil.example.com/>",
    "<a href=javascript:p()>x</a><form action=//evil.example.com/><button formaction=javascript:p()>",
)
FORMULA = '=HYPERLINK("http://evil.example.com")'
FULL_ATTACK = FORMULA + "".join(PIECES)
SHORT_ATTACK = "<svg onload=p()>"
LINK = "javascript:p()//" + PIECES[0]
ICONS = [
    {"src": "javascript:p()", "mimeType": FULL_ATTACK, "sizes": [FULL_ATTACK]},
    {"src": "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='p()'/>", "mimeType": "image/svg+xml"},
    {"src": "https://evil.example.com/icon.png"},
    {"src": f'https://evil.example.com/"{PIECES[1]}'},
]
SCHEMA = {
    "type": "object",
    "title": FULL_ATTACK,
    "description": FULL_ATTACK,
    "properties": {
        FULL_ATTACK: {
            "type": "string",
            "title": FULL_ATTACK,
            "description": FULL_ATTACK,
            "default": FULL_ATTACK,
            "enum": [FULL_ATTACK, PIECES[3]],
        },
        PIECES[0]: {"type": "array", "items": {"type": "string", "examples": [FULL_ATTACK]}, "$comment": FULL_ATTACK},
        "plain": {"type": "object", "description": FULL_ATTACK, "properties": {PIECES[1]: {"const": FULL_ATTACK}}},
        "pattern": {"type": "string", "format": FULL_ATTACK, "x-hostile": FULL_ATTACK},
    },
    "required": [FULL_ATTACK],
}
CONTENT = {
    "content": [
        {"type": "text", "text": FULL_ATTACK},
        {
            "type": "resource_link",
            "uri": "javascript:p()",
            "name": FULL_ATTACK,
            "title": FULL_ATTACK,
            "description": FULL_ATTACK,
        },
        {"type": "image", "data": '"><script>p()</script>', "mimeType": 'image/svg+xml"' + PIECES[1]},
        {"type": "audio", "data": "AAAA", "mimeType": PIECES[0]},
        {"type": "resource", "resource": {"uri": "javascript:p()", "mimeType": "text/html", "text": FULL_ATTACK}},
    ],
    "structuredContent": {FULL_ATTACK: FULL_ATTACK},
    "_meta": {FULL_ATTACK: [FULL_ATTACK]},
}
DEFINITION = {
    "name": FULL_ATTACK,
    "title": FULL_ATTACK,
    "description": FULL_ATTACK,
    "inputSchema": SCHEMA,
    "icons": ICONS,
}
DOCUMENT = {
    "openapi": "3.0.3",
    "info": {"title": FULL_ATTACK, "version": FULL_ATTACK, "description": FULL_ATTACK},
    "servers": [{"url": "https://example.com/", "description": FULL_ATTACK}],
    "paths": {
        "/things": {
            "get": {
                "operationId": PIECES[0],
                "summary": FULL_ATTACK,
                "description": FULL_ATTACK,
                "tags": [FULL_ATTACK],
                "parameters": [{"name": "q", "in": "query", "description": FULL_ATTACK, "schema": {"type": "string"}}],
                "responses": {"200": {"description": FULL_ATTACK}},
            }
        }
    },
}
REQUEST_STATES = ("open", "approved", "declined", "withdrawn", "gone")
CONDITION = {"path": f"/{PIECES[1]}", "op": "one_of", "values": list(PIECES)}
PAIR = json.dumps(
    {FULL_ATTACK: FULL_ATTACK, "name": PIECES[0], "list": [FULL_ATTACK], "nested": {PIECES[1]: FULL_ATTACK}}
)
NOTES = [["grant", key, "allow", "deny"] for key in range(1, 21)]
SPECIAL: dict[str, Any] = {
    # What the framework and the theme keep for themselves, and what is a key, a digest or a cipher.
    "auth.Permission": KEEP,
    "contenttypes.ContentType": KEEP,
    "sessions.Session": KEEP,
    "auth.User.password": KEEP,
    # No form lets a user's name turn the direction of the line, and one's own full name is for nobody else.
    "auth.User.username": lambda number: f"{FORMULA}{PIECES[0]}{PIECES[5]}{PIECES[2]}{number}",
    "auth.User.first_name": FORMULA + PIECES[0],
    "auth.User.email": lambda number: f"{PIECES[0]}{PIECES[5]}{number}@example.com",
    "auth.User.last_name": PIECES[5] + PIECES[2],
    "audit.Call.username": f"{FORMULA}{PIECES[0]}{PIECES[1]}{PIECES[10]}",
    "access.AccessToken.digest": KEEP,
    "access.ServingProcess": KEEP,
    "access.Preference": KEEP,
    "audit.Link": KEEP,
    "audit.Writer": KEEP,
    "audit.RollupProgress": KEEP,
    "audit.TextProgress": KEEP,
    "audit.CallText": KEEP,
    "audit.Rollup.span": KEEP,
    "audit.Rollup.what": KEEP,
    "catalog.Secret.value": KEEP,
    "catalog.Secret.client_secret": KEEP,
    "catalog.Secret.registration": KEEP,
    "catalog.PersonalSecret": KEEP,
    "catalog.ConnectedAccount": KEEP,
    # What the server itself parses.
    # Stands in addresses, where a slash would make it another one.
    "catalog.Tool.name": lambda number: f"{PIECES[1]}{PIECES[5]}{PIECES[8]}{number}",
    "catalog.Tool.runner": KEEP,
    "catalog.Tool.settings": KEEP,
    "catalog.Tool.requires_capabilities": KEEP,
    "catalog.Tool.origin": KEEP,
    "catalog.Tool.input_schema": SCHEMA,
    "catalog.Tool.output_schema": SCHEMA,
    "catalog.Tool.icons": ICONS,
    "catalog.Tool.approved": json.dumps(DEFINITION),
    "catalog.Tool.proposed": json.dumps({**DEFINITION, "description": FULL_ATTACK + "!"}),
    "catalog.Tool.app": {"resourceUri": FULL_ATTACK},
    "catalog.Resource.origin": KEEP,
    "catalog.Resource.upstream": KEEP,
    "catalog.Resource.annotations": {"audience": [FULL_ATTACK]},
    "catalog.Resource.icons": ICONS,
    "catalog.Resource.app": {"domain": FULL_ATTACK, "csp": {"connectDomains": [FULL_ATTACK]}},
    "catalog.Resource.approved": json.dumps({"uri": FULL_ATTACK, "text": FULL_ATTACK}),
    "catalog.Resource.proposed": json.dumps({"uri": FULL_ATTACK, "text": FULL_ATTACK + "!"}),
    "catalog.Prompt.origin": KEEP,
    "catalog.Prompt.upstream": KEEP,
    "catalog.Prompt.icons": ICONS,
    "catalog.Prompt.approved": json.dumps({"name": FULL_ATTACK, "description": FULL_ATTACK}),
    "catalog.Prompt.proposed": json.dumps({"name": FULL_ATTACK, "description": FULL_ATTACK + "!"}),
    "catalog.Resource.uri": lambda number: f"{LINK}{number}",
    "catalog.Resource.uri_template": KEEP,
    "catalog.Resource.blob": KEEP,
    "catalog.Resource.function": KEEP,
    "catalog.Resource.completions": KEEP,
    "catalog.Prompt.function": KEEP,
    "catalog.Prompt.arguments": [
        {"name": FULL_ATTACK, "title": FULL_ATTACK, "description": FULL_ATTACK, "required": True}
    ],
    "catalog.Prompt.messages": [{"role": "user", "content": {"type": "text", "text": FULL_ATTACK}}],
    "catalog.Grant.environments": lambda number: [FULL_ATTACK] if number == 2 else [],
    "catalog.Grant.conditions": lambda number: [CONDITION] if number == 2 else [],
    "catalog.AccessRequest.conditions": lambda number: [CONDITION] if number > len(REQUEST_STATES) else [],
    "catalog.Grant.windows": KEEP,
    "catalog.Grant.flags": KEEP,
    "catalog.ValueListPart.entries": [FULL_ATTACK, *PIECES],
    "catalog.Limit.rate": KEEP,
    "catalog.Limit.zone": KEEP,
    "catalog.Tool.cost_argument": KEEP,
    "catalog.LimitUsage.counter": KEEP,
    "catalog.Task.credential": KEEP,
    "catalog.Task.toolset_ids": KEEP,
    "catalog.StoredResult.toolset_ids": KEEP,
    "catalog.Task.worker": KEEP,
    "catalog.Task.result": CONTENT,
    "catalog.Task.error": {"code": -32603, "message": FULL_ATTACK, "data": {FULL_ATTACK: FULL_ATTACK}},
    "catalog.Task.input_requests": {},
    "catalog.Task.input_responses": {},
    # Digests, and what the server itself parses.
    **{f"catalog.Approval.{name}": KEEP for name in ("binding", "context", "seal", "rule_ids")},
    "catalog.Approval.arguments": PAIR,
    "catalog.ApprovalRule.conditions": KEEP,
    "catalog.ApprovalRule.windows": KEEP,
    "catalog.Upstream.url": "javascript:p()",
    "catalog.Upstream.args": [FULL_ATTACK, PIECES[0]],
    "catalog.Upstream.env": KEEP,
    "catalog.Upstream.headers": KEEP,
    "catalog.Upstream.allowed_networks": KEEP,
    "catalog.Upstream.new_tools": KEEP,
    "catalog.ImportedDocument.choices": KEEP,
    "catalog.ImportedDocument.pending": json.dumps(DOCUMENT),
    "catalog.ImportedDocument.kept": KEEP,
    # Written by the server about itself, whatever clients and tools say.
    **{f"audit.Checkpoint.{name}": PIECES[0] for name in ("heads", "previous", "hash", "signature")},
    "audit.Checkpoint.key": SHORT_ATTACK,
    "audit.Verification": PIECES[0] + PIECES[1],
    "audit.Call.credential_id": KEEP,
    "audit.Call.transport": SHORT_ATTACK,
    "audit.Call.revision": SHORT_ATTACK,
    "audit.Call.address": PIECES[0],
    "audit.Call.method": KEEP,
    "audit.Call.arguments": PAIR,
    "audit.Call.result": json.dumps(CONTENT),
    # Some of them say what rules in trial would have changed.
    "audit.Call.rule_reason": lambda number: (
        Reason("rule.grant", {"name": FULL_ATTACK, "trials": NOTES}).text if number % 3 else FULL_ATTACK
    ),
    "audit.Action.before": json.dumps({FULL_ATTACK: "before " + FULL_ATTACK, "gone": PIECES[0]}),
    "audit.Action.after": PAIR,
    "audit.SavedView.filters": json.dumps({"q": FULL_ATTACK, "tool": FULL_ATTACK, "user": PIECES[0]}),
}
"""By "app.Model" or "app.Model.field"; a function makes another value for each number of a row. What is written for a
model counts for its history as well."""

_turn = itertools.count()


def text(room: int | None, unique: str = "") -> str:
    """As much of the attack as fits, another part of it each time, with a mark that makes it unlike any other."""
    if room is None or room >= len(FULL_ATTACK) + len(unique):
        return FULL_ATTACK + unique
    room -= len(unique)
    start = next(_turn) % len(PIECES)
    made = FORMULA if room > 2 * len(FORMULA) else ""
    for piece in (*PIECES[start:], *PIECES[:start]):
        if len(made) + len(piece) <= room:
            made += piece
    return (made or SHORT_ATTACK[:room]) + unique


def special(model: Any, field: Any) -> Any:
    label = model._meta.label.replace("Historical", "")
    return SPECIAL.get(f"{label}.{field.name}", SPECIAL.get(label))


def poison() -> int:
    """Every row of every model; the number of values that are attacks now."""
    from django.apps import apps
    from django.db import models

    count = 0
    for model in apps.get_models(include_auto_created=True):
        fields = [
            field
            for field in model._meta.concrete_fields
            if isinstance(field, models.CharField | models.TextField)
            and not (field.choices or field.primary_key or isinstance(field, models.SlugField))
            and special(model, field) is not KEEP
        ]
        for number, pk in enumerate(model._base_manager.values_list("pk", flat=True) if fields else ()):
            values = {}
            for field in fields:
                wanted = special(model, field)
                if wanted is None:
                    wanted = text(field.max_length, str(number))
                elif callable(wanted):
                    wanted = wanted(number)
                values[field.name] = wanted
            model._base_manager.filter(pk=pk).update(**values)
            count += len(values)
    return count


def seed_everything() -> dict[str, Any]:
    """One of everything and calls of every outcome, all of it hostile; and the sessions of two people."""
    from django.contrib.admin.models import CHANGE, LogEntry
    from django.contrib.auth.models import Group, User
    from django.contrib.contenttypes.models import ContentType
    from django.test import Client
    from django.utils import timezone

    from audit import outcomes
    from audit.format import keys
    from audit.format.uuid7 import new_id
    from audit.models import Checkpoint, SavedView, Verification
    from catalog.approvals import bindings
    from catalog.models import AccessRequest, Approval, ApprovalRule, CallReport, Grant, Tool, Upstream
    from tests import census, factories
    from tests.audit import rows
    from toolhub.access.models import AccessToken

    alice = User.objects.create_user("alice", first_name="A", last_name="B", email="a@example.com")
    root = User.objects.create_superuser("root")
    now = timezone.now()
    Checkpoint.objects.create(number=1, at=now, heads="{}", previous="0", hash="0", key="k", signature="s")
    Verification.objects.create(id=new_id(), at=now, ok=False, through="", problem="x", links=1, outside_head=False)
    address_values = census.create_address_values(alice)
    Upstream.objects.update(enabled=False, last_error="x")
    toolset = factories.make_toolset("Poisoned", requestable=True)
    factories.grant(alice, toolset)
    factories.make_tool("sum_with_everything", toolset=toolset, output_schema={"type": "object"}, read_only=True)
    factories.make_resource("docs://poisoned", toolset=toolset)
    factories.make_prompt("poisoned", toolset=toolset)
    factories.make_group("staff", [alice, root])
    group = Group.objects.get(name="staff")
    factories.grant(group, toolset)
    factories.deny(None, factories.make_tool("hidden"))
    calls = rows.save(
        *(
            rows.build_call(number, user=alice, outcome=value, target_id=address_values["tool"], started_at=now)
            for number, (value, _label) in enumerate(outcomes.CHOICES, 1)
        ),
        *(rows.build_call(number, user=alice, started_at=now) for number in (50, 51)),
    )
    for state in REQUEST_STATES:
        AccessRequest.objects.create(
            person=alice, kind="toolset", toolset=toolset, name="x", reason="x", state=state, answer="x",
            decided_by="x", decided_at=now,
        )  # fmt: skip
    tool_requests = []
    other = factories.make_toolset("Poisoned too", requestable=True)
    asked = factories.make_tool("nobody_has_it", toolset=other)
    tool, narrowed = Tool.objects.get(name="sum_with_everything"), factories.grant(alice, toolset)
    for state in ("open", "approved"):  # after the others, so that these have the conditions
        for_tool = AccessRequest.objects.create(
            person=alice, kind="tool", toolset=toolset, tool=tool, name="x", reason="x", state=state, answer="x",
            decided_by="x", decided_at=now, grant=narrowed if state == "approved" else None,
        )  # fmt: skip
        tool_requests.append(for_tool.pk)
    CallReport.objects.create(person=alice, call_id=calls[0].pk, name="x", outcome="timeout", state="closed")
    rule = ApprovalRule.objects.create(name="poisoned", group=group, tool=Tool.objects.get(name="sum_with_everything"))
    for state in Approval.State.values:
        factories.make_approval(
            call_id=calls[0].pk, user=root, maker=alice, credential="token:1", credential_name="x", client="x",
            tool=rule.tool, tool_name="x", rule=rule, rule_name="x", asks="approvers", group=group, four_eyes=False,
            arguments="{}", binding=state, context="", state=state, expires=now + timedelta(days=1), decided_by=alice,
            decided_by_name="x", decided_at=now, reason="x",
        )  # fmt: skip
    CallReport.objects.create(person=alice, call_id=calls[-1].pk, name="x", outcome="timeout")
    SavedView.objects.create(owner=alice, name="other", shared=True, filters="{}")
    SavedView.objects.create(owner=root, name="own", filters="{}")
    LogEntry.objects.create(
        user=root,
        content_type=ContentType.objects.get_for_model(User),
        object_id=str(alice.pk),
        object_repr="x",
        action_flag=CHANGE,
        change_message="x",
    )
    token = AccessToken.objects.issue(alice, "client")[1]
    Grant.everything.filter(trial=True).update(trial_since=now - timedelta(hours=1))
    count = poison()
    for row in Approval.objects.all():  # nobody sees a waiting request that toolhub did not write
        row.seal = bindings.seal(row)
        row.save(update_fields=["seal"])
    # Nothing starts on an audit log in which no checkpoint names a key of this installation.
    own = keys.key_name()
    Checkpoint.objects.create(number=2, at=now, heads="{}", previous="0", hash="0", key=own, signature="s")
    address_values["tool_name"] = quote(Tool.objects.get(pk=address_values["tool"]).name, safe="")
    sessions = {}
    for name, pk in (("alice", alice.pk), ("root", root.pk)):
        browser = Client()
        browser.force_login(User.objects.get(pk=pk))
        sessions[name] = browser.cookies["toolhub_session"].value
    return {
        "things": {name: str(value) for name, value in address_values.items()},
        "calls": [str(call.pk) for call in calls],
        "asked": f"/requests/toolset/{other.pk}/?tool={quote(Tool.objects.get(pk=asked.pk).name, safe='')}",
        "tool_requests": [f"/admin/requests/{pk}/" for pk in tool_requests],
        "sessions": sessions,
        "token": token,
        "count": count,
    }
