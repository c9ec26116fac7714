"""Proposed tools from an OpenAPI document: one for each operation, or a sentence with the reason against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from catalog.models.validators import runner_settings
from catalog.openapi import names, security, servers
from catalog.openapi.bodies import add_body, result_of
from catalog.openapi.parameters import Inputs, add_parameters
from catalog.openapi.references import OperationError, References
from catalog.schemas import validator


def check_schema(schema: dict[str, Any], sentence: str, check: Callable[[Any], None] = validator.check) -> None:
    """Raise OperationError for an unusable schema; `sentence` names the schema and has a place for %(why)s."""
    try:
        check(schema)
    except ValidationError as error:
        raise OperationError(sentence % {"why": error.messages[0]}) from None
    except RecursionError:
        raise OperationError(sentence % {"why": _("It is nested too deeply.")}) from None


METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
MAX_OPERATIONS = 900
"""Each operation is a field on the selection page, and Django accepts a thousand fields."""
HINTS: dict[str, dict[str, bool]] = {
    "get": {"readOnlyHint": True, "idempotentHint": True},
    "head": {"readOnlyHint": True, "idempotentHint": True},
    "options": {"readOnlyHint": True, "idempotentHint": True},
    "put": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
    "delete": {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": True},
    "post": {"readOnlyHint": False},
    "patch": {"readOnlyHint": False},
}
"""Hints by HTTP method. A method does not tell whether a POST or PATCH is destructive: undeclared counts as yes."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The administrator's choices for the whole document."""

    server: str = ""
    prefix: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """{security scheme: name of its secret}."""
    outputs: bool = True
    """Whether results are validated against the document's schemas."""


@dataclass(slots=True)
class Proposal:
    key: str
    """The key in the document, such as "GET /pets/{petId}"."""
    name: str
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    output_schema: dict[str, Any] | None = None
    annotations: dict[str, bool] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    missing: security.Missing = None
    """The security schemes that need a secret first; None where requests have the credentials that they need."""
    problem: str = ""
    """The reason why it cannot be imported; "" when it can."""
    over_limit: bool = False
    """Whether it comes after the maximum number of operations imported from one document."""

    def definition(self) -> dict[str, Any]:
        """Return the definition in the shape that `catalog.quarantine` pins; `name` is the key in the document."""
        return {
            "name": self.key,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input_schema,
            "outputSchema": self.output_schema,
            "annotations": dict(self.annotations),
            "settings": self.settings,
        }


def build_proposals(document: dict[str, Any], choices: Choices, source: str = "") -> list[Proposal]:
    """Return all operations as proposals, in the order of the document."""
    references = References(document)
    base = choices.server or next(iter(servers.list_urls(document, source)), "")
    found: list[Proposal] = []
    seen: dict[str, str] = {}
    for key, method, path, item, operation in _operations(document, references):
        proposal = Proposal(key, choices.prefix + names.tool_name(operation, method, path))
        try:
            proposal.over_limit = len(found) >= MAX_OPERATIONS
            if proposal.over_limit:
                first = _("Only the first %(most)s operations of a document can be imported. Split the document.")
                raise OperationError(first % {"most": f"{MAX_OPERATIONS:,}"})
            _fill(proposal, document, references, (method, path, item, operation), base, choices, source)
        except OperationError as refused:
            proposal.problem = str(refused)
        except RecursionError:
            proposal.problem = _("It is nested too deeply.")
        _make_unique(proposal, seen)
        found.append(proposal)
    return found


def _operations(
    document: dict[str, Any], references: References
) -> Iterator[tuple[str, str, str, dict[str, Any], dict[str, Any]]]:
    for path, value in document["paths"].items():
        if path.startswith("x-"):
            continue
        try:
            item = references.resolve(value)
        except OperationError as refused:
            # Nothing but the existence of this path is known.
            yield f"GET {path}", "get", path, {"$problem": str(refused)}, {}
            continue
        for method in METHODS:
            if method in item:
                operation = item[method]
                yield f"{method.upper()} {path}", method, path, item, operation if isinstance(operation, dict) else {}


def _fill(
    proposal: Proposal,
    document: dict[str, Any],
    references: References,
    where: tuple[str, str, dict[str, Any], dict[str, Any]],
    base: str,
    choices: Choices,
    source: str,
) -> None:
    method, path, item, operation = where
    if "$problem" in item:
        raise OperationError(str(item["$problem"]))
    if method == "trace":
        raise OperationError(_("Tools cannot send TRACE requests."))
    if operation.get("deprecated") is True:
        proposal.notes.append(_("The document marks this operation as deprecated."))
    proposal.title = names.title(operation)
    proposal.description = names.description(operation, method, path)
    proposal.annotations = {**HINTS[method], "openWorldHint": True}
    version = str(document["openapi"])
    inputs = Inputs(references, version, proposal.notes)
    add_parameters(inputs, path, item, operation)
    add_body(inputs, method, operation)
    proposal.input_schema = inputs.schema()
    check_schema(proposal.input_schema, _("The schema of the arguments: %(why)s"))
    if wrong := validator.drop_wrong_defaults(proposal.input_schema):
        places = ", ".join(pointer.removeprefix("/properties/") for pointer in wrong)[:300]
        note = _("Left out the defaults that do not fit their own schema: %(places)s.")
        proposal.notes.append(note % {"places": places})
    settings = {
        "method": method.upper(),
        "url": servers.choose_url(document, item, operation, base, source) + inputs.path,
    }
    settings |= inputs.settings
    answer, proposal.output_schema = result_of(references, version, operation, method)
    if proposal.output_schema is not None:
        check_schema(proposal.output_schema, _("The schema of the result: %(why)s"), validator.check_result)
        if not choices.outputs:
            proposal.output_schema = None
    settings |= answer
    proposal.missing = security.add(settings, document, references, operation, choices.secrets, proposal.notes)
    problem = runner_settings("http_api", settings)
    if problem:
        raise OperationError(_("The settings of the tool: %(why)s.") % {"why": next(iter(problem.values()))})
    proposal.settings = settings


def _make_unique(proposal: Proposal, seen: dict[str, str]) -> None:
    name, number = proposal.name[: names.MAX_NAME_CHARACTERS], 2
    while name.lower() in seen:
        tail = f"_{number}"
        name, number = proposal.name[: names.MAX_NAME_CHARACTERS - len(tail)] + tail, number + 1
    if name != proposal.name and proposal.name.lower() in seen:
        taken = _("%(operation)s already uses the name %(name)s.")
        proposal.notes.append(taken % {"operation": seen[proposal.name.lower()], "name": proposal.name})
    seen[name.lower()] = proposal.key
    proposal.name = name
