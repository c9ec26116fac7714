"""The other direction: every call and every action must be on a chain. What was inserted beside it is found here."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from audit import chain, outcomes
from audit.models import Action, Call, Link, Writer
from audit.verify_links import BEGINNINGS, ENDS, PAGE, Problem, of_call

Found = dict[int, tuple[str, str]]


def check_calls(after: UUID, upto: UUID) -> Iterator[int | Problem]:
    """The number of calls of each page, and those that nobody recorded."""
    columns = ("id", "outcome", "link", "end_link")
    while page := list(Call.objects.filter(id__gt=after, id__lte=upto).order_by("id").values_list(*columns)[:PAGE]):
        links = _links([place for _, _, begin, end in page for place in (begin, end) if place is not None])
        for id, outcome, begin, end in page:
            if not _is(links, begin, id.hex, BEGINNINGS):
                yield Problem(of_call(id), "inserted: no link of any chain holds its beginning")
            elif outcome != outcomes.RUNNING and (end is None or not _is(links, end, id.hex, ENDS)):
                yield Problem(of_call(id), "its outcome was never recorded: no link of any chain holds its end")
            elif outcome == outcomes.RUNNING and end is not None:
                yield Problem(of_call(id), "its outcome was edited: a link holds its end")
        after = page[-1][0]
        yield len(page)


def check_actions(after: UUID) -> Iterator[Problem]:
    while page := list(Action.objects.filter(id__gt=after).order_by("id").values_list("id", "link")[:PAGE]):
        links = _links([place for _, place in page])
        for id, place in page:
            if not _is(links, place, id.hex, frozenset({chain.ACTION})):
                yield Problem(f"action {id}", "inserted: no link of any chain holds it")
        after = page[-1][0]


def check_writers() -> Iterator[Problem]:
    """A chain that was removed whole leaves its writer behind."""
    for id in Writer.objects.order_by("id").values_list("id", flat=True).iterator():
        if not Link.objects.filter(id=chain.place(id, 1)).exists():
            yield Problem(f"link {id}:1", "missing: the chain of this writer was removed from its beginning")


def _links(places: list[int]) -> Found:
    rows = Link.objects.filter(id__in=places).order_by().values_list("id", "subject", "kind")
    return {id: (subject, kind) for id, subject, kind in rows}


def _is(links: Found, place: int, subject: str, kinds: frozenset[str]) -> bool:
    found = links.get(place)
    return found is not None and found[0] == subject and found[1] in kinds
