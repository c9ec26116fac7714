"""Schemas of OpenAPI 3.0 and 3.1 as self-contained JSON Schema 2020-12.

References are expanded where that ends and stays small; self-references, and schemas that would grow too large, are
kept once under `$defs`. Keywords without meaning for a caller (xml, discriminator, x-...) are dropped: an allow list
names those that stay, so that no unknown keyword of a document reaches the hub.
"""

from __future__ import annotations

import re
from typing import Any

from django.utils.translation import gettext as _

from catalog.openapi.references import MAX_HOPS, OperationError, References
from toolhub.invisible import is_invisible

MAX_EXPANDED_SUBSCHEMAS = 300
"""Number of subschemas from which on references stay references."""
MAX_DEPTH = 40
MAX_SUBSCHEMAS = 2_500
MAX_TEXT_CHARACTERS = 1_000

MAPS = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SINGLE = frozenset({"not", "if", "then", "else", "items", "contains", "propertyNames", "additionalProperties"})
SINGLE |= {"unevaluatedItems", "unevaluatedProperties"}
PLAIN_KEYWORDS = frozenset(
    {"type", "enum", "const", "format", "default", "examples", "pattern", "required", "dependentRequired"}
)
PLAIN_KEYWORDS |= {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"}
PLAIN_KEYWORDS |= {
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
}
PLAIN_KEYWORDS |= {"deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"}
TEXTS = frozenset({"title", "description"})
UNSUPPORTED_KEYWORDS = frozenset(
    {"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$id", "$anchor"}
)


def plain_text(value: Any, max_characters: int = MAX_TEXT_CHARACTERS) -> str:
    """Return text from outside without invisible characters, limited in length."""
    if not isinstance(value, str):
        return ""
    text = "".join(character for character in value.replace("\r\n", "\n") if not is_invisible(character)).strip()
    return text if len(text) <= max_characters else text[: max_characters - 4].rstrip() + " ..."


class Converter:
    """A converter for the schemas of one tool's arguments, or of its result."""

    def __init__(self, references: References, *, for_input: bool, version: str) -> None:
        self._references = references
        self._for_input = for_input
        self._old = version.startswith("3.0")
        self._names: dict[str, str] = {}
        self._count = 0
        self.definitions: dict[str, Any] = {}

    def schema(self, value: Any) -> dict[str, Any]:
        """Return one schema, as an object. Raises OperationError."""
        made = self._convert(value, (), 0)
        return made if isinstance(made, dict) else {} if made else {"not": {}}

    def _convert(self, value: Any, stack: tuple[str, ...], depth: int) -> Any:
        self._count += 1
        self._references.spend()
        if self._count > MAX_SUBSCHEMAS:
            many = _("The schemas have more than %(most)s subschemas.")
            raise OperationError(many % {"most": f"{MAX_SUBSCHEMAS:,}"})
        if depth > MAX_DEPTH:
            raise OperationError(_("The schemas are more than %(most)d levels deep.") % {"most": MAX_DEPTH})
        if isinstance(value, bool):
            return value
        if not isinstance(value, dict):
            raise OperationError(_("A schema must be an object, true or false."))
        if "$ref" in value:
            return self._reference(value, stack, depth)
        return self._keywords(value, stack, depth)

    def _reference(self, value: dict[str, Any], stack: tuple[str, ...], depth: int) -> Any:
        reference = value["$ref"]
        target = self._references.target(reference)
        beside = {} if self._old else {key: part for key, part in value.items() if key != "$ref"}
        words = {key: plain_text(value[key]) for key in TEXTS if plain_text(value.get(key))}
        if reference in stack or len(stack) >= MAX_HOPS or self._count > MAX_EXPANDED_SUBSCHEMAS:
            made: Any = {"$ref": f"#/$defs/{self._define(reference, target)}"}
        else:
            made = self._convert(target, (*stack, reference), depth)
        constraints = {key: part for key, part in beside.items() if key not in TEXTS}
        more = self._keywords(constraints, stack, depth) if constraints else {}
        if isinstance(made, bool):
            return more or made
        if more.keys() - {"default", "examples", "deprecated", "readOnly", "writeOnly"}:
            return (
                {**words, "allOf": [made], **more}
                if "allOf" not in more
                else {**words, **more, "allOf": [made, *more["allOf"]]}
            )
        return {**made, **more, **words}

    def _define(self, reference: str, target: Any) -> str:
        name = self._names.get(reference)
        if name is None:
            name = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.rpartition("/")[2])[:80] or "schema"
            while name in self.definitions:
                name += "_"
            self._names[reference] = name
            self.definitions[name] = True  # reserved before its content refers to it
            self.definitions[name] = self._convert(target, (reference,), 1)
        return name

    def _keywords(self, value: dict[str, Any], stack: tuple[str, ...], depth: int) -> dict[str, Any]:
        unsupported = UNSUPPORTED_KEYWORDS & value.keys()
        if unsupported:
            raise OperationError(_('"%(keyword)s" is not supported in a schema.') % {"keyword": min(unsupported)})
        made: dict[str, Any] = {}
        for key, part in value.items():
            if key in TEXTS:
                if text := plain_text(part):
                    made[key] = text
            elif key in MAPS and isinstance(part, dict):
                made[key] = {
                    name: self._convert(child, stack, depth + 1)
                    for name, child in part.items()
                    if not (key == "properties" and self._is_other_direction(child))
                }
            elif key in LISTS and isinstance(part, list):
                made[key] = [self._convert(child, stack, depth + 1) for child in part]
            elif key in SINGLE:
                made[key] = self._convert(part, stack, depth + 1)
            elif key in PLAIN_KEYWORDS:
                made[key] = part
        if isinstance(value.get("example"), (str, int, float, list, dict)) and "examples" not in made:
            made["examples"] = [value["example"]]
        if not isinstance(made.get("examples", []), list):
            del made["examples"]
        self._set_required(value, made)
        return _modernize(made, value) if self._old else made

    def _is_other_direction(self, child: Any) -> bool:
        """Return whether a property belongs to the other direction: readOnly in an input, writeOnly in an output."""
        try:
            child = self._references.resolve(child) if isinstance(child, dict) else {}
        except OperationError:
            return False  # the conversion reports it
        return child.get("readOnly" if self._for_input else "writeOnly") is True

    def _set_required(self, value: dict[str, Any], made: dict[str, Any]) -> None:
        if "required" not in made:
            return
        declared = value.get("properties")
        excluded = set(declared) - set(made.get("properties", {})) if isinstance(declared, dict) else set()
        names = made["required"] if isinstance(made["required"], list) else []
        made["required"] = [name for name in dict.fromkeys(filter(_is_text, names)) if name not in excluded]
        if not made["required"]:
            del made["required"]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _modernize(made: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Convert 3.0 spellings: nullable, and bounds that a flag makes exclusive."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(made.get(exclusive), bool) and made.pop(exclusive) and bound in made:
            made[exclusive] = made.pop(bound)
    if old.get("nullable") is not True:
        return made
    if isinstance(made.get("enum"), list) and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    if isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
        return made
    if "enum" in made:
        return made
    words: dict[str, Any] = {
        key: made.pop(key) for key in ("title", "description", "default", "deprecated") if key in made
    }
    return {**words, "anyOf": [made, {"type": "null"}]} if made else {**words}
