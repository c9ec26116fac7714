"""The schema that is left of a tool's own when its arguments must satisfy constraints.

Pure. The result accepts exactly the values that the schema and the constraint accept, and says it where clients read
it: choices as "enum", bounds and patterns beside the others of a property, references along the way in place, and
nothing combined at the root, where some clients refuse "anyOf" and its like. None stands for a schema that accepts
nothing.

Keywords in an "allOf" of their own are the last resort; they are exact as well.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from catalog.conditions.constraints import Constraint
from catalog.conditions.definitions import ITEMS, Steps
from catalog.conditions.expectations import KINDS, LISTING, NOT_ONE_OF, RANGE_KEYWORDS, Expectation
from catalog.conditions.original import ANNOTATIONS, UNIONS, Original
from catalog.schemas import errors, patterns
from catalog.schemas.full_check import hashable

NEVER: Final[dict[str, Any]] = {"not": {}}
_TIGHTER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), min),
}
_APPLIES_TO: Final = {
    "pattern": {"string"}, "minLength": {"string"}, "maxLength": {"string"},
    "minItems": {"array"}, "maxItems": {"array"},
    **{keyword: {"integer", "number"} for keyword in RANGE_KEYWORDS},
}  # fmt: skip

_NAMING: Final = (
    "patternProperties", "propertyNames", "unevaluatedProperties", "anyOf", "oneOf", "allOf", "$ref"
)  # fmt: skip
"""Keywords beside "properties" by which a schema can be about members of an object."""


class Demand:
    """What one place must satisfy: all constraints of one of the alternatives.

    `required` says for each step whether its member must be there, `strict` whether what is on the way must be of the
    right kind.
    """

    def __init__(self, alternatives: Iterable[tuple[Constraint, ...]], required: tuple[bool, ...]) -> None:
        self.alternatives = tuple(alternatives)
        self.required = required
        constraints = [one for alternative in self.alternatives for one in alternative]
        self.steps: Steps = constraints[0].steps
        self.is_strict = all(not one.is_negated for one in constraints)
        self.may_be_absent = any(all(one.may_be_absent for one in alternative) for alternative in self.alternatives)

    def accepts(self, value: Any) -> bool:
        """Return whether a value at the place satisfies it."""
        return any(all(one.accepts(value) for one in alternative) for alternative in self.alternatives)


class Narrowing:
    """Narrows one schema, `schema`; `is_exact` turns False when it had to be wider than a demand.

    Nothing of the original is changed: what is narrowed is new on the way from the root, and shares the rest.
    """

    def __init__(self, original: Original, schema: dict[str, Any] | None = None) -> None:
        self._original = original
        self.fits, self.resolve = original.fits, original.resolve
        self.schema = original.schema if schema is None else schema
        self.is_exact = True

    def apply(self, demand: Demand) -> bool:
        """Narrow the schema. Return False when nothing that it accepts satisfies the demand."""
        narrowed = self._at(self.schema, demand, 0)
        if narrowed is None:
            return False
        self.schema = narrowed
        return True

    def close(self, names: Collection[str]) -> bool:
        """Leave no members of the root but these. Return False when it requires another one.

        It says so by "additionalProperties" where the root names all of these itself, and nothing else of it names any.
        Elsewhere "propertyNames" says it, beside whatever is there.
        """
        part = self._open(self.schema)
        if part is None or any(name not in names for name in part.get("required", ())):
            return False
        declared = part.get("properties") or {}
        closed = {**part, "properties": {name: child for name, child in declared.items() if name in names}}
        if all(name in declared for name in names) and not any(keyword in part for keyword in _NAMING):
            closed["additionalProperties"] = False
        else:
            before = part.get("propertyNames", True)
            left = [name for name in names if before is True or (before is not False and self.fits(before, name))]
            if left:
                closed["propertyNames"] = {"enum": left}
            else:
                closed["maxProperties"] = 0
        self.schema = self.without_wrong_default(closed)
        return True

    # --- on the way -------------------------------------------------------------------------------------------------

    def _at(self, part: Any, demand: Demand, index: int) -> dict[str, Any] | None:
        """Return `part` narrowed by the rest of the demand."""
        part = self._open(part)
        if part is None:
            return None
        if index == len(demand.steps):
            return self._leaf(part, demand)
        for union in UNIONS:
            if isinstance(part.get(union), list) and index > 0:
                return self._distribute(part, union, lambda branch: self._at(branch, demand, index))
        if demand.steps[index] is ITEMS:
            narrowed = self._items(part, demand, index)
        else:
            narrowed = self._member(part, demand, index)
        return None if narrowed is None else self.without_wrong_default(narrowed)

    def _container(self, part: dict[str, Any], demand: Demand, kind: str) -> list[str]:
        """Return the kinds of value that are left at a place on the way, `kind` among them or not."""
        kinds = _kinds(part)
        if demand.is_strict:
            kept = {kind, "null"} if demand.may_be_absent else {kind}
            kinds = [one for one in kinds if one in kept]
        elif not demand.may_be_absent:
            kinds = [one for one in kinds if one == kind]
        return kinds

    def _member(self, part: dict[str, Any], demand: Demand, index: int) -> dict[str, Any] | None:
        name, required = demand.steps[index], demand.required[index]
        assert name is not None  # noqa: S101
        kinds = self._container(part, demand, "object")
        if "object" not in kinds:
            return _with_kinds(part, kinds)
        properties = dict(part.get("properties") or {})
        if name not in properties and part.get("unevaluatedProperties", True) is not True:
            self.is_exact = False  # naming the member here would make it an evaluated one
            return part
        child = properties[name] if name in properties else self._undeclared(part, name)
        narrowed = self._at(child, demand, index + 1)
        if narrowed is None:
            if required or name in part.get("required", ()):
                return _with_kinds(part, [kind for kind in kinds if kind != "object"])
            narrowed = NEVER
        result = _with_kinds(part, kinds)
        assert result is not None  # noqa: S101
        if child is not False:
            result["properties"] = {**properties, name: narrowed}
        if required and name not in result.get("required", ()):
            result["required"] = [*result.get("required", ()), name]
        return result

    def _undeclared(self, part: dict[str, Any], name: str) -> Any:
        """Return the schema of a member that the schema does not name."""
        named = part.get("patternProperties")
        if isinstance(named, dict) and any(patterns.searcher(pattern)(name) for pattern in named):
            return True  # the schema of the pattern applies beside ours
        return part.get("additionalProperties", True)

    def _items(self, part: dict[str, Any], demand: Demand, index: int) -> dict[str, Any] | None:
        kinds = self._container(part, demand, "array")
        if "array" not in kinds:
            return _with_kinds(part, kinds)
        result = _with_kinds(part, kinds)
        assert result is not None  # noqa: S101
        items = part.get("items", True)
        if isinstance(items, list) or "prefixItems" in part:
            narrowed = self._at({}, demand, index + 1)
            return _also(result, {"maxItems": 0} if narrowed is None else {"items": narrowed})
        narrowed = self._at(items, demand, index + 1)
        if narrowed is None:
            result["maxItems"] = 0
        elif narrowed:
            result["items"] = narrowed
        return result

    def _distribute(
        self, part: dict[str, Any], union: str, narrow: Callable[[Any], dict[str, Any] | None]
    ) -> dict[str, Any] | None:
        """Return `part` with each alternative of a union narrowed. Exact for "oneOf" too: all lose the same values."""
        branches = [narrowed for branch in part[union] if (narrowed := narrow(branch)) is not None]
        rest = {keyword: value for keyword, value in part.items() if keyword != union}
        if not branches:
            return None
        if len(branches) == 1:
            (branch,) = branches
            clash = (branch.keys() & rest.keys()) - ANNOTATIONS
            merged = {**branch, **rest}
            return {**rest, union: branches} if clash else self.without_wrong_default(merged)
        return self.without_wrong_default({**rest, union: branches})

    # --- at the place -----------------------------------------------------------------------------------------------

    def _leaf(self, part: dict[str, Any], demand: Demand) -> dict[str, Any] | None:
        listed = self._listed(part, demand)
        if listed is not None:
            return self._choices(part, listed)
        found = []
        for alternative in demand.alternatives:
            narrowed: dict[str, Any] | None = part
            for constraint in alternative:
                if narrowed is not None:
                    narrowed = self._constrain(narrowed, constraint)
            if narrowed is not None and narrowed not in found:
                found.append(narrowed)
        if not found:
            return None
        if len(found) == 1:
            return self.without_wrong_default(found[0])
        outer = {keyword: value for keyword, value in part.items() if keyword in ANNOTATIONS}
        inner = [{k: v for k, v in one.items() if k not in ANNOTATIONS} for one in found]
        return self.without_wrong_default({**outer, "anyOf": inner})

    def _listed(self, part: dict[str, Any], demand: Demand) -> list[Any] | None:
        """Return the values that are left when the schema or every alternative lists them; None otherwise."""
        if "const" in part:
            return [part["const"]] if demand.accepts(part["const"]) and self.fits(part, part["const"]) else []
        fits = self._check_of(part)
        if isinstance(part.get("enum"), list):
            return [value for value in part["enum"] if demand.accepts(value) and fits(value)]
        candidates: dict[Any, Any] = {}
        for alternative in demand.alternatives:
            lists = [one for one in alternative if _lists_values(one)]
            if not lists:
                return None
            for value in lists[0].expectation.value:
                candidates.setdefault(hashable(value), value)
            if lists[0].may_be_absent and not lists[0].is_negated:
                candidates.setdefault(None, None)
        return [value for value in candidates.values() if demand.accepts(value) and fits(value)]

    def _check_of(self, part: dict[str, Any]) -> Callable[[Any], bool]:
        """Return whether a value satisfies the part: quickly for one of kinds and values alone, as lists make them."""
        if not all(keyword in _PLAIN or keyword.startswith("x-") for keyword in part):
            return lambda value: self.fits(part, value)
        names = _kinds(part)
        if not isinstance(part.get("enum"), list):
            return lambda value: any(_is_kind(value, name) for name in names)
        known = {hashable(value) for value in part["enum"]}
        return lambda value: hashable(value) in known and any(_is_kind(value, name) for name in names)

    def _choices(self, part: dict[str, Any], values: list[Any]) -> dict[str, Any] | None:
        """Return a schema of exactly these values, which all satisfy `part`."""
        if not values:
            return None
        kept = {keyword: value for keyword, value in part.items() if keyword in ANNOTATIONS or keyword.startswith("x-")}
        names = [name for name in KINDS if any(_is_kind(value, name) for value in values)]
        if "number" in names and "integer" in names:
            names.remove(
                "number" if all(_is_kind(v, "integer") for v in values if _is_kind(v, "number")) else "integer"
            )
        kept["type"] = names[0] if len(names) == 1 else names
        return self.without_wrong_default({**kept, "enum": values})

    def _constrain(self, part: Any, constraint: Constraint) -> dict[str, Any] | None:
        """Return `part` narrowed by one constraint on its value."""
        part = self._open(part)
        if part is None:
            return None
        for union in UNIONS:
            if isinstance(part.get(union), list) and "enum" not in part and "const" not in part:
                return self._distribute(part, union, lambda branch: self._constrain(branch, constraint))
        demand = Demand([(constraint,)], ())
        listed = self._listed(part, demand)
        if listed is not None:
            return self._choices(part, listed)
        expectation = constraint.expectation
        kinds = _kinds(part)
        if not constraint.accepts(None):
            kinds = [kind for kind in kinds if kind != "null"]
        if not constraint.is_negated:
            kinds = [kind for kind in kinds if kind in expectation.kinds or kind == "null"]
        result = _with_kinds(part, kinds)
        if result is None or not expectation.kinds.intersection(kinds):
            return result
        if not expectation.keywords:
            self.is_exact = False
            return result
        if constraint.is_negated:
            return _negate(result, kinds, expectation)
        if expectation.operator == NOT_ONE_OF:
            unwanted = [value for value in expectation.value if not constraint.accepts(value)]  # null may be accepted
            return _add_not(result, {"enum": unwanted}, kinds)
        for keyword, value in expectation.keywords.items():
            if _APPLIES_TO[keyword].intersection(kinds):
                result = _add(result, keyword, value)
        return result

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _open(self, part: Any) -> dict[str, Any] | None:
        """Return a part as an object without a reference; None for one that accepts nothing."""
        if part is False or part == NEVER:
            return None
        return {} if part is True else self.resolve(part)

    def without_wrong_default(self, part: dict[str, Any]) -> dict[str, Any]:
        """Return the part without a default, or examples, that it does not accept any more."""
        if "default" in part and not self.fits(part, part["default"]):
            part = {keyword: value for keyword, value in part.items() if keyword != "default"}
        if isinstance(part.get("examples"), list):
            kept = [value for value in part["examples"] if self.fits(part, value)]
            part = {keyword: value for keyword, value in part.items() if keyword != "examples"}
            part |= {"examples": kept} if kept else {}
        return part


_PLAIN: Final = ANNOTATIONS | {"type", "enum"}


def _lists_values(constraint: Constraint) -> bool:
    """Return whether only a few values satisfy the constraint, or null."""
    operator = constraint.expectation.operator
    lists = operator == NOT_ONE_OF if constraint.is_negated else operator in LISTING
    return lists and constraint.expectation.has_shown_values


def _is_kind(value: Any, kind: str) -> bool:
    found = errors.kind(value)
    if kind == "number":
        return found in ("integer", "number")
    return found == kind or (kind == "integer" and isinstance(value, float) and value.is_integer())


def _kinds(part: dict[str, Any]) -> list[str]:
    """Return the kinds of value that "type" allows; where there is none, all of them (integers are numbers)."""
    names = part.get("type")
    if isinstance(names, str):
        return [names]
    if isinstance(names, list):
        return [name for name in KINDS if name in names]
    return [kind for kind in KINDS if kind != "integer"]


def _with_kinds(part: dict[str, Any], kinds: list[str]) -> dict[str, Any] | None:
    """Return the part with these kinds of value; None when there are none."""
    if not kinds:
        return None
    if kinds == _kinds(part):
        return dict(part)
    return {**part, "type": kinds[0] if len(kinds) == 1 else kinds}


def _add(part: dict[str, Any], keyword: str, value: Any) -> dict[str, Any]:
    """Return the part with one more keyword: the tighter one of two bounds, and both patterns."""
    if keyword not in part:
        return {**part, keyword: value}
    if keyword in _TIGHTER:
        return {**part, keyword: _TIGHTER[keyword](part[keyword], value)}
    return part if part[keyword] == value else _also(part, {keyword: value})


def _add_not(part: dict[str, Any], unwanted: dict[str, Any], kinds: list[str]) -> dict[str, Any]:
    if "enum" in unwanted:
        values = [value for value in unwanted["enum"] if any(_is_kind(value, kind) for kind in kinds)]
        if not values:
            return part
        unwanted = {"enum": values}
    return {**part, "not": unwanted} if "not" not in part else _also(part, {"not": unwanted})


def _negate(part: dict[str, Any], kinds: list[str], expectation: Expectation) -> dict[str, Any]:
    """Return the part without the values of these kinds that satisfy the expectation."""
    applicable = expectation.kinds.intersection(kinds)
    opposite = expectation.complement
    if opposite is not None:
        for keyword, value in opposite.items():
            if _APPLIES_TO[keyword].intersection(kinds):
                part = _add(part, keyword, value)
        return part
    unwanted = dict(expectation.keywords)
    if expectation.kinds != frozenset(KINDS):
        names = sorted(applicable - {"integer"} if "number" in applicable else applicable)
        fitting = {keyword: value for keyword, value in unwanted.items() if _APPLIES_TO[keyword].intersection(names)}
        unwanted = {"type": names[0] if len(names) == 1 else names, **fitting}
    return _add_not(part, unwanted, kinds)


def _also(part: dict[str, Any], keywords: dict[str, Any]) -> dict[str, Any]:
    return {**part, "allOf": [*part.get("allOf", ()), keywords]}
