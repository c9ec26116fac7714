"""The catalogue as plain, frozen data: the content of the snapshot, also used by the layers above `catalog`.

Pure: no ORM, no Django. Everything here is built once per catalogue revision and then only read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, TypeAlias

from audit.types import Reason
from catalog.canonical import dumps
from catalog.conditions import measures, periods
from catalog.conditions.definitions import Condition
from catalog.conditions.forms import Form
from catalog.conditions.periods import Quota
from catalog.conditions.windows import Window
from toolhub.wire import hints

Kind = Literal["tool", "resource", "prompt"]
EMPTY: frozenset[int] = frozenset()

GRANT, LIMIT, LIMIT_REACHED = "rule.grant", "rule.limit", "limit.reached"
APPROVAL = "rule.approval"
GRANT_KIND, LIMIT_KIND, APPROVAL_RULE_KIND = "grant", "limit", "approval_rule"
_ENGLISH: Final = {
    "rule.no_user": "No such user",
    "rule.inactive": "The user is not active",
    "rule.no_grant": "No grant allows it",
    "rule.other_toolsets": "The token is restricted to other toolsets",
    "rule.disabled": "It is disabled",
    "rule.not_offered": "It is disabled or gone",
    "rule.quarantined": "quarantined: its definition changed",
    "rule.quarantined_gone": "quarantined: its source no longer has it",
    "rule.quarantined_rejected": "quarantined: the change of its definition was rejected",
    "rule.unlistable": "hidden: its schema breaks a rule",
    "rule.unpinned": "not compared with its upstream server yet",
    "rule.unfit": "no arguments satisfy the conditions of the grants",
    "rule.own_result": "the caller's own result",
    GRANT: "Grant {number}: {effect} {target} to {whom}",
    LIMIT: "Limit {number}: {amount} on {target} for {whom}",
    APPROVAL: "Approval rule {number}: {name}",
}
_SUBJECT_TEXTS: Final = {
    "user": "user {}",
    "group": "group {}",
    "everyone": "everyone",
    "each_member": "each member of {}",
    "each_user": "each user",
    "group_together": "the members of {} together",
    "everyone_together": "everyone together",
}


@dataclass(frozen=True)
class Rule(Reason):
    """The grant or limit that decided. `catalog.policy.messages` puts it in the language of a page.

    Parameters of a grant: number, effect, kind and name of the target, by (user, group, everyone), whom, and
    conditional where it has conditions on arguments.

    Of a limit: number, rate, kind ("all" for all tools, or "method") and name of the target, by (its scope), whom, and
    measure unless it is calls.
    """

    @cached_property
    def english(self) -> str:
        """Return the sentence that clients get and the log keeps."""
        params = self.params
        if self.code == APPROVAL:
            return _ENGLISH[APPROVAL].format_map(params)
        if self.code not in (GRANT, LIMIT):
            return _ENGLISH[self.code]
        target = "all tools" if params["kind"] == "all" else f"{params['kind']} {params['name']}"
        values = {**params, "target": target, "whom": _SUBJECT_TEXTS[params["by"]].format(params["whom"])}
        if self.code == LIMIT:
            values["amount"] = measures.describe_amount(params.get("measure", measures.CALLS), params["rate"])
        sentence = _ENGLISH[self.code].format_map(values)
        return f"{sentence}, with conditions" if params.get("conditional") else sentence

    @cached_property
    def text(self) -> str:
        """Return canonical JSON, as the log stores it beside the sentence."""
        return self.encode()

    def __str__(self) -> str:
        return self.english


@dataclass(frozen=True, slots=True, eq=False)
class ToolDefinition:
    kind: ClassVar[Kind] = "tool"
    id: int
    name: str
    title: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None
    annotations: dict[str, Any]
    icons: list[dict[str, Any]]
    toolset_ids: frozenset[int]
    runner: str
    settings: dict[str, Any]
    """Raw; a runner parses them once per `hash`."""
    timeout: float
    max_argument_bytes: int
    max_result_bytes: int
    record_bodies: str
    """whole | redacted | digests"""
    task_support: str
    """forbidden | optional | required"""
    requires_capabilities: tuple[str, ...]
    hash: str
    """SHA-256 over everything that decides what callers see and what runs."""
    wire_hash: str
    """SHA-256 over `wire`: lists that show the same content have the same faces."""
    wire: dict[str, Any]
    """The entry of tools/list; absent members are absent."""
    position: int = 100
    quarantined: bool = False
    """Whether it is hidden from all users, in most cases because its definition changed at its source."""
    quarantine_code: str = "rule.quarantined"
    """The code of the rule that hides a quarantined item."""
    unpinned: bool = False
    """Whether it is quarantined because it uses something of an upstream server that nobody approved."""
    pinned_source: tuple[str, str] | None = None
    """Origin and name of the approved definition at its source; None for an item without one."""
    fill_defaults: bool = True
    """Whether missing arguments get the default that the schema names."""
    base: ToolDefinition | None = None
    """Of one person's form of a tool: the tool itself. `hash` stays that of the tool, as the log keeps it."""
    form: Form | None = None
    """What the person may send, when a condition says so."""
    polling: bool = False
    """Whether clients call it again and again on purpose."""
    cost: int = 1
    """Cost units of a call."""
    cost_argument: tuple[str, ...] = ()
    """The names that lead to the argument by which the cost is multiplied; empty: none."""
    cost_per_kilobyte: int = 0
    """Cost units for every 1,000 bytes of the result that have begun."""


@dataclass(frozen=True, slots=True, eq=False)
class ResourceDefinition:
    kind: ClassVar[Kind] = "resource"
    id: int
    name: str
    title: str
    description: str
    uri: str
    """The address, or the RFC 6570 level-1 template when `is_template`."""
    mime_type: str
    is_template: bool
    text: str | None
    blob: str | None
    """Base64."""
    function: str | None
    completions: dict[str, list[str]]
    """Suggested values for the variables of a template."""
    toolset_ids: frozenset[int]
    hash: str
    wire_hash: str
    wire: dict[str, Any]
    size: int | None
    position: int = 100
    app: dict[str, Any] | None = None
    """`_meta.ui` of a page (MCP Apps)."""
    quarantined: bool = False
    quarantine_code: str = "rule.quarantined"
    unpinned: bool = False
    pinned_source: tuple[str, str] | None = None
    upstream: str = ""
    source: str = ""
    connection: dict[str, Any] | None = None
    """How the upstream server that has the content is reached; raw."""
    form: Form | None = None
    """Values of the variables that one person may send, when a condition says so."""


@dataclass(frozen=True, slots=True, eq=False)
class PromptDefinition:
    kind: ClassVar[Kind] = "prompt"
    id: int
    name: str
    title: str
    description: str
    arguments: list[dict[str, Any]]
    """name, description, required and, for completion, enum."""
    messages: list[dict[str, Any]]
    """Template messages (see `fill_template`); empty when a function makes them."""
    function: str | None
    toolset_ids: frozenset[int]
    hash: str
    wire_hash: str
    wire: dict[str, Any]
    position: int = 100
    quarantined: bool = False
    quarantine_code: str = "rule.quarantined"
    unpinned: bool = False
    pinned_source: tuple[str, str] | None = None
    upstream: str = ""
    source: str = ""
    connection: dict[str, Any] | None = None
    """How the upstream server that has the messages is reached; raw."""
    base: PromptDefinition | None = None
    """Of one person's form of a prompt: the prompt itself."""
    form: Form | None = None
    """What the person may send, when a condition says so."""


Item: TypeAlias = ToolDefinition | ResourceDefinition | PromptDefinition


@dataclass(frozen=True, eq=False)
class GrantRule:
    id: int
    effect: str
    """allow | deny"""
    target_kind: str
    """tool | toolset | resource | prompt"""
    target_id: int
    subject_kind: str
    """user | group | everyone"""
    subject_id: int | None
    starts: float | None
    ends: float | None
    environments: frozenset[str]
    """Empty: all environments."""
    target_name: str = ""
    subject_name: str = ""
    conditions: tuple[Condition, ...] = ()
    """On arguments. An allow permits only calls that satisfy all of them, a denial denies only those."""
    windows: tuple[Window, ...] = ()
    """Empty: always."""
    flags: frozenset[str] = frozenset()
    """It applies to users for whom all these flags are on."""
    skips_approval: bool = False
    """Whether the calls that it allows run without approval, whatever approval rules say."""

    @cached_property
    def rule(self) -> Rule:
        """Return the rule, such as 'Grant 12: allow toolset Files to group analysts'; made on first use and kept."""
        params = {"number": self.id, "effect": self.effect, "kind": self.target_kind, "name": self.target_name}
        params |= {"by": self.subject_kind, "whom": self.subject_name}
        return Rule(GRANT, {**params, "conditional": True} if self.conditions else params)


@dataclass(frozen=True, eq=False)
class LimitRule:
    id: int
    target_kind: str
    """tool | toolset | all (tools) | method, whose name is `target_name`"""
    target_id: int | None
    scope: str
    """user | each_user | each_member | group_together | everyone_together"""
    subject_id: int | None
    """The user, or the group."""
    rate: str
    """30/m for a rate, 1000/day for a quota, 3 for calls at a time"""
    target_name: str = ""
    subject_name: str = ""
    measure: str = measures.CALLS
    """calls | cost | running | repeats | errors"""
    zone: str = ""
    """Of a quota; empty: UTC."""
    advice: str = ""
    """What the model reads to do instead."""

    @cached_property
    def rule(self) -> Rule:
        """Return the rule, such as 'Limit 4: 5/m on tool calculate_sum for each user'; made on first use and kept."""
        params = {"number": self.id, "rate": self.rate, "kind": self.target_kind, "name": self.target_name}
        params |= {"by": self.scope, "whom": self.subject_name}
        return Rule(LIMIT, params if self.measure == measures.CALLS else {**params, "measure": self.measure})

    @cached_property
    def quota(self) -> Quota | None:
        """Return the amount and the period of a quota; None for everything else."""
        return periods.parse(self.rate)

    @cached_property
    def is_reserved(self) -> bool:
        """Whether a call takes from it at the last moment before it runs, and not when it arrives."""
        return self.quota is not None or self.measure in (measures.COST, measures.RUNNING)

    def counts(self, tool: ToolDefinition) -> bool:
        """Return whether it counts calls of a tool that it is for."""
        return not (tool.polling and self.measure in measures.LOOPS)


@dataclass(frozen=True, eq=False)
class AskRule:
    """An approval rule: calls of these tools ask a person before they run."""

    id: int
    name: str
    target_kind: str
    """grant | tool | toolset | all"""
    target_id: int | None
    asks: str
    """person | approvers"""
    group_id: int | None
    """The approvers. None for "approvers": the group was deleted, and nobody can approve."""
    group_name: str = ""
    four_eyes: bool = True
    accepts_client: bool = False
    """Whether the person can confirm in the client, of a tool that is not destructive."""
    minutes: int = 60
    destructive_only: bool = False
    conditions: tuple[Condition, ...] = ()
    """It asks for calls that satisfy all of them; of the items of a list, one is enough."""
    first_time: tuple[str | None, ...] = ()
    """The place of an argument: it asks for values with which the person had no approved call yet. Empty: always."""
    windows: tuple[Window, ...] = ()
    """When it asks; empty: always."""
    outside_windows: bool = False
    """Whether it asks at all other times."""

    @cached_property
    def rule(self) -> Rule:
        """Return the rule, such as 'Approval rule 3: Deletions'; made on first use and kept."""
        return Rule(APPROVAL, {"number": self.id, "name": self.name})


@dataclass(frozen=True, eq=False)
class Trial:
    """A rule that is decided and logged beside the real answer, and never applied."""

    kind: str
    """grant | limit | approval_rule"""
    id: int
    """The id of the row in trial, which its rule may not have: a grant has that of the one whose place it takes."""
    rule: GrantRule | LimitRule | AskRule
    replaces: int | None = None
    """The id of the rule in force whose place it takes; None: it is there as well."""
    since: float = 0.0
    """Unix seconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    username: str
    is_active: bool
    group_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class ValueListEntries:
    """What one value list has for a user, a group or everyone."""

    subject_kind: str
    """user | group | everyone"""
    subject_id: int | None
    entries: tuple[str, ...]


def digest(value: Any) -> str:
    """Return the SHA-256 of a JSON value, in hexadecimal digits."""
    return hashlib.sha256(dumps(value).encode("utf-8", "surrogatepass")).hexdigest()


def sort_key(item: Item) -> tuple[int, str]:
    """Return the sort key of every list: position, then name (resources: then address)."""
    return (item.position, f"{item.name}\0{item.uri}" if isinstance(item, ResourceDefinition) else item.name)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The whole catalogue at one revision, with the indexes that decisions need. Make one with `Snapshot.build`."""

    revision: int
    tools: dict[str, ToolDefinition]
    resources: dict[str, ResourceDefinition]
    templates: tuple[ResourceDefinition, ...]
    prompts: dict[str, PromptDefinition]
    grants: tuple[GrantRule, ...]
    limits: tuple[LimitRule, ...]
    members: dict[int, Member]
    items: dict[tuple[str, int], Item] = field(repr=False)
    by_toolset: dict[int, tuple[Item, ...]] = field(repr=False)
    grants_by_user: dict[int, tuple[GrantRule, ...]] = field(repr=False)
    grants_by_group: dict[int, tuple[GrantRule, ...]] = field(repr=False)
    grants_to_everyone: tuple[GrantRule, ...] = field(repr=False)
    grants_by_id: dict[int, GrantRule] = field(repr=False)
    limits_by_tool: dict[int, tuple[LimitRule, ...]] = field(repr=False)
    """Only tools that have any."""
    reserved_by_tool: dict[int, tuple[LimitRule, ...]] = field(repr=False)
    """Those limits of a tool from which a call takes before it runs; only tools that have any."""
    limits_by_method: dict[str, tuple[LimitRule, ...]] = field(repr=False)
    """Only methods that have any."""
    value_lists: dict[str, tuple[ValueListEntries, ...]] = field(repr=False)
    flags: dict[str, int]
    """Percentages of the users for whom the flags are on."""
    asks_by_tool: dict[int, tuple[AskRule, ...]] = field(repr=False)
    """Only tools that an approval rule names: by itself, by a toolset, or with all tools."""
    asks_by_grant: dict[int, tuple[AskRule, ...]] = field(repr=False)
    has_exemptions: bool
    """Whether any grant lets calls run without approval."""
    asking_tools: frozenset[int] = field(repr=False)
    """Ids of the tools of which a call can need an approval, whoever makes it and with whatever arguments."""
    trials: tuple[Trial, ...] = ()
    """Rules in trial, the oldest first. No other member has them."""
    trials_by_item: dict[tuple[str, int], tuple[Trial, ...]] = field(default_factory=dict, repr=False)
    """Only items of which a rule in trial can change the answer to a call."""

    @classmethod
    def build(
        cls,
        *,
        revision: int = 0,
        items: Iterable[Item] = (),
        grants: Iterable[GrantRule] = (),
        limits: Iterable[LimitRule] = (),
        members: Mapping[int, Member] | None = None,
        value_lists: Mapping[str, tuple[ValueListEntries, ...]] | None = None,
        flags: Mapping[str, int] | None = None,
        asks: Iterable[AskRule] = (),
        trials: Iterable[Trial] = (),
    ) -> Snapshot:
        ordered = sorted(items, key=sort_key)
        grants, limits, asks, trials = tuple(grants), tuple(limits), tuple(asks), tuple(trials)
        by_key: dict[tuple[str, int], Item] = {(item.kind, item.id): item for item in ordered}
        by_toolset: dict[int, list[Item]] = {}
        for item in ordered:
            for toolset_id in item.toolset_ids:
                by_toolset.setdefault(toolset_id, []).append(item)
        by_user: dict[int, list[GrantRule]] = {}
        by_group: dict[int, list[GrantRule]] = {}
        for rule in grants:
            if rule.subject_id is not None:
                (by_user if rule.subject_kind == "user" else by_group).setdefault(rule.subject_id, []).append(rule)
        tools = [item for item in ordered if isinstance(item, ToolDefinition)]
        resources = [item for item in ordered if isinstance(item, ResourceDefinition)]
        limits_by_tool = _limits_by_tool(tools, by_toolset, limits)
        asks_by_tool, asks_by_grant = _asks_by_tool(tools, by_toolset, asks), _asks_by_grant(asks)
        return cls(
            revision=revision,
            tools={tool.name: tool for tool in tools},
            resources={resource.uri: resource for resource in resources if not resource.is_template},
            templates=tuple(resource for resource in resources if resource.is_template),
            prompts={item.name: item for item in ordered if isinstance(item, PromptDefinition)},
            grants=grants,
            limits=limits,
            members=dict(members or {}),
            items=by_key,
            by_toolset={key: tuple(found) for key, found in by_toolset.items()},
            grants_by_user={key: tuple(rules) for key, rules in by_user.items()},
            grants_by_group={key: tuple(rules) for key, rules in by_group.items()},
            grants_to_everyone=tuple(rule for rule in grants if rule.subject_kind == "everyone"),
            grants_by_id={rule.id: rule for rule in grants},
            limits_by_tool=limits_by_tool,
            reserved_by_tool=_reserved(limits_by_tool),
            limits_by_method=_limits_by_method(limits),
            value_lists=dict(value_lists or {}),
            flags=dict(flags or {}),
            asks_by_tool=asks_by_tool,
            asks_by_grant=asks_by_grant,
            has_exemptions=any(rule.skips_approval for rule in grants),
            asking_tools=frozenset(asks_by_tool) | _reached_by(grants, asks_by_grant, by_toolset),
            trials=trials,
            trials_by_item=_trials_by_item(trials, [*grants, *limits, *asks], by_key, by_toolset) if trials else {},
        )


def _limits_by_method(limits: tuple[LimitRule, ...]) -> dict[str, tuple[LimitRule, ...]]:
    found: dict[str, list[LimitRule]] = {}
    for rule in limits:
        if rule.target_kind == "method":
            found.setdefault(rule.target_name, []).append(rule)
    return {method: tuple(rules) for method, rules in found.items()}


def _limits_by_tool(
    tools: list[ToolDefinition], by_toolset: Mapping[int, list[Item]], limits: tuple[LimitRule, ...]
) -> dict[int, tuple[LimitRule, ...]]:
    found: dict[int, list[LimitRule]] = {}
    polling = {tool.id: tool for tool in tools if tool.polling}
    for rule in limits:
        targets: Iterable[int]
        if rule.target_kind == "method":
            continue
        if rule.target_kind == "tool" and rule.target_id is not None:
            targets = (rule.target_id,)
        elif rule.target_kind == "toolset" and rule.target_id is not None:
            targets = (item.id for item in by_toolset.get(rule.target_id, ()) if item.kind == "tool")
        else:
            targets = (tool.id for tool in tools)
        for tool_id in targets:
            if tool_id not in polling or rule.counts(polling[tool_id]):
                found.setdefault(tool_id, []).append(rule)
    return {tool_id: tuple(rules) for tool_id, rules in found.items()}


def _reserved(limits_by_tool: Mapping[int, tuple[LimitRule, ...]]) -> dict[int, tuple[LimitRule, ...]]:
    found = {key: tuple(rule for rule in rules if rule.is_reserved) for key, rules in limits_by_tool.items()}
    return {key: rules for key, rules in found.items() if rules}


def is_destructive(tool: ToolDefinition) -> bool:
    """Return whether the tool may delete or overwrite data, or does not say that it does not."""
    return hints.may_destroy(tool.annotations)


def _asks_by_tool(
    tools: list[ToolDefinition], by_toolset: Mapping[int, list[Item]], asks: tuple[AskRule, ...]
) -> dict[int, tuple[AskRule, ...]]:
    found: dict[int, list[AskRule]] = {}
    by_id = {tool.id: tool for tool in tools} if asks else {}
    for rule in asks:
        targets: Iterable[ToolDefinition | None] = ()
        if rule.target_kind == "all":
            targets = tools
        elif rule.target_id is not None and rule.target_kind == "tool":
            targets = (by_id.get(rule.target_id),)
        elif rule.target_id is not None and rule.target_kind == "toolset":
            targets = (item for item in by_toolset.get(rule.target_id, ()) if isinstance(item, ToolDefinition))
        for tool in targets:
            if tool is not None and (not rule.destructive_only or is_destructive(tool)):
                found.setdefault(tool.id, []).append(rule)
    return {tool_id: tuple(rules) for tool_id, rules in found.items()}


def _asks_by_grant(asks: tuple[AskRule, ...]) -> dict[int, tuple[AskRule, ...]]:
    found: dict[int, list[AskRule]] = {}
    for rule in asks:
        if rule.target_kind == "grant" and rule.target_id is not None:
            found.setdefault(rule.target_id, []).append(rule)
    return {grant_id: tuple(rules) for grant_id, rules in found.items()}


def _reached_by(
    grants: Iterable[GrantRule], asks_by_grant: Mapping[int, object], by_toolset: Mapping[int, list[Item]]
) -> set[int]:
    """Return the ids of the tools that grants with an approval rule allow."""
    found: set[int] = set()
    for grant in grants if asks_by_grant else ():
        if grant.id in asks_by_grant and grant.target_kind == "tool":
            found.add(grant.target_id)
        elif grant.id in asks_by_grant and grant.target_kind == "toolset":
            found.update(item.id for item in by_toolset.get(grant.target_id, ()) if item.kind == "tool")
    return found


def find_reached(
    rule: GrantRule | LimitRule | AskRule,
    grants: Mapping[int, GrantRule],
    items: Mapping[tuple[str, int], Item],
    by_toolset: Mapping[int, Iterable[Item]],
) -> list[Item]:
    """Return the items of which this rule can change the answer to a call; only grants are about more than tools.

    The others are indexes of a snapshot, with the grants in force.
    """
    if rule.target_kind == "grant":
        grant = grants.get(rule.target_id or 0)
        found = [] if grant is None else find_reached(grant, grants, items, by_toolset)
        return [item for item in found if item.kind == "tool"]
    reached: Iterable[Item] = ()
    if rule.target_kind == "all":
        reached = items.values()
    elif rule.target_id is not None and rule.target_kind == "toolset":
        reached = by_toolset.get(rule.target_id, ())
    elif rule.target_id is not None and (rule.target_kind, rule.target_id) in items:
        reached = (items[rule.target_kind, rule.target_id],)
    return [item for item in reached if item.kind == "tool" or isinstance(rule, GrantRule)]


def _trials_by_item(
    trials: Iterable[Trial],
    in_force: Iterable[GrantRule | LimitRule | AskRule],
    items: Mapping[tuple[str, int], Item],
    by_toolset: Mapping[int, Iterable[Item]],
) -> dict[tuple[str, int], tuple[Trial, ...]]:
    found: dict[tuple[str, int], list[Trial]] = {}
    by_id = {(type(rule), rule.id): rule for rule in in_force}
    grants = {rule.id: rule for rule in by_id.values() if isinstance(rule, GrantRule)}
    for trial in trials:
        replaced = by_id.get((type(trial.rule), trial.replaces or 0))
        rules = [trial.rule] if replaced is None else [trial.rule, replaced]
        reached = {(item.kind, item.id) for rule in rules for item in find_reached(rule, grants, items, by_toolset)}
        for key in reached:
            found.setdefault(key, []).append(trial)
    return {key: tuple(one) for key, one in found.items()}


def fill_template(text: str, values: Mapping[str, str]) -> str:
    """Return a prompt's template text with `{name}` replaced for every argument in `values`; other braces are kept.

    One pass, so that a value that contains `{other}` is never filled in again. No expressions, no attributes.
    """
    if "{" not in text:
        return text
    parts = text.split("{")
    result = [parts[0]]
    for part in parts[1:]:
        name, brace, rest = part.partition("}")
        result.append(values[name] + rest if brace and name in values else "{" + part)
    return "".join(result)
