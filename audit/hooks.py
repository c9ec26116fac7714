"""Questions of the audit log's pages to applications that it must not import; `toolhub.composition` answers them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from audit.types import Reason
from toolhub.parts import parts


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool, prompt or resource as clients were shown it, at some moment in the past."""

    text: str
    """JSON, indented."""
    since: datetime
    """When this version was saved."""
    by: str
    """Who saved it; empty when nobody was signed in."""
    exact: bool
    """Whether its hash is the one that the call recorded: otherwise it is only the newest version before the call."""


def _nothing(method: str, target_id: int, digest: str, moment: datetime) -> Definition | None:
    return None


def _untranslated(reason: Reason) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What the catalogue answers to pages of the audit log, which must not import it."""

    definition_at: Callable[[str, int, str, datetime], Definition | None] = _nothing
    """(method, id in the catalogue, the logged hash, when the call began) -> what it was then, None if nobody knows."""
    translate_reason: Callable[[Reason], str] = _untranslated
    """(why a call was allowed or denied) -> the sentence in the language of the page, empty if nobody knows."""
    name_row: Callable[[object], str] = str
    """(a row of any application) -> its name in the language of the page."""


_NO_CATALOGUE = Catalogue()


def catalogue() -> Catalogue:
    """Return the catalogue of this installation; one that knows nothing where there is none."""
    return parts.find(Catalogue) or _NO_CATALOGUE


def sentence(reason: str, english: str) -> str:
    """Return what the log keeps as code and parameters in the language of the page, or else its English sentence."""
    found = Reason.read(reason)
    return (catalogue().translate_reason(found) if found is not None else "") or english
