"""Records of a case file that the audit log does not hold: people, credentials and rules, without secrets.

Columns are named one by one: a new column of a model, which may be a digest or a secret, is in no case file by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.contrib.auth.models import Group, User
from django.db.models import Model, Q, QuerySet

from audit.hooks import CaseRecords, CaseScope
from catalog.calls import call_log
from catalog.models import Approval, ApprovalRule, Flag, Grant, Limit, Tool, Toolset, ValueList, ValueListPart
from toolhub.access.models import AccessToken
from toolhub.oauth.models import ConnectedApp

BATCH_ROWS = 500
MAX_IDS = 10_000
"""Maximum people whom a query names: SQLite takes 32,766 values. With more, the case has everybody."""
USER_FIELDS = (
    "id", "username", "first_name", "last_name", "email", "is_active", "is_staff", "is_superuser", "date_joined",
    "last_login",
)  # fmt: skip
TOKEN_FIELDS = (
    "id", "user_id", "name", "prefix", "created", "expires", "last_used", "last_address", "revoked", "restricted",
    "made_by_owner", "client_key", "replaces_id",
)  # fmt: skip
APP_FIELDS = (
    "id", "user_id", "client_id", "scope", "restricted", "destination", "created", "activated", "expires", "last_used",
    "last_address", "revoked", "by_device",
)  # fmt: skip
TRIAL_FIELDS = ("trial", "trial_since", "replaces_id")
"""Columns of every kind of rule: one in trial decided nothing."""
GRANT_FIELDS = (
    "id", "effect", "tool_id", "toolset_id", "resource_id", "prompt_id", "user_id", "group_id", "everyone", "starts",
    "ends", "environments", "conditions", "windows", "flags", "skips_approval", "note", *TRIAL_FIELDS,
)  # fmt: skip
LIST_FIELDS = ("id", "name", "description")
PART_FIELDS = ("id", "value_list_id", "user_id", "group_id", "everyone", "entries")
FLAG_FIELDS = ("id", "name", "description", "percentage")
LIMIT_FIELDS = (
    "id", "tool_id", "toolset_id", "all_tools", "method", "scope", "user_id", "group_id", "measure", "rate", "zone",
    "advice", "note", *TRIAL_FIELDS,
)  # fmt: skip
RULE_FIELDS = (
    "id", "name", "grant_id", "tool_id", "toolset_id", "all_tools", "destructive_only", "conditions", "first_time",
    "windows", "outside_windows", "asks", "group_id", "four_eyes", "accepts_client", "minutes", "enabled", "note",
    *TRIAL_FIELDS,
)  # fmt: skip
APPROVAL_FIELDS = (
    "id", "call_id", "used_by", "user_id", "maker_id", "credential", "credential_name", "client", "tool_id",
    "tool_name", "rule_id", "rule_name", "asks", "group_id", "four_eyes", "arguments", "state", "created", "expires",
    "decided_by_id", "decided_by_name", "decided_at", "by_client", "reason", "lasting_grant_id",
)  # fmt: skip
TARGETS = {call_log.TOOL: "tool_id", call_log.RESOURCE: "resource_id", call_log.PROMPT: "prompt_id"}
"""Method of a call -> column of a grant that names its target."""


def list_records(scope: CaseScope) -> CaseRecords:
    """Yield the name and the lines of each file. Deleted people and credentials are in the admin activity alone."""
    users = _find_users(scope)
    user_ids = users.order_by().values("pk")
    group_ids = Group.objects.filter(user__in=user_ids).order_by().values("pk")
    yield "people.jsonl", _describe(users, USER_FIELDS, groups=lambda row: _names(row.groups.all()))
    tokens = _of_users(AccessToken.objects.all(), user_ids, "token", scope)
    yield "access-tokens.jsonl", _describe(tokens, TOKEN_FIELDS, toolsets=_toolsets_of)
    apps = _of_users(ConnectedApp.objects.select_related("client"), user_ids, "app", scope)
    yield "connected-apps.jsonl", _describe(apps, APP_FIELDS, client=_client_of, toolsets=_toolsets_of)
    toolset_ids = _find_toolsets(scope)
    theirs = Q(user_id__in=user_ids) | Q(group_id__in=group_ids)
    grants = _choose(scope, theirs | Q(everyone=True), _reach(scope, toolset_ids, Grant))
    yield "grants.jsonl", _list_versions(Grant, GRANT_FIELDS, grants, scope)
    list_ids = _find_named(ValueList, grants, scope)
    yield "value-lists.jsonl", _list_versions(ValueList, LIST_FIELDS, Q(id__in=list_ids), scope)
    parts = _choose(scope, theirs | Q(everyone=True), Q()) & Q(value_list_id__in=list_ids)
    yield "value-list-values.jsonl", _list_versions(ValueListPart, PART_FIELDS, parts, scope)
    flag_ids = _find_named(Flag, grants, scope)
    yield "flags.jsonl", _list_versions(Flag, FLAG_FIELDS, Q(id__in=flag_ids), scope)
    limits = _choose(scope, theirs | Q(user=None, group=None), _reach(scope, toolset_ids, Limit))
    yield "rate-limits.jsonl", _list_versions(Limit, LIMIT_FIELDS, limits, scope)
    approvals = _find_approvals(scope, user_ids)
    rules = _reach(scope, toolset_ids, ApprovalRule) | Q(all_tools=True)
    rules |= Q(grant_id__in=_find_versions(Grant, grants, scope).order_by().values("id"))
    rules |= Q(id__in=approvals.order_by().exclude(rule=None).values("rule"))
    yield "approval-rules.jsonl", _list_versions(ApprovalRule, RULE_FIELDS, rules, scope)
    yield "approvals.jsonl", _describe(approvals, APPROVAL_FIELDS)
    yield "toolsets.jsonl", _describe(Toolset.objects.filter(pk__in=toolset_ids), ("id", "name", "description"))


def _find_users(scope: CaseScope) -> QuerySet[User]:
    if max(len(scope.user_ids), len(scope.usernames)) > MAX_IDS:
        return User.objects.order_by("pk")
    return User.objects.filter(Q(pk__in=scope.user_ids) | Q(username__in=scope.usernames)).order_by("pk")


def _of_users(rows: QuerySet[Any], user_ids: QuerySet[Any], kind: str, scope: CaseScope) -> QuerySet[Any]:
    """Return the credentials of these people, and those that calls used."""
    numbers = [id.partition(":")[2] for id in scope.credential_ids if id.startswith(f"{kind}:")]
    used = [int(number) for number in numbers if number.isdecimal() and len(number) < 19]
    return rows.filter(Q(user_id__in=user_ids) | Q(pk__in=used[:MAX_IDS])).order_by("pk")


def _find_toolsets(scope: CaseScope) -> list[int]:
    """Return the toolsets that have, or had, a tool, resource or prompt of the case."""
    found: set[int] = set()
    for column, keys in _targets(scope).items():
        name = column.removesuffix("_id")
        found.update(Toolset.objects.filter(**{f"{name}s__in": keys}).order_by().values_list("pk", flat=True))
    return sorted(found)


def _targets(scope: CaseScope) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for method, key in scope.targets:
        if method in TARGETS:
            found.setdefault(TARGETS[method], set()).add(key)
    if scope.tool:
        named = Tool.objects.filter(name=scope.tool).values_list("pk", flat=True)
        found.setdefault("tool_id", set()).update(named)
    return found


def _reach(scope: CaseScope, toolset_ids: list[int], model: type[Model]) -> Q:
    """Return the condition on rows of the model that name a target of the case, directly or by a toolset."""
    columns = {one.attname for one in model._meta.concrete_fields}
    targets = {column: keys for column, keys in _targets(scope).items() if column in columns}
    return reduce(
        or_, (Q(**{f"{column}__in": keys}) for column, keys in targets.items()), Q(toolset_id__in=toolset_ids)
    )


def _choose(scope: CaseScope, who: Q, what: Q) -> Q:
    """Return the condition on grants: all of a person, all of a tool, or those that can have decided a call."""
    if scope.user:
        return who
    return what if scope.tool else who & what


def _find_approvals(scope: CaseScope, user_ids: Any) -> QuerySet[Approval]:
    """Return the requests for approval up to the end of the case; their arguments are redacted as they are stored."""
    tools = _targets(scope).get("tool_id", set())
    found = Approval.objects.filter(_choose(scope, Q(user_id__in=user_ids), Q(tool_id__in=tools)))
    found = found if scope.until is None else found.filter(created__lt=scope.until)
    return found.defer("binding", "context", "seal").order_by("created", "id")


def _find_named(model: type[ValueList] | type[Flag], grants: Q, scope: CaseScope) -> list[int]:
    """Return the value lists or flags that any version of the grants names, deleted ones too."""
    versions = _find_versions(Grant, grants, scope).exclude(**{model.GRANT_COLUMN: []})
    columns = versions.values_list(model.GRANT_COLUMN, flat=True).iterator(BATCH_ROWS)
    names = {name for entries in columns for name in model.find_names(entries or [])}
    return sorted(set(model.history.filter(name__in=names).order_by().values_list("id", flat=True)))


def _find_versions(model: Any, wanted: Q, scope: CaseScope) -> Any:
    """Return every version up to the end of the case: also of rows that were deleted since."""
    versions = model.history.filter(wanted).order_by("history_id")
    return versions if scope.until is None else versions.filter(history_date__lt=scope.until)


def _list_versions(model: Any, columns: Iterable[str], wanted: Q, scope: CaseScope) -> Iterator[dict[str, Any]]:
    """Yield every version up to the end of the case, oldest first."""
    versions = _find_versions(model, wanted, scope).select_related("history_user")
    changed = {"+": "created", "~": "changed", "-": "deleted"}
    for row in versions.iterator(BATCH_ROWS):
        yield {
            "change": changed.get(row.history_type, row.history_type),
            "at": _to_json(row.history_date),
            "by": row.history_user.get_username() if row.history_user is not None else "",
            **{name: _to_json(getattr(row, name)) for name in columns},
        }


def _describe(rows: QuerySet[Any], columns: Iterable[str], **more: Callable[[Any], Any]) -> Iterator[dict[str, Any]]:
    for row in rows.iterator(BATCH_ROWS):
        values = {name: _to_json(getattr(row, name)) for name in columns}
        yield values | {name: make(row) for name, make in more.items()}


def _client_of(app: ConnectedApp) -> str:
    return str(app.client.name)


def _toolsets_of(credential: AccessToken | ConnectedApp) -> list[str]:
    return _names(credential.toolsets.all())


def _names(rows: Iterable[Model]) -> list[str]:
    return sorted(map(str, rows))


def _to_json(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return value.isoformat() if isinstance(value, datetime) else value
