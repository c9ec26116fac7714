"""Fixed values: filled into the arguments, and gone from the schema that the client sees.

Pure. A fixed value belongs to an object whose members the schema names one by one. The client's form of that object
has no other members, so that no other spelling of the name reaches the tool; an object on the way that the client
leaves out is made, so that the tool never fills it in with a default of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Final

from catalog.conditions.constraints import NOTHING
from catalog.conditions.definitions import ITEMS, Condition, Steps, path_text
from catalog.conditions.mistakes import ConditionError
from catalog.conditions.narrowing import Narrowing
from catalog.conditions.original import UNIONS, Original
from catalog.schemas import errors
from catalog.schemas.errors import SchemaProblem

_NOT_PLAIN: Final = (
    "anyOf", "oneOf", "allOf", "not", "if", "dependentRequired", "dependentSchemas", "dependencies", "enum", "const",
    "patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedProperties",
)  # fmt: skip
_UNION_REST: Final = frozenset({"anyOf", "oneOf", "title", "description", "default", "examples", "$comment"})


class _Level:
    """An object, or a list, on the way to fixed values."""

    def __init__(self) -> None:
        self.part: dict[str, Any] = {}
        """Its schema, without a union or a reference."""
        self.members: dict[str | None, _Level] = {}
        self.values: dict[str, Any] = {}
        """Fixed values by name, at this very object."""
        self.known: tuple[str, ...] = ()
        """Names of the members that a client may send, where there are fixed values."""
        self.default: Any = NOTHING
        """Default that stands for a level that is left out."""
        self.must_be_sent = False
        """Whether a client has to send it, because the schema does not accept what would be filled in."""

    @property
    def is_made(self) -> bool:
        """Return whether it is filled in where it is left out: an object is, a list only from its default."""
        return not self.must_be_sent and (self.default is not NOTHING or ITEMS not in self.members)

    def make(self) -> Any:
        """Return what is filled in for it."""
        return self.fill({} if self.default is NOTHING else copy.deepcopy(self.default))

    def find_problem(self, sent: Any, path: tuple[str | int, ...]) -> SchemaProblem | None:
        """Return the problem of arguments as they were sent: a fixed value in them, or a wrong kind on the way."""
        if ITEMS in self.members:
            if not isinstance(sent, list):
                return errors.wrong_value(path, errors.expected_of("type", "array"), sent, secret=False)
            for number, item in enumerate(sent):
                found = self.members[ITEMS].find_problem(item, (*path, number))
                if found is not None:
                    return found
            return None
        if not isinstance(sent, dict):
            return errors.wrong_value(path, errors.expected_of("type", "object"), sent, secret=False)
        if self.values:
            for name in sent:
                if name not in self.known:
                    return errors.unknown_member(path, name, self.known)
        for step, level in self.members.items():
            assert step is not None  # noqa: S101
            if step not in sent and level.must_be_sent:
                return errors.missing_member(path, step)
            if step in sent:
                found = level.find_problem(sent[step], (*path, step))
                if found is not None:
                    return found
        return None

    def fill(self, value: Any) -> Any:
        """Return a value without problems with the fixed values filled in."""
        if ITEMS in self.members:
            return [self.members[ITEMS].fill(item) for item in value]
        filled = {**value, **copy.deepcopy(self.values)}
        for step, level in self.members.items():
            assert step is not None  # noqa: S101
            if step in filled:
                filled[step] = level.fill(filled[step])
            elif level.is_made:
                filled[step] = level.make()
        return filled


class FixedValues:
    """The fixed values of one alternative in one schema. Raises ConditionError where it has no place for one."""

    def __init__(self, fixed: Sequence[Condition], original: Original, *, fills_defaults: bool) -> None:
        self.fixed = tuple(fixed)
        self._original = original
        self._fills_defaults = fills_defaults
        self._top = _Level()
        for one in self.fixed:
            self._place(one)
        if self.fixed:
            self._settle(self._top)

    @property
    def narrowing(self) -> Narrowing:
        """Return the schema without the fixed values."""
        if not self.fixed:
            return Narrowing(self._original)
        return Narrowing(self._original, self._without(self._top))

    def find_problem(self, sent: dict[str, Any]) -> SchemaProblem | None:
        """Return the problem of arguments as they were sent, or None."""
        return self._top.find_problem(sent, ()) if self.fixed else None

    def fill(self, sent: dict[str, Any]) -> dict[str, Any]:
        """Return arguments without problems with the fixed values filled in; the given ones stay as they are."""
        filled: dict[str, Any] = self._top.fill(sent) if self.fixed else sent
        return filled

    def covering(self, steps: Steps) -> Condition | None:
        """Return the fixed value at this place or around it."""
        return next((one for one in self.fixed if steps[: len(one.steps)] == one.steps), None)

    def _place(self, one: Condition) -> None:
        part, level = self._original.schema, self._top
        for index, step in enumerate(one.steps):
            part = level.part = self._container(part, one.steps, index)
            if step is ITEMS:
                below = part.get("items")
            else:
                below = (part.get("properties") or {}).get(step)
            if not isinstance(below, dict):
                raise ConditionError("no_place", path=path_text(one.steps), at=path_text(one.steps[: index + 1]))
            if index + 1 < len(one.steps):
                level = level.members.setdefault(step, _Level())
                if self._fills_defaults and step is not ITEMS and self._is_default(below, one.steps[index + 1]):
                    level.default = below["default"]
                part = below
                continue
            assert step is not None  # noqa: S101
            if not self._original.fits(self._original.resolve(below), one.value):
                raise ConditionError("wrong_fixed", path=path_text(one.steps), value=one.operand[:100])
            self._check_plain(part, one)
            level.values[step] = one.value
            level.known = tuple(name for name in part["properties"] if name not in level.values)

    def _is_default(self, part: dict[str, Any], step: str | None) -> bool:
        kind = list if step is ITEMS else dict
        return isinstance(part.get("default"), kind) and self._original.fits(part, part["default"])

    def _container(self, part: dict[str, Any], steps: Steps, index: int) -> dict[str, Any]:
        """Return the part of the kind that the step needs: of a union, the only alternative of that kind."""
        kind = "array" if steps[index] is ITEMS else "object"
        part = self._original.resolve(part)
        for union in UNIONS:
            if union in part and part.keys() <= _UNION_REST:
                branches = [self._original.resolve(branch) for branch in part[union] if isinstance(branch, dict)]
                fitting = [branch for branch in branches if _may_be(branch, kind)]
                if len(fitting) == 1:
                    rest = {keyword: value for keyword, value in part.items() if keyword != union}
                    part = {**fitting[0], **rest}
        if not _may_be(part, kind):
            raise ConditionError("no_place", path=path_text(steps), at=path_text(steps[: index + 1]))
        if kind == "array" and (isinstance(part.get("items"), list) or "prefixItems" in part):
            raise ConditionError("not_plain", path=path_text(steps), keyword="prefixItems")
        return part

    def _check_plain(self, part: dict[str, Any], one: Condition) -> None:
        keyword: str | None = next((keyword for keyword in _NOT_PLAIN if keyword in part), None)
        if keyword is None and isinstance(part.get("additionalProperties"), dict):
            keyword = "additionalProperties"
        if keyword is not None:
            raise ConditionError("not_plain", path=path_text(one.steps), keyword=keyword)

    def _settle(self, level: _Level) -> None:
        """Find the levels that cannot be filled in. The innermost are first: what is made has them in it."""
        # Where the presence of a member matters to others, none may appear that the client did not send.
        is_plain = not any(keyword in level.part for keyword in _NOT_PLAIN)
        for step, below in level.members.items():
            self._settle(below)
            if step is not ITEMS and below.is_made:
                fits = self._original.fits(level.part["properties"][step], below.make())
                below.must_be_sent = not (is_plain and fits)

    def _without(self, level: _Level) -> dict[str, Any]:
        """Return the part that remains for the client."""
        part = level.part
        if ITEMS in level.members:
            return {**part, "type": "array", "items": self._without(level.members[ITEMS])}
        properties = {name: child for name, child in part["properties"].items() if name not in level.values}
        required = [name for name in part.get("required", ()) if name not in level.values]
        for name, below in level.members.items():
            assert name is not None  # noqa: S101
            if below.is_made:
                required = [one for one in required if one != name]
            elif below.must_be_sent and name not in required:
                required.append(name)
            properties[name] = self._without(below)
        result = {**part, "type": "object", "properties": properties, "required": required}
        if level.values:
            result["additionalProperties"] = False
        if not required:
            del result["required"]
        return Narrowing(self._original, result).without_wrong_default(result)


def _may_be(part: dict[str, Any], kind: str) -> bool:
    names = part.get("type")
    if names is None:
        return ("properties" if kind == "object" else "items") in part
    return kind in ([names] if isinstance(names, str) else names)


def remaining_required(schema: dict[str, Any], fixed: Iterable[Condition]) -> dict[str, Any]:
    """Return the schema in which nothing on the way to these places must be sent."""
    for one in fixed:
        schema = _unrequired(schema, one.steps)
    return schema


def _unrequired(part: Any, steps: Steps) -> Any:
    if not isinstance(part, dict) or not steps:
        return part
    step, rest = steps[0], steps[1:]
    if step is ITEMS:
        return {**part, "items": _unrequired(part["items"], rest)} if isinstance(part.get("items"), dict) else part
    result = dict(part)
    if step in part.get("required", ()):
        result["required"] = [name for name in part["required"] if name != step]
    if step in (part.get("properties") or {}):
        result["properties"] = {**part["properties"], step: _unrequired(part["properties"][step], rest)}
    return result
