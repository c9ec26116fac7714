"""Checkpoints: each follows the one before, is signed, and names links that are there."""

from __future__ import annotations

from collections.abc import Iterator

from audit import chain, keys, times
from audit.heads import Head, Heads, read_heads
from audit.models import Checkpoint, Link
from audit.verify_links import Problem, link_name


def check_checkpoints(heads: Heads) -> Iterator[Problem]:
    """What is wrong with the checkpoints of the database. Collects in `heads` where each chain was signed last."""
    number, previous = 0, chain.START
    for row in Checkpoint.objects.order_by("number").iterator():
        head = Head(row.number, times.to_ms(row.at), row.heads, row.previous, row.hash, row.key, row.signature)
        number += 1
        what = f"checkpoint {row.number}"
        if row.number != number:
            yield Problem(f"checkpoint {number}", "missing: deleted")
            number = row.number
        elif row.previous != previous:
            yield Problem(what, "does not follow the checkpoint before it")
        previous = row.hash
        if problem := unsigned(head):
            yield Problem(what, problem)
            continue
        yield from reached(head, what)
        heads.update(read_heads(row.heads))


def check_external(kept: list[Head]) -> Iterator[Problem]:
    """What a head that is kept elsewhere knows and the database does not: the records first, then the checkpoints."""
    good = []
    for head in kept:
        what = f"checkpoint {head.number} kept outside"
        if problem := unsigned(head):
            yield Problem(what, problem)
        else:
            good.append(head)
            yield from reached(head, what)
    for head in good:
        here = Checkpoint.objects.filter(number=head.number).values_list("hash", flat=True).first()
        if here is None:
            yield Problem(f"checkpoint {head.number}", "missing: it is kept outside and not in the database")
        elif here != head.hash:
            yield Problem(f"checkpoint {head.number}", "is another than the one that is kept outside")


def unsigned(head: Head) -> str:
    if not head.fits:
        return "was changed"
    if head.key != keys.name():
        return f"is signed with key {head.key}, and this installation's key is {keys.name()}"
    return "" if head.signed else "its signature is wrong"


def reached(head: Head, what: str) -> Iterator[Problem]:
    heads = read_heads(head.heads)
    places = {chain.place(writer, sequence): digest for writer, (sequence, digest) in heads.items()}
    there = dict(Link.objects.filter(id__in=list(places)).order_by().values_list("id", "hash"))
    for place, digest in places.items():
        if place not in there:
            yield Problem(link_name(*chain.where(place)), f"missing: the newest records were removed; {what} names it")
        elif there[place] != digest:
            yield Problem(link_name(*chain.where(place)), f"is another than the one that {what} names")
