"""Functions that the audit log's pages need from applications it must not import; `toolhub.composition` sets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from audit.types import Reason
from toolhub.parts import parts

if TYPE_CHECKING:
    from audit.models import Call


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool, prompt or resource as clients received it at some time."""

    text: str
    """JSON, indented."""
    saved_at: datetime
    """Time at which this version was saved."""
    saved_by: str
    """Name of the user who saved it; empty when nobody was signed in."""
    exact: bool
    """Whether its hash is the one logged with the call; otherwise it is only the newest version before the call."""


@dataclass(slots=True)
class CaseScope:
    """What the calls of a case file refer to, for the records of other applications about it."""

    since: datetime | None
    until: datetime | None
    user: str
    tool: str
    """The filters, empty for none: then the grants of everybody, or of every tool, belong to the case."""
    user_ids: set[int] = field(default_factory=set)
    usernames: set[str] = field(default_factory=set)
    credential_ids: set[str] = field(default_factory=set)
    targets: set[tuple[str, int]] = field(default_factory=set)
    """(method, id in the catalog)."""


CaseRecords = Iterator[tuple[str, Iterator[dict[str, Any]]]]
"""(name of a file, its lines)."""


@dataclass(frozen=True, slots=True)
class Related:
    """A row of another application that a call names by its id: the grant that decided, the tool, the token."""

    title: str
    """What it is."""
    name: str
    """The row's name, or its id where it no longer exists."""
    url: str = ""
    """Address of its page; empty where it no longer exists."""
    details: list[str] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    """Text and address of further pages."""


def _find_nothing(call: Call, viewer: Any) -> list[Related]:
    return []


def _find_no_definition(method: str, target_id: int, digest: str, time: datetime) -> Definition | None:
    return None


def _no_url(method: str, call_id: UUID) -> str:
    return ""


def _list_no_records(scope: CaseScope) -> CaseRecords:
    return iter(())


def _leave_untranslated(reason: Reason) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Functions of the catalog for pages of the audit log, which must not import it."""

    definition_at: Callable[[str, int, str, datetime], Definition | None] = _find_no_definition
    """(method, id in the catalog, logged hash, start of the call) -> definition at that time; None if unknown."""
    translate_reason: Callable[[Reason], str] = _leave_untranslated
    """(reason why a call was allowed or denied) -> sentence in the language of the page; empty if unknown."""
    test_case_url: Callable[[str, UUID], str] = _no_url
    """(method, id of a call) -> address of the page that saves the call as a test case; empty for none."""
    find_related: Callable[[Call, Any], list[Related]] = _find_nothing
    """(call, user who views its page) -> the rows that it names, as far as this user may view them."""
    name_row: Callable[[object], str] = str
    """(row of any application) -> its name in the language of the page."""
    case_records: Callable[[CaseScope], CaseRecords] = _list_no_records
    """(scope) -> files of a case file about people, credentials and grants. They hold no secret."""


_NO_CATALOGUE = Catalogue()


def catalogue() -> Catalogue:
    """Return the catalog of this installation; one with empty answers where none is installed."""
    return parts.find(Catalogue) or _NO_CATALOGUE


def sentence(reason: str, english: str) -> str:
    """Return the sentence of a logged reason (code and parameters) in the language of the page, or else `english`."""
    found = Reason.read(reason)
    return (catalogue().translate_reason(found) if found is not None else "") or english
