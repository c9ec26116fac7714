"""Errors as SCIM clients read them (RFC 7644, section 3.12)."""

from __future__ import annotations

ERROR_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:Error"

INVALID_FILTER = "invalidFilter"
INVALID_PATH = "invalidPath"
INVALID_SYNTAX = "invalidSyntax"
INVALID_VALUE = "invalidValue"
MUTABILITY = "mutability"
NO_TARGET = "noTarget"
EXCESS = "tooMany"
UNIQUENESS = "uniqueness"


class ScimError(Exception):
    """An answer that is an error: its status, its `scimType` and a sentence for the client's administrator."""

    def __init__(self, status: int, detail: str, scim_type: str = "", headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.scim_type, self.headers = status, detail, scim_type, headers or {}

    def body(self) -> dict[str, object]:
        kind = {"scimType": self.scim_type} if self.scim_type else {}
        return {"schemas": [ERROR_SCHEMA], "status": str(self.status), **kind, "detail": self.detail}


def invalid(detail: str, scim_type: str = INVALID_VALUE) -> ScimError:
    return ScimError(400, detail, scim_type)


def taken(detail: str) -> ScimError:
    return ScimError(409, detail, UNIQUENESS)


def not_found() -> ScimError:
    """Return the one answer for what is absent and for what belongs to somebody else."""
    return ScimError(404, "There is no such resource.")
