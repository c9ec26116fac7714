"""The bodies of an operation.

The members of a plain object that is sent become arguments, any other body is one argument. Of the successful answers:
how the runner reads them, and the schema of a JSON object.
"""

from __future__ import annotations

from typing import Any

from django.utils.translation import gettext as _

from catalog.openapi.parameters import Inputs
from catalog.openapi.references import OperationError, References
from catalog.openapi.schemas import Converter, plain_text

FORMS = {"application/x-www-form-urlencoded": "form", "multipart/form-data": "multipart"}
COMBINING_KEYWORDS = frozenset(
    {"allOf", "anyOf", "oneOf", "not", "if", "$ref", "patternProperties", "dependentSchemas"}
)
BODY_METHODS = frozenset({"post", "put", "patch", "delete"})


def is_json(media_type: str) -> bool:
    plain = media_type.partition(";")[0].strip().lower()
    return plain == "application/json" or (plain.startswith("application/") and plain.endswith("+json"))


def add_body(inputs: Inputs, method: str, operation: dict[str, Any]) -> None:
    if "requestBody" not in operation:
        return
    body = inputs.references.resolve(operation["requestBody"])
    required = body.get("required") is True
    if method not in BODY_METHODS:
        inputs.notes.append(
            _("Left out: the body, because %(method)s requests cannot have one.") % {"method": method.upper()}
        )
        return
    content = body.get("content")
    content = content if isinstance(content, dict) else {}
    chosen = _choose(content)
    if chosen is None:
        if content and required:
            unknown = _("The body type %(type)s is not supported.")
            raise OperationError(unknown % {"type": plain_text(next(iter(content)), 100)})
        return
    media_type, form = chosen
    holder = content[media_type]
    value = holder.get("schema", {}) if isinstance(holder, dict) else {}
    if form == "multipart":
        _add_multipart(inputs, value, required=required)
        return
    if form in {"json", "form"}:
        schema = inputs.converter.schema(value)
        if _is_plain_object(schema):
            inputs.settings |= {"body": _add_members(inputs, schema, required=required), "body_format": form}
            if form == "json" and media_type != "application/json":
                inputs.settings["content_type"] = media_type
            return
        if form == "form":
            raise OperationError(_("The schema of the form body is not a plain object."))
    else:
        schema = {"type": "string"}
        if form == "base64":
            schema |= {"contentEncoding": "base64", "description": f"The content, {media_type}, as Base64."}
    if text := plain_text(body.get("description")):
        schema = {**schema, "description": text}
    inputs.settings |= {"body_argument": inputs.add("body", "body", schema, required=required), "body_format": form}
    if media_type not in ("application/json", "text/plain"):
        inputs.settings["content_type"] = media_type


def _choose(content: dict[str, Any]) -> tuple[str, str] | None:
    """Return the first supported media type, in the order of reliability with models, or None."""
    for media_type in content:
        if is_json(media_type):
            return media_type, "json"
    for wanted, form in FORMS.items():
        for media_type in content:
            if media_type.partition(";")[0].strip().lower() == wanted:
                return media_type, form
    for media_type in content:
        if media_type.startswith("text/") and "*" not in media_type:
            return media_type, "text"
    for media_type in content:
        if media_type == "application/octet-stream" or media_type.startswith(("image/", "audio/", "video/")):
            return media_type if "*" not in media_type else "application/octet-stream", "base64"
    return None


def _is_plain_object(schema: dict[str, Any]) -> bool:
    return (
        schema.get("type") == "object"
        and isinstance(schema.get("properties"), dict)
        and bool(schema["properties"])
        and not COMBINING_KEYWORDS & schema.keys()
        and not isinstance(schema.get("additionalProperties"), dict)
    )


def _add_members(inputs: Inputs, schema: dict[str, Any], *, required: bool, skip: frozenset[str] = frozenset()) -> Any:
    needed = schema.get("required", []) if required else []
    if not required and schema.get("required"):
        names = ", ".join(schema["required"])
        note = _("The body is optional. If it is sent, it needs %(names)s.")
        inputs.notes.append(note % {"names": plain_text(names, 300)})
    return {
        name: inputs.add(name, "body", part if isinstance(part, dict) else {}, required=name in needed)
        for name, part in schema["properties"].items()
        if name not in skip
    }


def _add_multipart(inputs: Inputs, value: Any, *, required: bool) -> None:
    schema = inputs.converter.schema(value)
    if not _is_plain_object(schema):
        raise OperationError(_("The schema of the form body is not a plain object."))
    files: dict[str, Any] = {}
    needed = schema.get("required", []) if required else []
    for name, part in schema["properties"].items():
        kind = _file_type(part)
        if kind is None:
            continue
        description = plain_text(part.get("description")) if isinstance(part, dict) else ""
        described = {
            "type": "string",
            "contentEncoding": "base64",
            "description": f"{description} The content as Base64.".strip(),
        }
        argument = inputs.add(name, "body", described, required=name in needed)
        files[name] = {"argument": argument, "content_type": kind, "filename": "file"}
    members = _add_members(inputs, schema, required=required, skip=frozenset(files))
    inputs.settings |= {"body": members, "body_format": "multipart"}
    if files:
        inputs.settings["files"] = files


def _file_type(part: Any) -> str | None:
    """Return the MIME type when the part is a file, else None."""
    if not isinstance(part, dict):
        return None
    kinds = part.get("type")
    if kinds == "array":
        items = part.get("items")
        if isinstance(items, dict) and _file_type(items) is not None:
            raise OperationError(_("The body contains a list of files, which is not supported."))
        return None
    media_type = part.get("contentMediaType")
    if part.get("format") == "binary" or (isinstance(media_type, str) and "contentEncoding" not in part):
        return media_type if isinstance(media_type, str) and "/" in media_type else "application/octet-stream"
    return None


def result_of(
    references: References, version: str, operation: dict[str, Any], method: str
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return (settings of the runner, output schema or None).

    The output schema exists where every successful answer is JSON of one schema.
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
    if not schema:
        return settings, None  # anything at all: there is nothing to promise
    return settings, {**schema, "$defs": converter.definitions} if converter.definitions else schema


def _other(types: list[str]) -> str:
    for start, response in (("text/", "text"), ("image/", "image"), ("audio/", "audio")):
        if types and all(media_type.startswith(start) for media_type in types):
            return response
    return "auto"
