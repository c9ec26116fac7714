"""Random schemas, conditions and arguments, small enough to meet each other often."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from catalog.conditions import definitions, mistakes
from catalog.conditions.definitions import Condition
from catalog.schemas import defaults

NAMES = ("a", "b", "c")
TEXTS = ("x", "xy", "y", "", "a.b", "7")
SCALARS = (*TEXTS, 0, 1, 2, 7, -1, 1.5, 1.0, True, False, None)
LISTS = {"few": ("x", "y", "7"), "many": (*tuple(f"v{number}" for number in range(600)), "x"), "none": ()}


@st.composite
def scalar_schemas(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(
        st.sampled_from(["string", "integer", "number", "boolean", "any", "enum", "const", "nullable", "mixed"])
    )
    part: dict[str, Any] = {}
    match kind:
        case "string":
            part = {"type": "string"}
            if draw(st.booleans()):
                part |= draw(
                    st.sampled_from([{"minLength": 1}, {"maxLength": 2}, {"pattern": "x"}, {"not": {"enum": ["y"]}}])
                )
        case "integer" | "number":
            part = {"type": kind}
            if draw(st.booleans()):
                part |= draw(st.sampled_from([{"minimum": 0}, {"maximum": 2}, {"exclusiveMinimum": 0, "maximum": 7}]))
        case "boolean":
            part = {"type": "boolean"}
        case "enum":
            part = {"enum": draw(st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4, unique_by=repr))}
        case "const":
            part = {"const": draw(st.sampled_from(SCALARS))}
        case "nullable":
            part = {"type": draw(st.sampled_from([["string", "null"], ["integer", "null"], ["string", "integer"]]))}
        case "mixed":
            union = draw(st.sampled_from(["anyOf", "oneOf", "allOf"]))
            part = {union: draw(st.lists(scalar_schemas(), min_size=1, max_size=2))}
    if draw(st.integers(0, 4)) == 0:
        part["default"] = draw(st.sampled_from(SCALARS))
    if draw(st.integers(0, 4)) == 0:
        part["description"] = "words"
    return part


@st.composite
def parts(draw: st.DrawFn, depth: int) -> Any:
    kind = draw(st.sampled_from(["scalar"] * 3 + ["object", "array", "optional", "reference", "true"]))
    if depth == 0 or kind == "scalar":
        return draw(scalar_schemas())
    match kind:
        case "object":
            return draw(object_schemas(depth - 1))
        case "array":
            part: dict[str, Any] = {"type": "array", "items": draw(parts(depth - 1))}
            if draw(st.integers(0, 5)) == 0:
                part["prefixItems"] = [draw(parts(0))]
            if draw(st.integers(0, 5)) == 0:
                part["default"] = draw(st.lists(st.sampled_from(SCALARS), max_size=2))
            return part
        case "optional":
            union = draw(st.sampled_from(["anyOf", "oneOf"]))
            found = {union: [draw(parts(depth - 1)), {"type": "null"}]}
            return {**found, "default": None} if draw(st.booleans()) else found
        case "reference":
            return {"$ref": draw(st.sampled_from(["#/$defs/A", "#/$defs/B", "#/properties/a"]))}
    return True


@st.composite
def object_schemas(draw: st.DrawFn, depth: int) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=3))
    part: dict[str, Any] = {"type": "object", "properties": {name: draw(parts(depth)) for name in names}}
    required = [name for name in names if draw(st.integers(0, 2)) == 0]
    if required:
        part["required"] = required
    closed = draw(st.sampled_from(["open", "open", "closed", "closed", "true", "schema", "patterns", "count", "pair"]))
    match closed:
        case "closed":
            part["additionalProperties"] = False
        case "true":
            part["additionalProperties"] = True
        case "schema":
            part["additionalProperties"] = draw(scalar_schemas())
        case "patterns":
            part |= {"patternProperties": {"^b": draw(scalar_schemas())}, "additionalProperties": False}
        case "count":
            part["minProperties"] = 1
        case "pair":
            part["dependentRequired"] = {"a": ["b"]}
    if draw(st.integers(0, 4)) == 0:
        part["default"] = {}
    return part


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A tool's schema: an object with properties, and definitions that its parts may refer to."""
    root = draw(object_schemas(2))
    root.pop("default", None)
    root["properties"].setdefault("a", draw(parts(1)))
    if draw(st.integers(0, 7)) == 0:
        root["anyOf"] = [{"required": ["a"]}, {"properties": {"c": draw(parts(0))}}]
    root["$defs"] = {"A": draw(object_schemas(0)), "B": draw(scalar_schemas())}
    return root


def places(part: Any, root: dict[str, Any], depth: int = 3) -> list[tuple[str, Any]]:
    """Return the JSON pointers of arguments below this part, each with its schema."""
    if not isinstance(part, dict) or depth == 0:
        return []
    if "$ref" in part:
        return places(_target(part["$ref"], root), root, depth)
    found = []
    steps = [(name, child) for name, child in part.get("properties", {}).items()]
    steps += [("*", part["items"])] if "items" in part else []
    for name, child in steps:
        found.append((f"/{name}", child))
        found += [(f"/{name}{rest}", inner) for rest, inner in places(child, root, depth - 1)]
    for union in ("anyOf", "oneOf"):
        for branch in part.get(union, ()):
            found += places(branch, root, depth)
    return found


def _target(reference: str, root: dict[str, Any]) -> Any:
    target: Any = root
    for step in reference[2:].split("/"):
        target = target[step]
    return target


@st.composite
def paths(draw: st.DrawFn, schema: dict[str, Any]) -> str:
    """A path, that is one of the schema in most cases."""
    known = [place for place, _ in places(schema, schema)]
    if known and draw(st.integers(0, 7)) > 0:
        return draw(st.sampled_from(known))
    steps = [draw(st.sampled_from(NAMES))]
    while len(steps) < 3 and draw(st.integers(0, 2)) == 0:
        steps.append(draw(st.sampled_from([*NAMES, "*"])))
    return "/" + "/".join(steps)


@st.composite
def conditions(
    draw: st.DrawFn, schema: dict[str, Any], *, with_fixed: bool = True, with_only: bool = True
) -> Condition | None:
    """A condition; None where the drawn one is a mistake."""
    if with_only and draw(st.integers(0, 5)) == 0:
        names = draw(st.lists(st.sampled_from([*NAMES, *NAMES, "other"]), unique=True, max_size=4))
        return definitions.parse([{"path": "", "op": "only", "names": names}])[0]
    operators = [name for name in definitions.OPERATORS if name != "only" and (with_fixed or name != "fixed")]
    path = draw(paths(schema))
    part = next((part for place, part in places(schema, schema) if place == path), None)
    kinds = str(part.get("type") if isinstance(part, dict) else "")
    if "integer" in kinds or "number" in kinds:
        operators += ["range"] * 4
    elif "string" in kinds:
        operators += ["pattern", "prefix", "length", "one_of"]
    operator = draw(st.sampled_from(operators))
    data: dict[str, Any] = {"path": path, "op": operator}
    match operator:
        case "equals":
            data["value"] = draw(st.one_of(st.sampled_from(SCALARS), structures(part, schema)))
        case "fixed":
            data["value"] = draw(st.one_of(st.sampled_from(SCALARS), structures(part, schema)))
        case "one_of" | "not_one_of":
            data["values"] = draw(st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4))
        case "pattern":
            data["pattern"] = draw(st.sampled_from(["x", "^x$", "^.$", "[0-9]"]))
        case "prefix":
            data["prefix"] = draw(st.sampled_from(["x", "a.", "xy"]))
        case "belongs_to":
            data["list"] = draw(st.sampled_from(list(LISTS)))
        case "range":
            data |= draw(st.sampled_from([
                {"minimum": 1}, {"maximum": 1}, {"minimum": 0, "maximum": 2}, {"exclusiveMinimum": 0},
                {"exclusiveMaximum": 2}, {"exclusiveMinimum": 0, "maximum": 1.5},
            ]))  # fmt: skip
        case "length":
            data |= draw(
                st.sampled_from([{"minimum": 1}, {"maximum": 1}, {"minimum": 1, "maximum": 1}, {"maximum": 0}])
            )
    if operator != "fixed" and draw(st.booleans()):
        data["optional"] = True
    try:
        return definitions.parse([data])[0]
    except mistakes.ConditionError:
        return None


@st.composite
def structures(draw: st.DrawFn, part: Any, root: dict[str, Any]) -> Any:
    """A list or an object that often fits this part of a schema, or is what its defaults fill in."""
    found = draw(values(part, root))
    if isinstance(found, dict) and isinstance(part, dict):
        fill = defaults.compile_fill({**part, "$defs": root["$defs"]}) or dict
        return fill(found) if draw(st.booleans()) else dict(reversed(found.items()))
    return found if isinstance(found, list) else draw(st.sampled_from([{}, [], {"a": "x"}, {"a": 1.0}, [True], [None]]))


@st.composite
def values(draw: st.DrawFn, part: Any, root: dict[str, Any], depth: int = 4) -> Any:
    """A value that often fits this part of a schema."""
    if not isinstance(part, dict) or depth == 0 or draw(st.integers(0, 11)) == 0:
        return draw(st.one_of(st.sampled_from(SCALARS), st.just([]), st.just({}), st.just({"a": "x"}), st.just(["x"])))
    if "$ref" in part:
        return draw(values(_target(part["$ref"], root), root, depth - 1))
    for union in ("anyOf", "oneOf", "allOf"):
        if union in part and "type" not in part:
            return draw(values(draw(st.sampled_from(part[union])), root, depth - 1))
    if "enum" in part:
        return draw(st.sampled_from(part["enum"]))
    if "const" in part:
        return part["const"]
    match part.get("type"):
        case "object":
            return draw(objects(part, root, depth))
        case "array":
            return draw(st.lists(values(part.get("items"), root, depth - 1), max_size=3))
        case "string":
            return draw(st.sampled_from(TEXTS))
        case "integer" | "number":
            return draw(st.sampled_from([0, 1, 2, 7, -1, 1.0, 1.5]))
        case "boolean":
            return draw(st.booleans())
    return draw(st.sampled_from(SCALARS))


@st.composite
def objects(draw: st.DrawFn, part: dict[str, Any], root: dict[str, Any], depth: int = 4) -> dict[str, Any]:
    found = {}
    for name, child in part.get("properties", {}).items():
        if name in part.get("required", ()) or draw(st.integers(0, 2)) > 0:
            found[name] = draw(values(child, root, depth - 1))
    if draw(st.integers(0, 5)) == 0:
        found[draw(st.sampled_from([*NAMES, "A", "other"]))] = draw(st.sampled_from(SCALARS))
    return found
