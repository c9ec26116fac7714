"""Which approval rules ask about a call: pure, and compared with a reference that was written anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.conditions import definitions, windows
from catalog.conditions.forms import Accepted
from catalog.models import ApprovalRule
from catalog.policy import asking, loader, rules
from catalog.policy.asking import APPROVERS, PERSON, Ask
from catalog.policy.definitions import AskRule, GrantRule, Snapshot, ToolDefinition, ValueListEntries
from catalog.policy.rules import Requester
from catalog.schemas import defaults
from tests import factories
from tests.bounded import bounded
from tests.catalog import test_policy
from tests.catalog.test_policy import ALICE, BOB, FILES, MEMBERS, NUMBERS, rule

SALES, OWNERS = 11, 12
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string"},
        "amount": {"type": "integer", "default": 5},
        "key": {"type": "string", "writeOnly": True},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"price": {"type": "integer"}, "currency": {"type": "string"}},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
HARMLESS = {"destructiveHint": False}
REGIONS = {"regions": (ValueListEntries("everyone", None, ("emea",)), ValueListEntries("user", BOB, ("apac",)))}
MONDAY_NOON = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
EMEA = {"path": "/region", "op": "equals", "value": "emea"}
LARGE = {"path": "/amount", "op": "range", "exclusiveMinimum": 10}
DEAR = {"path": "/lines/*/price", "op": "range", "minimum": 100}
OURS = {"path": "/region", "op": "belongs_to", "list": "regions"}
SECRET = {"path": "/key", "op": "equals", "value": "x"}
GONE = {"path": "/city", "op": "equals", "value": "Bern"}
ABSENT_OR_EMEA = {**EMEA, "optional": True}
OFFICE = {"days": ["mon"], "from": "09:00", "to": "17:00", "zone": "UTC"}
NIGHT = {"days": ["mon"], "from": "20:00", "to": "23:00", "zone": "UTC"}


def tool(pk: int = 1, *toolsets: int, schema: dict[str, Any] = SCHEMA, **fields: Any) -> ToolDefinition:
    wire = {"name": f"tool{pk}", "inputSchema": schema}
    return test_policy.tool(pk, *(toolsets or (FILES,)), input_schema=schema, wire=wire, **fields)


TOOL = tool()
OTHER = tool(2, NUMBERS)


def asks(pk: int, target: tuple[str, int | None] = ("tool", 1), group: int | None = SALES, **fields: Any) -> AskRule:
    """A rule that asks the group, or without one the person."""
    fields.setdefault("asks", PERSON if group is None else APPROVERS)
    fields["conditions"] = definitions.parse(fields.pop("conditions", []))
    fields["windows"] = windows.parse(fields.pop("windows", []))
    return AskRule(pk, f"rule {pk}", target[0], target[1], group_id=group, **fields)


def allow(pk: int, *conditions: dict[str, Any], **fields: Any) -> GrantRule:
    return rule(pk, conditions=definitions.parse(list(conditions)), **fields)


def build(*made: AskRule | GrantRule, items: Iterable[ToolDefinition] = (TOOL, OTHER)) -> Snapshot:
    grants = [one for one in made if isinstance(one, GrantRule)]
    return Snapshot.build(
        items=items,
        grants=grants or [allow(99, target=("toolset", FILES))],
        asks=[one for one in made if isinstance(one, AskRule)],
        members=MEMBERS,
        value_lists=REGIONS,
    )


def find(
    found: Snapshot,
    arguments: Mapping[str, Any] | None = None,
    item: ToolDefinition = TOOL,
    user: int = ALICE,
    now: float = MONDAY_NOON,
) -> list[tuple[str, int | None, list[int]]]:
    """Whom a call asks, and by which rules."""
    return [show(one) for one in find_asks(found, arguments or {}, item, user, now)]


def find_asks(
    found: Snapshot,
    arguments: Mapping[str, Any],
    item: ToolDefinition = TOOL,
    user: int = ALICE,
    now: float = MONDAY_NOON,
) -> tuple[Ask, ...]:
    fill = defaults.compile_fill(item.input_schema) or dict
    sent = dict(arguments)
    return asking.find_asks(found, Requester(user), item, now, "production", sent, fill(sent)).asks


def show(one: Ask) -> tuple[str, int | None, list[int]]:
    return one.asks, one.group_id, [rule.id for rule in one.rules]


# --- which rules apply -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [("tool", 1), ("toolset", FILES), ("all", None), ("grant", 99)])
def test_a_rule_asks_about_calls_of_its_target(target: tuple[str, int | None]) -> None:
    found = build(asks(1, target))
    assert find(found) == [(APPROVERS, SALES, [1])]
    assert find(found, item=OTHER) == ([(APPROVERS, SALES, [1])] if target[0] == "all" else [])


@pytest.mark.parametrize("target", [("tool", 9), ("toolset", 9), ("grant", 9)])
def test_a_rule_of_something_else_asks_nobody(target: tuple[str, int]) -> None:
    assert find(build(asks(1, target))) == []


@pytest.mark.parametrize(
    ("hints", "destructive"),
    [
        ({}, True),
        ({"destructiveHint": True}, True),
        (HARMLESS, False),
        ({"readOnlyHint": True}, False),
        ({"readOnlyHint": True, "destructiveHint": True}, False),
        ({"readOnlyHint": False}, True),
    ],
)
@pytest.mark.parametrize("target", [("all", None), ("grant", 99)])
def test_a_rule_for_destructive_tools_asks_unless_a_tool_says_that_it_is_harmless(
    hints: dict[str, Any], destructive: bool, target: tuple[str, int | None]
) -> None:
    item = tool(annotations=hints)
    found = build(asks(1, target, destructive_only=True), items=[item])
    assert bool(find(found, item=item)) is destructive


@pytest.mark.parametrize(
    ("conditions", "arguments", "applies"),
    [
        ([EMEA], {"region": "emea"}, True),
        ([EMEA], {"region": "apac"}, False),
        ([EMEA], {}, False),
        ([ABSENT_OR_EMEA], {}, True),
        ([ABSENT_OR_EMEA], {"region": "apac"}, False),
        ([LARGE], {"amount": 11}, True),
        ([LARGE], {"amount": 10}, False),
        ([LARGE], {}, False),
        ([{"path": "/amount", "op": "equals", "value": 5}], {}, True),
        ([EMEA, LARGE], {"region": "emea", "amount": 11}, True),
        ([EMEA, LARGE], {"region": "emea", "amount": 1}, False),
        ([EMEA, LARGE], {"region": "apac", "amount": 11}, False),
        ([DEAR], {"lines": [{"price": 1}, {"price": 100}]}, True),
        ([DEAR], {"lines": [{"price": 1}, {"price": 99}]}, False),
        ([DEAR], {"lines": []}, False),
        ([DEAR], {}, False),
        ([DEAR], {"lines": [{}, {"price": 100}]}, True),
        ([OURS], {"region": "emea"}, True),
        ([OURS], {"region": "apac"}, False),
    ],
)
@pytest.mark.parametrize("target", [("tool", 1), ("all", None), ("grant", 99)])
def test_a_rule_with_conditions_asks_about_calls_that_satisfy_them_all(
    conditions: list[Any], arguments: dict[str, Any], applies: bool, target: tuple[str, int | None]
) -> None:
    assert bool(find(build(asks(1, target, conditions=conditions)), arguments)) is applies


def test_a_value_list_is_that_of_the_person_who_calls() -> None:
    found = build(asks(1, conditions=[OURS]), allow(99))
    assert find(found, {"region": "apac"}, user=BOB) and not find(found, {"region": "apac"}, user=ALICE)


@pytest.mark.parametrize("target", [("tool", 1), ("all", None), ("grant", 99)])
def test_a_condition_on_a_secret_argument_restricts_nothing(target: tuple[str, int | None]) -> None:
    found = build(asks(1, target, conditions=[SECRET]))
    assert find(found, {"key": "y"}) and find(found)
    both = build(asks(1, target, conditions=[SECRET, EMEA]))
    assert find(both, {"region": "emea"}) and not find(both, {"region": "apac"})


@pytest.mark.parametrize("target", [("tool", 1), ("grant", 98)])
def test_a_condition_on_an_argument_that_is_gone_restricts_nothing(target: tuple[str, int]) -> None:
    """The rule names the tool, or a grant that does, and its definition changed."""
    found = build(asks(1, target, conditions=[GONE]), allow(98))
    assert find(found, {"region": "apac"})


@pytest.mark.parametrize("target", [("all", None), ("toolset", FILES), ("grant", 99)])
def test_a_rule_for_several_tools_is_not_about_those_without_the_argument(target: tuple[str, int | None]) -> None:
    assert not find(build(asks(1, target, conditions=[GONE])), {"region": "apac"})


@pytest.mark.parametrize(
    ("times", "outside", "applies"),
    [
        ([], False, True),
        ([OFFICE], False, True),
        ([OFFICE], True, False),
        ([NIGHT], False, False),
        ([NIGHT], True, True),
        ([NIGHT, OFFICE], False, True),
        ([NIGHT, OFFICE], True, False),
    ],
)
@pytest.mark.parametrize("target", [("tool", 1), ("grant", 99)])
def test_a_rule_asks_inside_or_outside_its_time_windows(
    times: list[Any], outside: bool, applies: bool, target: tuple[str, int]
) -> None:
    found = build(asks(1, target, windows=times, outside_windows=outside))
    assert bool(find(found)) is applies


def test_a_window_opens_and_closes_at_its_exact_time() -> None:
    found = build(asks(1, windows=[OFFICE]))
    opens = datetime(2026, 11, 23, 9, tzinfo=UTC).timestamp()
    closes = datetime(2026, 11, 23, 17, tzinfo=UTC).timestamp()
    assert [bool(find(found, now=at)) for at in (opens - 0.001, opens, closes - 0.001, closes)] == [
        False, True, True, False,
    ]  # fmt: skip


# --- rules of grants -------------------------------------------------------------------------------------------------


def test_another_grant_without_a_rule_exempts() -> None:
    asked = asks(1, ("grant", 1))
    assert find(build(asked, allow(1))) == [(APPROVERS, SALES, [1])]
    assert find(build(asked, allow(1), allow(2))) == []
    assert find(build(asked, allow(1), allow(2, who=("user", BOB)))) == [(APPROVERS, SALES, [1])]


@pytest.mark.parametrize(
    "other",
    [
        allow(2, EMEA),
        allow(2, {**EMEA, "op": "fixed"}),
        allow(2, ends=MONDAY_NOON),
        allow(2, starts=MONDAY_NOON + 1),
        allow(2, target=("toolset", NUMBERS)),
        allow(2, environments=frozenset({"test"})),
        allow(2, flags=frozenset({"off"})),
        allow(2, windows=windows.parse([NIGHT])),
        replace(allow(2), effect="deny"),
        allow(2, SECRET),
        allow(2, {**SECRET, "op": "fixed"}),
        allow(2, GONE),
        allow(2, {**GONE, "optional": True}),
    ],
    ids=lambda grant: str(grant.rule),
)
def test_a_grant_that_does_not_allow_the_call_exempts_from_nothing(other: GrantRule) -> None:
    found = build(asks(1, ("grant", 1)), allow(1), other)
    assert find(found, {"region": "apac", "key": "x"}) == [(APPROVERS, SALES, [1])]


def test_a_grant_whose_rule_does_not_apply_to_the_call_exempts() -> None:
    found = build(asks(1, ("grant", 1)), asks(2, ("grant", 2), conditions=[LARGE]), allow(1), allow(2))
    assert find(found, {"amount": 1}) == []
    assert find(found, {"amount": 11}) == [(APPROVERS, SALES, [1])]


def test_a_rule_of_a_grant_is_no_way_around_one_of_the_tool() -> None:
    found = build(asks(1), asks(2, ("grant", 1)), allow(1), allow(2))
    assert find(found) == [(APPROVERS, SALES, [1])]


FIXED_INSIDE = {"path": "/lines/*/currency", "op": "fixed", "value": "EUR"}


@pytest.mark.parametrize(
    "arguments", [{"lines": [{"price": 1, "currency": "EUR"}, {"currency": "EUR"}]}, {"lines": []}, {}]
)
def test_a_value_fixed_in_the_items_of_a_list_leaves_the_rule_of_its_grant_in_force(arguments: dict[str, Any]) -> None:
    assert find(build(asks(1, ("grant", 1)), allow(1, FIXED_INSIDE)), arguments) == [(APPROVERS, SALES, [1])]


def test_a_call_that_no_grant_seems_to_allow_asks_by_all_of_them() -> None:
    """The policy has allowed it, or nobody would look for rules."""
    found = build(asks(1, ("grant", 1)), asks(2, ("grant", 2), OWNERS), allow(1, EMEA), allow(2, EMEA), allow(3, EMEA))
    assert find(found, {"region": "apac"}) == [(APPROVERS, SALES, [1]), (APPROVERS, OWNERS, [2])]


# --- one question for the same people --------------------------------------------------------------------------------


def test_rules_that_ask_the_same_people_are_one_question_with_the_strictest_terms() -> None:
    lenient = asks(1, four_eyes=False, minutes=60)
    strict = asks(2, four_eyes=True, minutes=5)
    (question,) = find_asks(build(lenient, strict), {})
    assert (question.four_eyes, question.minutes, [one.id for one in question.rules]) == (True, 5, [1, 2])


def test_the_person_is_asked_first_and_every_group_by_itself() -> None:
    found = build(asks(1, group=OWNERS), asks(2, group=SALES), asks(3, group=None), asks(4, group=OWNERS))
    assert find(found) == [(PERSON, None, [3]), (APPROVERS, SALES, [2]), (APPROVERS, OWNERS, [1, 4])]


def test_approvers_whose_group_is_gone_are_not_the_person() -> None:
    found = build(asks(1, group=None, asks=APPROVERS), asks(2, group=None))
    assert find(found) == [(PERSON, None, [2]), (APPROVERS, None, [1])]


@pytest.mark.parametrize(
    ("rules", "hints", "accepts"),
    [
        ([{"accepts_client": True}], HARMLESS, True),
        ([{"accepts_client": True}], {}, False),
        ([{"accepts_client": False}], HARMLESS, False),
        ([{"accepts_client": True}, {"accepts_client": False}], HARMLESS, False),
        ([{"accepts_client": True, "group": SALES}], HARMLESS, False),
    ],
)
def test_the_clients_answer_counts_where_every_rule_and_the_tool_let_it(
    rules: list[dict[str, Any]], hints: dict[str, Any], accepts: bool
) -> None:
    item = tool(annotations=hints)
    made = [
        asks(number, group=one.get("group"), accepts_client=one["accepts_client"]) for number, one in enumerate(rules)
    ]
    (question,) = find_asks(build(*made, items=[item]), {}, item)
    assert question.accepts_client is accepts


# --- rules that cannot be read ---------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize(
    "columns",
    [
        {"conditions": [{"path": "/region", "op": "nothing", "value": 1}]},
        {"conditions": {"path": "/region"}},
        {"conditions": [{**EMEA, "op": "fixed"}]},
        {"conditions": [{"path": "", "op": "only", "names": ["region"]}]},
        {"conditions": [{"path": "region", "op": "equals", "value": "emea"}]},
        {"conditions": [{**OURS, "list": "a list that is gone"}]},
        {"windows": [{"days": ["someday"], "from": "09:00", "to": "10:00", "zone": "UTC"}]},
        {"windows": [{**NIGHT, "zone": "Nowhere/At_All"}]},
        {"windows": "always"},
        {"windows": [{"days": []}], "outside_windows": True},
        {"windows": [], "outside_windows": True},
    ],
    ids=str,
)
def test_a_rule_that_cannot_be_read_asks_always(columns: dict[str, Any]) -> None:
    item = factories.make_tool()
    made = ApprovalRule.objects.create(name="Unreadable", tool=item, asks="person")
    ApprovalRule.objects.filter(pk=made.pk).update(**columns)
    (read,) = loader.load_asks(frozenset())
    assert read.conditions == () and find(build(replace(read, target_id=1)), {"region": "apac"})


@pytest.mark.django_db
def test_a_rule_with_one_condition_that_cannot_be_checked_asks_by_the_others() -> None:
    item = factories.make_tool()
    ApprovalRule.objects.create(name="Half", tool=item, asks="person", conditions=[EMEA, {**OURS, "list": "gone"}])
    (read,) = loader.load_asks(frozenset())
    found = build(replace(read, target_id=1))
    assert find(found, {"region": "emea"}) and not find(found, {"region": "apac"})


@pytest.mark.django_db
def test_a_rule_that_is_switched_off_is_not_read() -> None:
    ApprovalRule.objects.create(name="Off", all_tools=True, asks="person", enabled=False)
    assert list(loader.load_asks(frozenset())) == []


# --- the reference ---------------------------------------------------------------------------------------------------

MISSING = object()
CONDITIONS: list[dict[str, Any]] = [
    EMEA,
    ABSENT_OR_EMEA,
    LARGE,
    {**LARGE, "optional": True},
    DEAR,
    OURS,
    SECRET,
    GONE,
    {"path": "/region", "op": "one_of", "values": ["emea", "apac"]},
    {"path": "/region", "op": "not_one_of", "values": ["emea"]},
    {"path": "/amount", "op": "equals", "value": 5},
]


def satisfies(value: Any, condition: dict[str, Any]) -> bool:
    """Whether one value is what the condition expects."""
    match condition["op"]:
        case "equals":
            return bool(value == condition["value"])
        case "one_of":
            return value in condition["values"]
        case "not_one_of":
            return value not in condition["values"]
        case "belongs_to":
            return bool(value == "emea")
    low, above = condition.get("minimum", -1e9), condition.get("exclusiveMinimum", -1e9)
    return bool(low <= value and above < value)


def look_up(arguments: Mapping[str, Any], path: str) -> list[Any]:
    """The values at the place of a condition; of a list, those of its items."""
    if path == "/lines/*/price":
        return [line.get("price", MISSING) for line in arguments.get("lines", [])]
    return [arguments.get(path[1:], MISSING)]


def some_satisfies(condition: dict[str, Any], arguments: Mapping[str, Any]) -> bool:
    """As rules mean it: one item is enough."""
    complete = {"amount": 5, **arguments}
    for value in look_up(complete, condition["path"]):
        if condition.get("optional", False) if value is MISSING else satisfies(value, condition):
            return True
    return False


def all_satisfy(condition: dict[str, Any], arguments: Mapping[str, Any]) -> bool:
    """As grants mean it: every item, and an optional argument that was not sent is fine whatever is filled in."""
    complete = {"amount": 5, **arguments}
    if condition["path"] == "/lines/*/price" and "lines" not in arguments:
        return False
    for value in look_up(complete, condition["path"]):
        name = condition["path"][1:]
        if condition.get("optional", False) and name not in arguments:
            continue
        if value is MISSING or not satisfies(value, condition):
            return False
    return True


Drawn = tuple[AskRule, list[dict[str, Any]]]


def refer(
    drawn_rules: list[Drawn],
    grants: list[tuple[GrantRule, list[dict[str, Any]]]],
    item: ToolDefinition,
    arguments: Mapping[str, Any],
) -> set[int]:
    """The ids of the rules that ask, worked out the long way."""
    destroys = item.annotations != HARMLESS

    def applies(one: AskRule, conditions: list[dict[str, Any]]) -> bool:
        if one.destructive_only and not destroys:
            return False
        if one.windows and (one.windows == windows.parse([OFFICE])) == one.outside_windows:
            return False
        by_grant = next(
            (grant for grant, _ in grants if one.target_kind == "grant" and grant.id == one.target_id), None
        )
        names_tool = one.target_kind == "tool" or (by_grant is not None and by_grant.target_kind == "tool")
        for condition in conditions:
            if condition["path"] == "/key" or (condition["path"] == "/city" and names_tool):
                continue
            if not some_satisfies(condition, arguments):
                return False
        return True

    asking_ids = {one.id for one, conditions in drawn_rules if one.target_kind != "grant" and applies(one, conditions)}
    by_grant = {
        grant.id: {
            one.id
            for one, conditions in drawn_rules
            if one.target_kind == "grant" and one.target_id == grant.id and applies(one, conditions)
        }
        for grant, _ in grants
    }
    allowing = []
    for grant, conditions in grants:
        possible = [one["path"] not in ("/key", "/city") and all_satisfy(one, arguments) for one in conditions]
        if all(possible):
            allowing.append(grant.id)
    if any(not by_grant[number] for number in allowing):
        return asking_ids
    if allowing:
        return asking_ids | by_grant[min(allowing)]
    return asking_ids.union(*by_grant.values())


@st.composite
def draw_rule(draw: Any, pk: int) -> Drawn:
    conditions = draw(st.lists(st.sampled_from(CONDITIONS), max_size=2, unique_by=lambda one: one["path"]))
    targets: list[tuple[str, int | None]] = [("tool", 1), ("toolset", FILES), ("all", None)]
    grants: list[tuple[str, int | None]] = [("grant", 1), ("grant", 2), ("grant", 3)]
    target = draw(st.sampled_from(targets + grants))
    group = draw(st.sampled_from([None, SALES, OWNERS]))
    made = asks(
        pk,
        target,
        group,
        conditions=conditions,
        windows=draw(st.sampled_from([[], [], [OFFICE], [NIGHT]])),
        outside_windows=draw(st.booleans()),
        destructive_only=draw(st.booleans()),
        four_eyes=draw(st.booleans()),
        accepts_client=draw(st.booleans()),
        minutes=draw(st.integers(1, 90)),
    )
    return made, conditions


@st.composite
def draw_case(
    draw: Any,
) -> tuple[list[Drawn], list[tuple[GrantRule, list[dict[str, Any]]]], ToolDefinition, dict[str, Any]]:
    drawn = [draw(draw_rule(number)) for number in range(1, draw(st.integers(1, 6)) + 1)]
    grants = []
    for number in range(1, draw(st.integers(1, 3)) + 1):
        conditions = draw(st.lists(st.sampled_from(CONDITIONS), max_size=2, unique_by=lambda one: one["path"]))
        target = draw(st.sampled_from([("tool", 1), ("toolset", FILES)]))
        grants.append((allow(number, *conditions, target=target), conditions))
    item = tool(annotations=draw(st.sampled_from([{}, HARMLESS])))
    arguments = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "region": st.sampled_from(["emea", "apac", "asia"]),
                "amount": st.sampled_from([0, 5, 10, 11]),
                "key": st.just("x"),
                "lines": st.lists(st.sampled_from([{}, {"price": 1}, {"price": 100}]), max_size=2),
            },
        )
    )
    return drawn, grants, item, arguments


def build_case(drawn: list[Drawn], grants: list[tuple[GrantRule, Any]], item: ToolDefinition) -> Snapshot:
    return build(*(one for one, _ in drawn), *(grant for grant, _ in grants), items=[item])


@given(case=draw_case())
@settings(bounded, max_examples=600)
def test_the_rules_that_ask_are_those_of_the_reference(case: Any) -> None:
    drawn, grants, item, arguments = case
    found = find_asks(build_case(drawn, grants, item), arguments, item)
    assert {one.id for question in found for one in question.rules} == refer(drawn, grants, item, arguments)
    by_id = {one.id: one for one, _ in drawn}
    for question in found:
        members = [by_id[one.id] for one in question.rules]
        assert {(one.asks, one.group_id) for one in members} == {(question.asks, question.group_id)}
        assert question.four_eyes == any(one.four_eyes for one in members)
        assert question.minutes == min(one.minutes for one in members)
        alone = question.asks == PERSON and item.annotations == HARMLESS
        assert question.accepts_client == (alone and all(one.accepts_client for one in members))
    people = [(question.asks, question.group_id) for question in found]
    assert len(set(people)) == len(people)


@given(case=draw_case(), added=draw_rule(7))
@settings(bounded, max_examples=400)
def test_a_further_rule_takes_no_question_away_and_weakens_none(case: Any, added: Drawn) -> None:
    drawn, grants, item, arguments = case
    before = find_asks(build_case(drawn, grants, item), arguments, item)
    after = {
        (one.asks, one.group_id): one for one in find_asks(build_case([*drawn, added], grants, item), arguments, item)
    }
    for question in before:
        stays = after[question.asks, question.group_id]
        assert {one.id for one in question.rules} <= {one.id for one in stays.rules}
        assert stays.four_eyes >= question.four_eyes and stays.minutes <= question.minutes
        assert stays.accepts_client <= question.accepts_client


@given(case=draw_case())
@settings(bounded, max_examples=300)
def test_whatever_the_arguments_all_asks_names_every_rule_that_could_ask(case: Any) -> None:
    """What asks when there is no time to look at the arguments."""
    drawn, grants, item, arguments = case
    found = build_case(drawn, grants, item)
    every = asking.all_asks(found, Requester(ALICE), item, MONDAY_NOON, "production")
    possible = {(one.asks, one.group_id): {rule.id for rule in one.rules} for one in every}
    for question in find_asks(found, arguments, item):
        assert {one.id for one in question.rules} <= possible[question.asks, question.group_id]
        assert item.id in found.asking_tools


@given(case=draw_case())
@settings(bounded, max_examples=400)
def test_a_call_that_only_a_grant_with_a_rule_allows_asks(case: Any) -> None:
    """Compared with the policy itself: of the grants that it takes alone, each must have a rule for a question."""
    _drawn, grants, item, arguments = case
    always = [asks(number, ("grant", number), group=None) for number in (1, 2)]
    found = build(*always, *(grant for grant, _ in grants), items=[item])
    allowing = []
    for grant, _ in grants:
        alone = Snapshot.build(items=[item], grants=[grant], members=MEMBERS, value_lists=REGIONS)
        decision = rules.decide(alone, Requester(ALICE), item, MONDAY_NOON, "production")
        if decision.visible and (
            decision.form is None or isinstance(decision.form.judge(dict(arguments), lambda _: None), Accepted)
        ):
            allowing.append(grant.id)
    if allowing:
        assert bool(find(found, arguments, item)) == (3 not in allowing)
