"""Questions to the client, and the parsing of its answers: elicitation (form, URL), sampling, roots."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from catalog.errors import ClientLacks
from catalog.functions.channel import Question
from catalog.functions.content import Message, Text
from catalog.functions.results import dump
from catalog.schemas import validator

FORM_TYPES = frozenset({"string", "number", "integer", "boolean", "array"})


class BadAnswer(ValueError):
    """An answer of the client that does not match the question; the message says why."""


@dataclass(slots=True)
class Elicited:
    """The response of the person: accept (with `content`), decline or cancel."""

    action: str
    content: dict[str, Any] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


@dataclass(slots=True)
class Sampled:
    """The completion by the client's model."""

    role: str
    content: list[dict[str, Any]]
    model: str
    stop_reason: str | None

    @property
    def text(self) -> str:
        return "".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")


@dataclass(slots=True)
class Root:
    uri: str
    name: str = ""


@dataclass(slots=True)
class Elicit:
    """A form for the person: a message and a flat JSON Schema (or a pydantic model of plain fields)."""

    message: str
    schema: Mapping[str, Any] | type[BaseModel]

    kind = "elicit"

    def request(self, capabilities: Mapping[str, Any], handshake: bool) -> Question:
        modes = _declared(capabilities, "elicitation")
        if modes and "form" not in modes:
            raise ClientLacks("elicitation.form")
        return "elicitation/create", {"message": self.message, "requestedSchema": self.requested()}

    def requested(self) -> dict[str, Any]:
        schema = self.schema.model_json_schema() if isinstance(self.schema, type) else dict(self.schema)
        properties = schema.get("properties")
        if schema.get("type") != "object" or not isinstance(properties, dict):
            raise TypeError("what is elicited must be an object schema with properties")
        for name, entry in properties.items():
            if not isinstance(entry, dict) or entry.get("type") not in FORM_TYPES:
                raise TypeError(
                    f"elicited field {name!r} must be a string, number, integer, boolean or list of choices"
                )
        return {key: value for key, value in schema.items() if key in {"type", "properties", "required", "$schema"}}

    def parse(self, result: Any) -> Elicited:
        action = _action(result)
        if action != "accept":
            return Elicited(action)
        content = result.get("content")
        if not isinstance(content, dict):
            raise BadAnswer("content must be an object")
        schema = self.requested()
        digest = hashlib.sha256(dump(schema).encode()).hexdigest()
        problem = validator.validator(f"elicit:{digest}", schema)(content)
        if problem:
            raise BadAnswer(str(problem))
        return Elicited(action, content)


@dataclass(slots=True)
class ElicitUrl:
    """An address for the person to open, for data that must not pass through the client (keys, consent)."""

    message: str
    url: str

    kind = "elicit_url"

    def request(self, capabilities: Mapping[str, Any], handshake: bool) -> Question:
        if "url" not in _declared(capabilities, "elicitation"):
            raise ClientLacks("elicitation.url")
        params = {"mode": "url", "message": self.message, "url": self.url}
        # The handshake revisions tie the later "complete" notification to an id; from 2026-07-28 on there is none.
        return "elicitation/create", params | ({"elicitationId": str(uuid4())} if handshake else {})

    def parse(self, result: Any) -> Elicited:
        return Elicited(_action(result))


@dataclass(slots=True)
class Sample:
    """A request for a completion by the client's own model. `options` are further members of sampling/createMessage."""

    messages: str | Sequence[Message | str | Mapping[str, Any]]
    max_tokens: int = 1000
    system_prompt: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    kind = "sample"

    def request(self, capabilities: Mapping[str, Any], handshake: bool) -> Question:
        _declared(capabilities, "sampling")
        given = [self.messages] if isinstance(self.messages, str) else self.messages
        params: dict[str, Any] = {"messages": [_message(item) for item in given], "maxTokens": self.max_tokens}
        if self.system_prompt:
            params["systemPrompt"] = self.system_prompt
        return "sampling/createMessage", params | dict(self.options)

    def parse(self, result: Any) -> Sampled:
        if not isinstance(result, dict):
            raise BadAnswer("a sampling result must be an object")
        content = result.get("content")
        blocks: list[Any] = content if isinstance(content, list) else [content]
        if not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
            raise BadAnswer("content must be a content block or a list of them")
        stop = result.get("stopReason")
        return Sampled(
            str(result.get("role", "assistant")),
            blocks,
            str(result.get("model", "")),
            stop if isinstance(stop, str) else None,
        )


@dataclass(slots=True)
class Roots:
    """A request for the folders or addresses that the client works in."""

    kind = "roots"

    def request(self, capabilities: Mapping[str, Any], handshake: bool) -> Question:
        _declared(capabilities, "roots")
        return "roots/list", {}

    def parse(self, result: Any) -> list[Root]:
        roots = result.get("roots") if isinstance(result, dict) else None
        if not isinstance(roots, list):
            raise BadAnswer("roots must be a list")
        found = []
        for entry in roots:
            if not isinstance(entry, dict) or not isinstance(entry.get("uri"), str):
                raise BadAnswer("every root must have a uri")
            found.append(Root(entry["uri"], str(entry.get("name") or "")))
        return found


Ask = Elicit | ElicitUrl | Sample | Roots
Answer = Elicited | Sampled | list[Root]


def _declared(capabilities: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    declared = capabilities.get(name)
    if declared is None:
        raise ClientLacks(name)
    return declared if isinstance(declared, Mapping) else {}


def _action(result: Any) -> str:
    action = result.get("action") if isinstance(result, dict) else None
    if action not in ("accept", "decline", "cancel"):
        raise BadAnswer("action must be accept, decline or cancel")
    return str(action)


def _message(item: Message | str | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(item, str):
        return {"role": "user", "content": Text(item).wire()}
    return item.wire() if isinstance(item, Message) else dict(item)
