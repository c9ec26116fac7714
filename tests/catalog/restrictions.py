"""Conditions, time windows, flags and value lists of grants, few enough to meet each other in random catalogues."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from catalog.conditions import definitions
from catalog.conditions import windows as recurring
from catalog.conditions.definitions import Condition
from catalog.conditions.windows import Window
from catalog.policy.definitions import ValueListEntries
from tests.catalog.test_policy import ALICE, ANALYSTS, FILES, NUMBERS, tool

SALES = 11
HALF = "half"
"""A flag that is on for alice, and off for bob."""
FLAGS = {"on": 100, "off": 0, HALF: 50}
REGIONS = {"regions": (ValueListEntries("everyone", None, ("emea",)), ValueListEntries("group", SALES, ("apac",)))}
"""Members of the sales group have both of the regions that the first tool knows, so that a denial by it hides all."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "enum": ["emea", "apac"]},
        "amount": {"type": "integer", "minimum": 0},
    },
    "required": ["region"],
    "additionalProperties": False,
}
PLAIN: dict[str, Any] = {"type": "object", "properties": {"region": {"type": "string"}}, "required": ["region"]}
FIRST = tool(1, FILES, input_schema=SCHEMA, wire={"name": "tool1", "inputSchema": SCHEMA})
SECOND = tool(2, FILES, NUMBERS, input_schema=PLAIN, wire={"name": "tool2", "inputSchema": PLAIN})
"""It has no amount, and takes any region."""
VALUE_LISTS = {
    **REGIONS,
    "own": (ValueListEntries("user", ALICE, ("emea",)), ValueListEntries("group", ANALYSTS, ("apac",))),
}


def make_conditions(*data: dict[str, Any]) -> tuple[Condition, ...]:
    return definitions.parse(list(data))


def make_window(*days: str, start: str = "00:00", end: str = "24:00") -> tuple[Window, ...]:
    return recurring.parse([{"days": list(days), "from": start, "to": end, "zone": "UTC"}])


EMEA = make_conditions({"path": "/region", "op": "equals", "value": "emea"})
ASIA = make_conditions({"path": "/region", "op": "equals", "value": "asia"})
"""Possible for the second tool only."""
EITHER = make_conditions({"path": "/region", "op": "one_of", "values": ["emea", "apac"]})
SMALL = make_conditions({"path": "/amount", "op": "range", "maximum": 10})
SMALL_OR_NONE = make_conditions({"path": "/amount", "op": "range", "maximum": 10, "optional": True})
FIXED = make_conditions({"path": "/region", "op": "fixed", "value": "apac"})
LISTED = make_conditions({"path": "/region", "op": "belongs_to", "list": "regions"})
OWN = make_conditions({"path": "/region", "op": "belongs_to", "list": "own"})
BOTH = make_conditions(
    {"path": "/region", "op": "equals", "value": "emea"}, {"path": "/amount", "op": "range", "minimum": 5}
)
OPEN, SHUT = make_window("thu"), make_window("sat", "sun", start="09:00", end="17:30")
"""Open, and closed, at `NOW` of the policy's tests: a Thursday, at a quarter past midnight."""

CONDITIONS = st.sampled_from([(), (), (), EMEA, ASIA, EITHER, SMALL, SMALL_OR_NONE, LISTED, OWN, BOTH])
WINDOWS = st.sampled_from([(), (), (), OPEN, SHUT, make_window("thu", start="00:00", end="00:20"), (*OPEN, *SHUT)])
FLAG_NAMES = st.sampled_from([frozenset(one) for one in ([], [], [], ["on"], ["off"], [HALF], ["on", HALF], ["gone"])])


def conditions_for(effect: str) -> st.SearchStrategy[tuple[Condition, ...]]:
    """Conditions that a grant of this effect may have: a denial fixes no values."""
    return CONDITIONS if effect == "deny" else st.one_of(CONDITIONS, st.just(FIXED))
