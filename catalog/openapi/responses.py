"""The successful answers of an operation: how the runner reads them, and the schema of a JSON object."""

from __future__ import annotations

from typing import Any

from catalog.openapi.bodies import is_json
from catalog.openapi.references import References
from catalog.openapi.schemas import Converter


def result_of(
    references: References, version: str, operation: dict[str, Any], method: str
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return (settings of the runner, output schema or None).

    The output schema exists where every successful answer is one JSON object.
    """
    if method == "head":
        return {"response": "text"}, None
    listed = operation.get("responses")
    responses = listed if isinstance(listed, dict) else {}
    bodies: list[dict[str, Any]] = []
    for status in responses:
        if status.startswith("2"):
            content = references.resolve(responses[status]).get("content")
            bodies.append(content if isinstance(content, dict) else {})
    types = [media_type for content in bodies for media_type in content]
    json_types = [media_type for media_type in types if is_json(media_type)]
    if not json_types:
        return {"response": _other(types)}, None
    settings: dict[str, Any] = {"response": "json"}
    if len(json_types) < len(types):
        settings["static_headers"] = {"Accept": json_types[0]}
    # Results are validated only where all successful answers share one schema.
    if len(bodies) != 1:
        return {**settings, "response": "auto"}, None
    holder = bodies[0][json_types[0]]
    value = holder.get("schema") if isinstance(holder, dict) else None
    if value is None:
        return settings, None
    converter = Converter(references, for_input=False, version=version)
    schema = converter.schema(value)
    if schema.get("type") != "object":
        return settings, None
    return settings, {**schema, "$defs": converter.definitions} if converter.definitions else schema


def _other(types: list[str]) -> str:
    for start, response in (("text/", "text"), ("image/", "image"), ("audio/", "audio")):
        if types and all(media_type.startswith(start) for media_type in types):
            return response
    return "auto"
