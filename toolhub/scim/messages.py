"""Requests as data: JSON objects whose names are in any case, PATCH operations and their paths (RFC 7644, 3.5.2)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from toolhub.scim import errors, filters
from toolhub.scim.errors import ScimError, invalid
from toolhub.scim.models import MAX_TEXT_CHARACTERS

PATCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
MAX_OPERATIONS = 1_000
MAX_PATH_CHARACTERS = 500
OPERATIONS = ("add", "replace", "remove")
_PATH = re.compile(r"(?:(urn:[^\[\]\"]*):)?([A-Za-z$][\w$-]*)(?:\[(.*)\])?(?:\.([A-Za-z$][\w$-]*))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Path:
    """What an operation is about: `emails[type eq "work"].value`. Names are in lower case."""

    attribute: str
    """"" for all attributes of an extension."""
    schema: str = ""
    """The schema that the path names, if it names one."""
    condition: tuple[filters.Comparison, ...] = ()
    sub: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    op: str
    path: Path
    value: Any
    """None for "remove" without a value."""
    explicit: bool
    """Whether the client wrote the path, rather than an object with many attributes."""


def parse_path(text: str) -> Path:
    """Return a path. Raises ScimError."""
    if len(text) > MAX_PATH_CHARACTERS:
        raise invalid(f"A path has at most {MAX_PATH_CHARACTERS} characters.", errors.INVALID_PATH)
    found = _PATH.fullmatch(text.strip())
    if found is None:
        raise invalid("The path of an operation cannot be read.", errors.INVALID_PATH)
    schema, attribute, condition, sub = found.groups()
    return Path(
        attribute=attribute.lower(),
        schema=(schema or "").lower(),
        condition=filters.parse(condition) if condition is not None else (),
        sub=(sub or "").lower(),
    )


def parse_operations(body: dict[str, Any]) -> Iterator[Operation]:
    """Yield the operations of a PATCH request; one without a path is several. Raises ScimError."""
    check_schema(body, PATCH_SCHEMA)
    listed = body.get("operations")
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_OPERATIONS:
        raise invalid(f"Operations must be a list of 1 to {MAX_OPERATIONS} operations.", errors.INVALID_SYNTAX)
    for one in listed:
        given = read_object(one, "An operation")
        op = given.get("op")
        if not isinstance(op, str) or op.lower() not in OPERATIONS:
            raise invalid("op must be add, replace or remove.", errors.INVALID_SYNTAX)
        path, value = given.get("path"), given.get("value")
        if isinstance(path, str) and path.strip():
            yield Operation(op.lower(), parse_path(path), value, explicit=True)
        elif path is not None and path != "":
            raise invalid("The path of an operation must be a string.", errors.INVALID_PATH)
        elif op.lower() == "remove":
            raise invalid("To remove something takes a path.", errors.NO_TARGET)
        else:
            for name, part in read_object(value, "The value of an operation without a path").items():
                yield Operation(op.lower(), parse_path(name), part, explicit=False)


def check_schema(body: dict[str, Any], wanted: str) -> None:
    """Raise ScimError if the body says that it is something else."""
    if "schemas" not in body:
        return
    listed = body["schemas"]
    if not isinstance(listed, list) or not any(
        isinstance(one, str) and one.lower() == wanted.lower() for one in listed
    ):
        raise invalid(f"schemas must contain {wanted}.", errors.INVALID_SYNTAX)


def read_object(value: Any, what: str) -> dict[str, Any]:
    """Return an object with its names in lower case: they are the same in any case. Raises ScimError."""
    if not isinstance(value, dict):
        raise invalid(f"{what} must be an object.", errors.INVALID_SYNTAX)
    found = {name.lower(): member for name, member in value.items()}
    if len(found) != len(value):
        raise invalid(f"{what} has the same attribute twice.", errors.INVALID_SYNTAX)
    return found


def read_text(value: Any, name: str) -> str:
    """Return a text, "" for none. Raises ScimError."""
    text = "" if value is None else value
    if not isinstance(text, str):
        raise invalid(f"{name} must be a string.")
    if len(text) > MAX_TEXT_CHARACTERS:
        raise invalid(f"{name} has at most {MAX_TEXT_CHARACTERS} characters.")
    if any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in text):
        raise invalid(f"{name} must not contain control characters.")
    return text


def read_boolean(value: Any, name: str) -> bool:
    """Return a boolean; Entra sends it as a string. Raises ScimError."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise invalid(f"{name} must be true or false.")


def reject_unknown() -> ScimError:
    return invalid("The path of an operation names an attribute that does not exist here.", errors.INVALID_PATH)


def reject_read_only(name: str) -> ScimError:
    return invalid(f"{name} is read-only.", errors.MUTABILITY)
