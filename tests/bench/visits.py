"""Which addresses a benchmark of the pages asks for, as whom: every one of the census that answers GET, and more.

The more is what a page is asked for at its heaviest: a search, a filter, a later page, all the JSON behind a picker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tests import census
from tests.bench.estate import user_name

OWNER, ROOT, AUDITOR, NOBODY = "owner", "root", "auditor", "nobody"
LISTS = (
    ("auth/user", ("q=seed09", "is_staff__exact=1", "p=2", "o=-2")),
    ("auth/group", ("q=team", "p=2")),
    ("access/accesstoken", ("q=seed", "p=2")),
    ("people/invitation", ("q=seed", "p=2", "state=pending")),
    ("oauth/client", ("q=client", "p=2", "trusted__exact=0")),
    ("oauth/connectedapp", ("q=seed", "p=2")),
    ("scim/scimtoken", ("p=2",)),
    ("scim/scimgroup", ("q=team", "p=2")),
    ("identity/provider", ("q=seed", "p=2")),
    ("identity/identity", ("q=seed0", "p=2", "provider__id__exact={identity_provider}")),
    (
        "catalog/tool",
        ("q=invoice", "p=3", "o=-2", "quarantine=yes", "toolsets__id__exact={toolset}"),
    ),
    ("catalog/toolset", ("q=set", "p=2", "o=-2")),
    ("catalog/resource", ("q=part", "p=3")),
    ("catalog/prompt", ("q=prompt", "p=3")),
    ("catalog/grant", ("q=invoice", "q=seed0", "p=5", "effect__exact=deny", "toolset__id__exact={toolset}")),
    ("catalog/limit", ("q=tool", "p=3")),
    ("catalog/approvalrule", ("q=estate", "approvers=none")),
    ("catalog/approval", ("q=tool", "p=3", "state__exact=waiting")),
    ("catalog/valuelist", ("q=list", "p=2")),
    ("catalog/flag", ("q=flag", "p=2")),
    ("catalog/secret", ("q=secret", "p=2")),
    ("catalog/task", ("q=seed0", "p=3")),
    ("catalog/storedresult", ("q=seed0", "p=3")),
    (
        "audit/call",
        (
            "q=invoice",
            "q=absent-text",
            "user=seed0000",
            "tool=tool_*&period=30d",
            "outcome=not_ok",
            "tool=tool_00001&outcome=ok",
        ),
    ),
    ("audit/action", ("q=tool_00001", "p=2")),
)
PICKERS = (
    ("catalog", "grant", ("tool", "toolset", "resource", "prompt", "user", "group")),
    ("catalog", "limit", ("tool", "toolset", "user", "group")),
    ("catalog", "approvalrule", ("tool", "toolset", "grant", "group")),
    ("catalog", "valuelistpart", ("user", "group")),
    ("catalog", "tool", ("toolsets",)),
    ("access", "accesstoken", ("user", "toolsets")),
    ("auth", "user", ("groups", "user_permissions")),
    ("people", "invitation", ("groups",)),
    ("identity", "groupmapping", ("group",)),
)
MORE: tuple[tuple[str, str], ...] = (
    (OWNER, "tools/?q=invoice"),
    (OWNER, "tools/?page=3"),
    (OWNER, "tools/?kind=read_only"),
    (OWNER, "requests/?q=invoice"),
    (OWNER, "requests/?mine=2"),
    (OWNER, "requests/toolset/{toolset}/?page=3"),
    (OWNER, "approvals/?page=2"),
    (OWNER, "calls/?outcome=refused"),
    (OWNER, "calls/?q=invoice"),
    (OWNER, "calls/?tool={tool_name}"),
    (ROOT, "admin/?period=7d"),
    (ROOT, "admin/?period=30d"),
    (ROOT, "admin/review/?state=rejected"),
    (ROOT, "admin/requests/?page=2"),
    (ROOT, "admin/requests/{access_request}/?page=3"),
    (ROOT, "admin/requests/calls/?state=closed"),
    (ROOT, "admin/trials/?page=2"),
    (ROOT, "admin/search/?q=invoice"),
    (ROOT, "admin/search/?q=seed0001"),
    (ROOT, "admin/search/?q=e"),
    (ROOT, "admin/view-as/?user={username}"),
    (ROOT, "admin/view-as/?user={username}&sees=no"),
    (ROOT, "admin/view-as/?user={username}&q=invoice&page=3"),
    (ROOT, "admin/view-as/?user={username}&show=grants"),
    (ROOT, "admin/view-as/?user={username}&show=limits"),
    (ROOT, "admin/view-as/?user={username}&show=resource"),
    (ROOT, "admin/access/people/?q=seed00"),
    (ROOT, "admin/access/people/?page=3"),
    (ROOT, "admin/access/tool/{tool}/?page=3"),
    (ROOT, "admin/access/tool/{tool}/?q=seed00"),
    (ROOT, "admin/access/tool/{tool}/?gp=2&ended=1"),
    (ROOT, "admin/access/toolset/{toolset}/?p=2&gp=2&add=invoice"),
    (ROOT, "admin/access/toolset/{toolset}/pick/?q=invoice"),
    (ROOT, "admin/access/group/{auth_group}/?p=2&add=seed"),
    (ROOT, "admin/access/group/{auth_group}/pick/?q=seed"),
    (ROOT, "admin/access/give/?what=tool:{tool}&who=group:{auth_group}&who_q=seed&what_q=invoice"),
    (ROOT, "admin/access/give/pick/?kind=what&q=invoice"),
    (ROOT, "admin/access/give/pick/?kind=who&q=seed"),
    (ROOT, "admin/catalog/grant/?redundant=yes"),
    (ROOT, "admin/catalog/tool/?batch={batch}"),
    (ROOT, "admin/imports/?p=2"),
    (ROOT, "admin/access/matrix/?tp=2&gp=2"),
    (ROOT, "admin/access/matrix/?toolset=set&group=team"),
    (ROOT, "admin/access/matrix/{toolset}/{auth_group}/"),
    (ROOT, "admin/access/change/?tool={tool}&toolset={toolset}&group={auth_group}&user={user}&look=1"),
    (ROOT, "admin/access/pick/?kind=tool&q=invoice"),
    (ROOT, "admin/access/pick/?kind=user&q=seed"),
    (ROOT, "admin/health/?days=1"),
    (ROOT, "admin/health/?days=30"),
    (ROOT, "admin/sessions/?again=1"),
    (ROOT, "admin/sessions/?again=1&q=seed00"),
    (AUDITOR, "admin/audit/call/compare/?call={call}&with=previous"),
    (AUDITOR, "admin/audit/call/{call}/copy/curl/"),
    (AUDITOR, "admin/audit/call/search/?rows=50"),
    (AUDITOR, "admin/audit/call/search/?rows=50&q=absent-text&period=1h"),
    (ROOT, "admin/catalog/tool/{tool}/try/?user={username}"),
)
UNENDING = frozenset({"admin/audit/action/export/", "admin/audit/call/export/"})
"""Answers that are as long as the audit log: streamed, and no pages."""


@dataclass(frozen=True, slots=True)
class Visit:
    who: str
    path: str

    @property
    def is_page(self) -> bool:
        """Whether a person reads it, and not a script."""
        return not any(part in self.path for part in ("/autocomplete/", "/pick/", "/copy/", "format=json"))


def visits(address_values: dict[str, Any], *, more: bool = True) -> list[Visit]:
    """`things` as `census.named` makes them, with `username`."""
    found = []
    for rule in census.every_rule():
        if "GET" in rule.methods.split() and rule.route not in UNENDING:
            found.append(Visit(_choose_username(rule), rule.path(address_values)))
    if more:
        found += [Visit(who, "/" + path.format(**address_values)) for who, path in MORE]
        for name, queries in LISTS:
            who = AUDITOR if name.startswith("audit/") else ROOT
            found += [Visit(who, f"/admin/{name}/?{query.format(**address_values)}") for query in queries]
        for app, model, fields in PICKERS:
            for field in fields:
                asked = {"app_label": app, "model_name": model, "field_name": field}
                found += [
                    Visit(ROOT, f"/admin/autocomplete/?{urlencode(asked | words)}")
                    for words in ({}, {"term": "e"}, {"term": "e", "page": 3})
                ]
    return list(dict.fromkeys(found))


def _choose_username(rule: census.Rule) -> str:
    if rule.who is census.ANYONE:
        return NOBODY
    if not rule.who.is_staff:
        return OWNER
    return AUDITOR if rule.route.startswith("admin/audit/") else ROOT


def load_accounts() -> dict[str, Any]:
    """The accounts that visit; NOBODY is None."""
    from django.contrib.auth.models import Permission, User

    root, _ = User.objects.get_or_create(username="bench-root", defaults={"is_staff": True, "is_superuser": True})
    auditor, made = User.objects.get_or_create(username="bench-auditor", defaults={"is_staff": True})
    if made:
        auditor.user_permissions.set(Permission.objects.filter(content_type__app_label="audit"))
    return {OWNER: User.objects.get(username=user_name(0)), ROOT: root, AUDITOR: auditor, NOBODY: None}


def find_heaviest(owner: Any, call: Any) -> dict[str, Any]:
    """What the addresses are about: of everything the one with most of everything, and the owner's own."""
    from django.contrib.auth.models import Group, Permission

    from audit.models import Action, Checkpoint, SavedView, Verification
    from catalog.models import (
        Approval,
        ApprovalRule,
        Flag,
        Grant,
        ImportBatch,
        ImportedDocument,
        Limit,
        Prompt,
        Resource,
        Secret,
        StoredResult,
        Task,
        Tool,
        Toolset,
        ToolTest,
        Upstream,
        ValueList,
    )
    from toolhub.identity.models import Provider
    from toolhub.people.models import Invitation
    from toolhub.scim.models import ScimGroup, ScimToken

    models = {
        "auth.user": owner,
        "auth.group": Group.objects.filter(name__startswith="team ").order_by("name").first(),
        "auth.permission": Permission.objects.first(),
        "access.accesstoken": owner.access_tokens.first(),
        "mfa.authenticator": owner.authenticator_set.filter(type="webauthn").first(),
        "oauth.client": owner.connected_apps.first().client,
        "oauth.connectedapp": owner.connected_apps.first(),
        "people.invitation": Invitation.objects.last(),
        "scim.scimtoken": ScimToken.objects.first(),
        "scim.scimgroup": ScimGroup.objects.order_by("display_name").first(),
        "identity.provider": Provider.objects.filter(slug__startswith="seed").order_by("slug").first(),
        "identity.identity": owner.identities.first(),
        "catalog.tool": Tool.objects.order_by("name").filter(name__startswith="tool_").first(),
        "catalog.toolset": Toolset.objects.filter(name__startswith="set ").order_by("name").first(),
        "catalog.resource": Resource.objects.first(),
        "catalog.prompt": Prompt.objects.first(),
        "catalog.grant": Grant.objects.first(),
        "catalog.limit": Limit.objects.first(),
        "catalog.approvalrule": ApprovalRule.objects.first(),
        "trial_grant": Grant.everything.filter(trial=True).first(),
        "trial_limit": Limit.everything.filter(trial=True).first(),
        "trial_rule": ApprovalRule.everything.filter(trial=True).first(),
        "catalog.approval": Approval.objects.first(),
        "catalog.valuelist": ValueList.objects.order_by("name").first(),
        "catalog.flag": Flag.objects.order_by("name").first(),
        "catalog.tooltest": ToolTest.objects.first(),
        "catalog.secret": Secret.objects.filter(kind="personal").first(),
        "account": Secret.objects.filter(kind="account").first(),
        "catalog.upstream": Upstream.objects.get(name="upstream0"),
        "catalog.importeddocument": ImportedDocument.objects.first(),
        "access_request": owner.access_requests.filter(state="open").first(),
        "call_report": owner.call_reports.filter(state="open").first(),
        "approval": owner.approvals_requested.filter(state="waiting").first(),
        "catalog.task": Task.objects.first(),
        "catalog.storedresult": StoredResult.objects.first(),
        "audit.call": call,
        "audit.action": Action.objects.first(),
        "audit.checkpoint": Checkpoint.objects.first(),
        "audit.verification": Verification.objects.first(),
    }
    view = SavedView.objects.filter(owner=owner).first()
    return census.collect_address_values(models) | {
        "username": owner.get_username(),
        "batch": ImportBatch.objects.get(source="batch0.yaml").pk,
        "view": view.pk if view is not None else 1,
    }
