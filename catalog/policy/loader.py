"""Conversion of rows to plain definitions. Only rows whose version changed are read again; the others are kept."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.utils.translation import override

from catalog.canonical import dumps, loads
from catalog.conditions import definitions, windows
from catalog.conditions import flags as named_flags
from catalog.conditions.definitions import parse_path
from catalog.conditions.expectations import BELONGS_TO
from catalog.conditions.mistakes import Mistake
from catalog.models import (
    ApprovalRule,
    Flag,
    Grant,
    Limit,
    Prompt,
    Resource,
    Tool,
    Upstream,
    ValueList,
    ValueListPart,
    app_pages,
)
from catalog.models.pinned import HINTS, identity
from catalog.models.rule_trials import MAX_TRIALS
from catalog.policy import revision
from catalog.policy.definitions import (
    APPROVAL_RULE_KIND,
    EMPTY,
    GRANT_KIND,
    LIMIT_KIND,
    AskRule,
    GrantRule,
    Item,
    LimitRule,
    Member,
    PromptDefinition,
    ResourceDefinition,
    Snapshot,
    ToolDefinition,
    Trial,
    ValueListEntries,
    digest,
)
from catalog.schemas.schema_rules import MAX_BYTES, check_stored
from toolhub.wire import headers

log = logging.getLogger(__name__)
UPSTREAM = "upstream_mcp"
CHUNK_ROWS = 500
"""Number of rows per query: below every database's limit on parameters."""


def _is_unlistable(row: dict[str, Any]) -> bool:
    """Return whether a stored schema, from before there were limits, must not be walked at all."""
    try:
        with override(None):  # the log is English, whatever the language of the requesting page
            for member in ("input_schema", "output_schema"):
                if row[member] is not None or member == "input_schema":
                    if len(dumps(row[member])) > 2 * MAX_BYTES:
                        raise ValidationError("it is too large")
                    check_stored(row[member], any_root=member == "output_schema")
    except (ValidationError, RecursionError) as error:
        sentence = error.messages[0] if isinstance(error, ValidationError) else "it is nested too deeply"
        log.warning("the tool %s is hidden because of its %s: %s", row["name"], member, sentence)
        return True
    return False


def _pinned_source(row: dict[str, Any]) -> tuple[str, str] | None:
    # A version out of history has no pin.
    if not row.get("pinned") or not row["approved"] or not row["origin"].startswith("upstream:"):
        return None
    return row["origin"], identity(loads(row["approved"]))


def _quarantine(row: dict[str, Any], *, unlistable: bool = False) -> dict[str, Any]:
    """Return whether the item is hidden from everyone, and the code of the reason."""
    # A version out of history has none of these columns.
    if row.get("quarantined_since") is None:
        return {"quarantined": unlistable, "quarantine_code": "rule.unlistable"} if unlistable else {}
    if row["proposed"] == "null":
        return {"quarantined": True, "quarantine_code": "rule.quarantined_gone"}
    return {
        "quarantined": True,
        "quarantine_code": "rule.quarantined_rejected" if row["rejected"] else "rule.quarantined",
    }


def build_tool(row: dict[str, Any], toolset_ids: frozenset[int]) -> ToolDefinition:
    unlistable = _is_unlistable(row)
    if unlistable:
        row = {**row, "input_schema": {"type": "object"}, "output_schema": None}
    annotations = {member: row[column] for member, column in HINTS.items() if row[column] is not None}
    if row["annotation_title"]:
        annotations = {"title": row["annotation_title"], **annotations}
    wire: dict[str, Any] = {"name": row["name"]}
    if row["title"]:
        wire["title"] = row["title"]
    wire |= {"description": row["description"], "inputSchema": row["input_schema"]}
    if row["output_schema"] is not None:
        wire["outputSchema"] = row["output_schema"]
    if annotations:
        wire["annotations"] = annotations
    if row["icons"]:
        wire["icons"] = row["icons"]
    if row["app"]:
        wire["_meta"] = {"ui": row["app"]}
    behind = [row[name] for name in ("runner", "settings", "timeout", "max_argument_bytes", "max_result_bytes")]
    behind += [row[name] for name in ("record_bodies", "task_support", "requires_capabilities")]
    if not row["fill_defaults"]:
        behind.append("without defaults")
    return ToolDefinition(
        id=row["id"],
        name=row["name"],
        title=row["title"],
        description=row["description"],
        input_schema=row["input_schema"],
        output_schema=row["output_schema"],
        annotations=annotations,
        icons=row["icons"],
        toolset_ids=toolset_ids,
        runner=row["runner"],
        settings=row["settings"],
        timeout=row["timeout"],
        max_argument_bytes=row["max_argument_bytes"],
        max_result_bytes=row["max_result_bytes"],
        record_bodies=row["record_bodies"],
        task_support=row["task_support"],
        requires_capabilities=tuple(row["requires_capabilities"]),
        hash=digest([wire, behind]),
        wire_hash=digest(wire),
        wire=wire,
        position=row["position"],
        **_quarantine(row, unlistable=unlistable),
        pinned_source=_pinned_source(row),
        fill_defaults=row["fill_defaults"],
        polling=row["polling"],
        cost=row["cost"],
        cost_argument=tuple(str(step) for step in parse_path(row["cost_argument"])) if row["cost_argument"] else (),
        cost_per_kilobyte=row["cost_per_kilobyte"],
    )


def build_resource(row: dict[str, Any], toolset_ids: frozenset[int]) -> ResourceDefinition:
    template = bool(row["uri_template"])
    address = row["uri_template"] or row["uri"]
    size = None
    if row["text"] is not None:
        size = len(row["text"].encode())
    elif row["blob"] is not None:
        size = len(row["blob"]) * 3 // 4 - row["blob"][-2:].count("=")
    wire: dict[str, Any] = {"uriTemplate" if template else "uri": address, "name": row["name"]}
    for member, value in (("title", row["title"]), ("description", row["description"]), ("mimeType", row["mime_type"])):
        if value:
            wire[member] = value
    if size is not None:
        wire["size"] = size
    if row["annotations"]:
        wire["annotations"] = row["annotations"]
    if row["icons"]:
        wire["icons"] = row["icons"]
    if row["app"]:
        wire["_meta"] = {"ui": row["app"]}
    behind = [wire, row["text"], row["blob"], row["function"], row["completions"]]
    behind += [row["upstream"], row["source"]] if row["upstream"] else []
    return ResourceDefinition(
        id=row["id"],
        name=row["name"],
        title=row["title"],
        description=row["description"],
        uri=address,
        mime_type=row["mime_type"],
        is_template=template,
        text=row["text"],
        blob=row["blob"],
        function=row["function"] or None,
        completions=row["completions"],
        toolset_ids=toolset_ids,
        hash=digest(behind),
        wire_hash=digest(wire),
        wire=wire,
        size=size,
        position=row["position"],
        app=row["app"],
        **_quarantine(row),
        pinned_source=_pinned_source(row),
        upstream=row["upstream"],
        source=row["source"],
    )


def build_prompt(row: dict[str, Any], toolset_ids: frozenset[int]) -> PromptDefinition:
    wire: dict[str, Any] = {"name": row["name"]}
    if row["title"]:
        wire["title"] = row["title"]
    wire["description"] = row["description"]
    if row["arguments"]:
        wire["arguments"] = [{key: argument[key] for key in argument if key != "enum"} for argument in row["arguments"]]
    if row["icons"]:
        wire["icons"] = row["icons"]
    behind = [wire, row["arguments"], row["messages"], row["function"]]
    behind += [row["upstream"], row["source"]] if row["upstream"] else []
    return PromptDefinition(
        id=row["id"],
        name=row["name"],
        title=row["title"],
        description=row["description"],
        arguments=row["arguments"],
        messages=row["messages"],
        function=row["function"] or None,
        toolset_ids=toolset_ids,
        hash=digest(behind),
        wire_hash=digest(wire),
        wire=wire,
        position=row["position"],
        **_quarantine(row),
        pinned_source=_pinned_source(row),
        upstream=row["upstream"],
        source=row["source"],
    )


KINDS: tuple[tuple[Any, str, Callable[[dict[str, Any], frozenset[int]], Item]], ...] = (
    (Tool, "tool", build_tool),
    (Resource, "resource", build_resource),
    (Prompt, "prompt", build_prompt),
)


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


_GRANT_COLUMNS = (
    *("id", "effect", "tool_id", "tool__name", "toolset_id", "toolset__name", "resource_id", "resource__uri"),
    *("resource__uri_template", "prompt_id", "prompt__name", "user_id", "user__username", "group_id", "group__name"),
    *("starts", "ends", "environments", "conditions", "windows", "flags", "skips_approval"),
)


def load_grants(lists: Collection[str], flags: Collection[str]) -> Iterator[GrantRule]:
    """Yield the grants. In doubt they allow less: where a stored condition cannot be read, or names what is gone."""
    for row in Grant.objects.order_by("id").values(*_GRANT_COLUMNS):
        found = _build_grant(row, lists, flags)
        if found is not None:
            yield found


def _build_grant(row: dict[str, Any], lists: Collection[str], flags: Collection[str]) -> GrantRule | None:
    """Return the grant of a row; None for an allow that cannot be read."""
    kind = next(kind for kind in Grant.TARGETS if row[f"{kind}_id"] is not None)
    name = row["resource__uri"] or row["resource__uri_template"] if kind == "resource" else row[f"{kind}__name"]
    if row["user_id"] is not None:
        who, subject_id, subject = "user", row["user_id"], row["user__username"]
    elif row["group_id"] is not None:
        who, subject_id, subject = "group", row["group_id"], row["group__name"]
    else:
        who, subject_id, subject = "everyone", None, ""
    limits = _read_restrictions(row, lists, flags)
    if limits is None:
        return None
    return GrantRule(
        id=row["id"] or 0,
        effect=row["effect"],
        target_kind=kind,
        target_id=row[f"{kind}_id"],
        subject_kind=who,
        subject_id=subject_id,
        starts=_seconds(row["starts"]),
        ends=_seconds(row["ends"]),
        environments=frozenset(row["environments"]),
        target_name=name,
        subject_name=subject,
        skips_approval=row["skips_approval"] and row["effect"] == Grant.Effect.ALLOW,
        **limits,
    )


def grant_rule(row: Grant, lists: Collection[str], flags: Collection[str]) -> GrantRule | None:
    """Return the grant that a row, saved or not, would be in force; None for an allow that cannot be read.

    `lists` and `flags` are the names of those that there are.
    """
    columns = {}
    for path in _GRANT_COLUMNS:
        value: Any = row
        for name in path.split("__"):
            value = None if value is None else getattr(value, name)
        columns[path] = value
    return _build_grant(columns, lists, flags)


def _read_restrictions(row: dict[str, Any], lists: Collection[str], flags: Collection[str]) -> dict[str, Any] | None:
    """Return the conditions, windows and flags of a grant; None for an allow of which one cannot be read."""
    if row["conditions"] == row["windows"] == row["flags"] == []:
        return {}
    denies = row["effect"] == Grant.Effect.DENY
    try:
        conditions = definitions.parse(row["conditions"])
        if denies and (mistake := definitions.find_unfit(conditions)):
            raise mistake
        found = (conditions, windows.parse(row["windows"]), named_flags.parse(row["flags"]))
    except Mistake as error:
        log.warning("grant %s cannot be read, %s: %s", row["id"], "it denies all" if denies else "unused", error.code)
        return {} if denies else None
    if denies:
        kept = tuple(one for one in conditions if one.operator != BELONGS_TO or one.value in lists)
        return {"conditions": kept, "windows": found[1], "flags": found[2].intersection(flags)}
    return dict(zip(("conditions", "windows", "flags"), found, strict=True))


def load_asks(lists: Collection[str]) -> Iterator[AskRule]:
    """Yield the approval rules that are switched on. In doubt they ask more: what cannot be read restricts nothing."""
    for row in ApprovalRule.objects.filter(enabled=True).order_by("id").select_related("group"):
        yield ask_rule(row, lists)


def ask_rule(row: ApprovalRule, lists: Collection[str]) -> AskRule:
    """Return the rule that a row, saved or not, would be in force. `lists` are the names of the value lists."""
    kind = next((name for name in row.TARGETS if getattr(row, f"{name}_id") is not None), "all")
    return AskRule(
        id=row.pk or 0,
        name=row.name,
        target_kind=kind,
        target_id=None if kind == "all" else getattr(row, f"{kind}_id"),
        asks=row.asks,
        group_id=row.group_id,
        group_name=str(row.group or ""),
        four_eyes=row.four_eyes,
        accepts_client=row.accepts_client,
        minutes=row.minutes,
        destructive_only=row.destructive_only,
        **_read_ask_restrictions(row, lists),
    )


def _read_ask_restrictions(row: ApprovalRule, lists: Collection[str]) -> dict[str, Any]:
    try:
        conditions = definitions.parse(row.conditions)
        if mistake := definitions.find_unfit(conditions, asks=True):
            raise mistake
        found = windows.parse(row.windows)
        first_time = definitions.parse_path(row.first_time) if row.first_time else ()
    except ValueError:
        log.warning("approval rule %s cannot be read, so it always asks: first_time", row.pk)
        return {}
    except Mistake as error:
        log.warning("approval rule %s cannot be read, so it always asks: %s", row.pk, error.code)
        return {}
    kept = tuple(one for one in conditions if one.operator != BELONGS_TO or one.value in lists)
    outside = row.outside_windows and bool(found)
    return {"conditions": kept, "windows": found, "outside_windows": outside, "first_time": first_time}


def load_value_lists() -> dict[str, tuple[ValueListEntries, ...]]:
    """Return what each value list has for users, groups and everyone."""
    found: dict[str, list[ValueListEntries]] = {name: [] for name in ValueList.objects.values_list("name", flat=True)}
    rows = ValueListPart.objects.order_by("id").values_list("value_list__name", "user_id", "group_id", "entries")
    for name, user_id, group_id, entries in rows:
        kind = "user" if user_id is not None else "group" if group_id is not None else "everyone"
        part = ValueListEntries(kind, user_id if group_id is None else group_id, tuple(entries))
        found.setdefault(name, []).append(part)
    return {name: tuple(parts) for name, parts in found.items()}


def load_flags() -> dict[str, int]:
    """Return the percentages of all flags; those of the settings override those of the admin."""
    return {**dict(Flag.objects.values_list("name", "percentage")), **settings.FLAGS}


def load_limits() -> Iterator[LimitRule]:
    """Yield the limits."""
    for row in Limit.objects.order_by("id").select_related("tool", "toolset", "user", "group"):
        yield limit_rule(row)


def limit_rule(row: Limit) -> LimitRule:
    """Return the limit that a row, saved or not, would be in force."""
    kind, target = ("tool", row.tool_id) if row.tool_id else ("toolset", row.toolset_id)
    return LimitRule(
        id=row.pk or 0,
        target_kind="method" if row.method else kind if target else "all",
        target_id=target,
        scope=row.scope,
        subject_id=row.user_id or row.group_id,
        rate=row.rate,
        target_name=row.method or str(row.tool or row.toolset or ""),
        subject_name=str(row.user or row.group or ""),
        measure=row.measure,
        zone=row.zone,
        advice=row.advice,
    )


def load_trials(lists: Collection[str], flags: Collection[str]) -> list[Trial]:
    """Return the rules in trial, the oldest first. One that cannot be read is left out: it would not be applied."""
    rows = [model.everything.filter(trial=True).order_by().values_list("pk") for model in (Grant, Limit, ApprovalRule)]
    if not rows[0].union(*rows[1:], all=True)[:1]:
        return []
    found: list[Trial] = []

    def add(kind: str, row: Grant | Limit | ApprovalRule, rule: GrantRule | LimitRule | AskRule | None) -> None:
        if rule is not None:
            found.append(Trial(kind, row.pk, rule, row.replaces_id, _seconds(row.trial_since) or 0.0))

    for grant in Grant.everything.filter(trial=True).order_by("id").select_related(*Grant.TARGETS, "user", "group"):
        add(GRANT_KIND, grant, grant_rule(grant, lists, flags))
    for limit in Limit.everything.filter(trial=True).order_by("id").select_related("tool", "toolset", "user", "group"):
        add(LIMIT_KIND, limit, limit_rule(limit))
    for row in ApprovalRule.everything.filter(trial=True, enabled=True).order_by("id").select_related("group"):
        add(APPROVAL_RULE_KIND, row, ask_rule(row, lists))
    found.sort(key=lambda trial: trial.since)
    if len(found) > MAX_TRIALS:
        log.warning("%s rules are in trial, and only the oldest %s are tried", len(found), MAX_TRIALS)
    return found[:MAX_TRIALS]


def load_members() -> dict[int, Member]:
    user = get_user_model()
    groups: dict[int, list[int]] = {}
    for user_id, group_id in user.groups.through.objects.values_list("user_id", "group_id"):
        groups.setdefault(user_id, []).append(group_id)
    return {
        pk: Member(username, is_active, frozenset(groups[pk]) if pk in groups else EMPTY)
        for pk, username, is_active in user._default_manager.values_list("pk", user.USERNAME_FIELD, "is_active")
    }


def upstream_source(item: Item) -> tuple[str, str] | None:
    """Return (upstream server, name there) for an item of an upstream; None for any other."""
    if isinstance(item, ToolDefinition):
        used = item.runner == UPSTREAM
        return (str(item.settings.get("upstream")), str(item.settings.get("tool"))) if used else None
    return (item.upstream, item.source) if item.upstream else None


def _is_kept(item: Item, connection: dict[str, Any]) -> bool:
    """Return whether the item may be served: pages only where the upstream keeps them, and only as approved."""
    if not isinstance(item, ResourceDefinition) or not app_pages.is_page(item.source):
        return True
    return bool(connection["apps"]) and (item.text is not None or item.blob is not None)


def _join(item: Item, connection: dict[str, Any], source: str) -> Item:
    """Return the item with its connection; it is hidden until what it uses was approved."""
    unpinned = item.pinned_source != (f"upstream:{connection['upstream']}", source)
    changes: dict[str, Any] = {
        "hash": digest([item.hash, connection]),
        "quarantined": item.quarantined or unpinned,
        "unpinned": unpinned and not item.quarantined,
    }
    if isinstance(item, ToolDefinition):
        mirrors = bool(headers.cached_parameters(item.input_schema))
        return replace(item, settings={**item.settings, "connection": connection, "mirrors": mirrors}, **changes)
    if isinstance(item, ResourceDefinition) and app_pages.is_page(item.source):
        return replace(item, **changes)  # its content is here, as it was approved: nobody is asked, no secret is sent
    return replace(item, connection=connection, **changes)


class Loader:
    """A loader that keeps the definitions of the last load. Not thread-safe: the snapshot holds a lock."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], tuple[int, Item]] = {}
        self._joined: dict[tuple[str, int], tuple[Item, dict[str, Any], Item]] = {}

    def load(self) -> Snapshot:
        """Read until nothing changed meanwhile: a read-only transaction would hold up writers on SQLite.

        When changes keep coming, the oldest number is kept, so that the next poll reads again.
        """
        for _ in range(5):
            number = revision.current()
            lists, flags = load_value_lists(), load_flags()
            snapshot = Snapshot.build(
                revision=number,
                items=self._items(),
                grants=load_grants(lists, flags),
                limits=load_limits(),
                members=load_members(),
                value_lists=lists,
                flags=flags,
                asks=load_asks(lists),
                trials=load_trials(lists, flags),
            )
            if revision.current() == number:
                break
        return snapshot

    def _items(self) -> list[Item]:
        known: dict[tuple[str, int], tuple[int, Item]] = {}
        for model, kind, build in KINDS:
            versions = dict(model.objects.filter(enabled=True).order_by().values_list("pk", "version"))
            sets = self._toolsets(model)
            stale = []
            for pk, version in versions.items():
                before = self._known.get((kind, pk))
                if before is None or before[0] != version:
                    stale.append(pk)
                    continue
                item = before[1]
                if item.toolset_ids != sets.get(pk, EMPTY):
                    item = replace(item, toolset_ids=sets.get(pk, EMPTY))
                known[kind, pk] = (version, item)
            for row in self._rows(model, stale, everything=len(stale) == len(versions)):
                known[kind, row["id"]] = (row["version"], build(row, sets.get(row["id"], EMPTY)))
        self._known = known
        return self._with_upstreams([item for _, item in known.values()])

    def _with_upstreams(self, items: list[Item]) -> list[Item]:
        """Add connection settings to the items of upstreams; omit those without an upstream that is enabled."""
        if not any(upstream_source(item) for item in items):
            return items
        reached = {row.name: row.connection_settings() for row in Upstream.objects.filter(enabled=True)}
        found = []
        joined: dict[tuple[str, int], tuple[Item, dict[str, Any], Item]] = {}
        for item in items:
            asked = upstream_source(item)
            if asked is not None:
                connection = reached.get(asked[0])
                if connection is None or not _is_kept(item, connection):
                    continue
                before = self._joined.get((item.kind, item.id))
                if before is None or before[0] is not item or before[1] != connection:
                    before = (item, connection, _join(item, connection, asked[1]))
                joined[item.kind, item.id] = before
                item = before[2]
            found.append(item)
        self._joined = joined
        return found

    @staticmethod
    def _rows(model: Any, ids: list[int], *, everything: bool) -> Iterable[dict[str, Any]]:
        rows = model.objects.filter(enabled=True).order_by().values()
        if everything and ids:
            yield from rows.iterator(CHUNK_ROWS)
            return
        for start in range(0, len(ids), CHUNK_ROWS):
            yield from rows.filter(pk__in=ids[start : start + CHUNK_ROWS])

    @staticmethod
    def _toolsets(model: Any) -> dict[int, frozenset[int]]:
        found: dict[int, set[int]] = {}
        through = model.toolsets.through
        for pk, toolset_id in through.objects.values_list(f"{model._meta.model_name}_id", "toolset_id"):
            found.setdefault(pk, set()).add(toolset_id)
        shared: dict[frozenset[int], frozenset[int]] = {}
        return {pk: shared.setdefault(ids, ids) for pk, ids in ((pk, frozenset(ids)) for pk, ids in found.items())}
