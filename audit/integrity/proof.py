"""Proof of one call from the hash chain: whether it is unchanged, and which checkpoint covers it."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.utils.translation import gettext as _

from audit.format import chain
from audit.integrity.checkpoints import read_heads
from audit.integrity.links import check_call
from audit.models import Call, Checkpoint, Link, Verification

MAX_CHECKPOINTS = 10
"""Maximum checkpoints after the call that are searched for its chain."""


@dataclass(frozen=True, slots=True)
class LinkProof:
    """One link of the call."""

    name: str
    """writer:sequence."""
    kind: str
    hash: str
    problem: str
    """Empty when the link is valid and matches the call."""


@dataclass(slots=True)
class Proof:
    tone: str
    """success, warning or danger."""
    label: str
    text: str
    links: list[LinkProof] = field(default_factory=list)
    checkpoint: Checkpoint | None = None
    verification: Verification | None = None
    """Last verification of the whole log, if it found no problem and covers this call."""


def compute(call: Call) -> Proof:
    """Compute the proof of a call from its own links; only a full verification covers the links before them."""
    link_ids = sorted({link for link in (call.link, call.end_link) if link})
    if not link_ids:
        return Proof(
            "danger",
            _("not in the hash chain"),
            _("The hash chain has no entry for this call. Tampering with it cannot be detected."),
        )
    rows = {
        link.pk: link for link in Link.objects.filter(pk__in=[one for link in link_ids for one in (link - 1, link)])
    }
    links = [_check_link(call, key, rows) for key in link_ids]
    proof = Proof("success", _("intact"), "", links)
    last = link_ids[-1]
    proof.checkpoint = _find_checkpoint(call, last)
    check = Verification.objects.first()
    if check is not None and check.ok and check.through and str(call.pk) <= check.through:
        proof.verification = check
    broken = [link for link in links if link.problem]
    if broken:
        proof.tone, proof.label, proof.text = (
            "danger",
            _("changed"),
            _("This call or its hash chain entry was changed after it was logged."),
        )
    elif proof.checkpoint is None:
        proof.tone, proof.label = "warning", _("not signed yet")
        proof.text = _("Unchanged since it was logged. No signed checkpoint covers it yet.")
    else:
        proof.text = _("Unchanged since it was logged. A signed checkpoint covers it.")
    return proof


def _check_link(call: Call, key: int, rows: dict[int, Link]) -> LinkProof:
    writer, sequence = chain.split_link_id(key)
    name = f"{writer}:{sequence}"
    link = rows.get(key)
    if link is None:
        return LinkProof(name, "", "", _("the hash chain entry is missing"))
    before = rows.get(key - 1)
    previous = chain.START_HASH if sequence == 1 else before.hash if before is not None else None
    if link.subject == call.pk.hex:
        found = check_call(link, call)
        problem = "" if found is None else found.translate()
    else:
        problem = _("the hash chain entry belongs to another call or change")
    if previous is None:
        problem = problem or _("the previous hash chain entry is missing")
    elif link.hash != chain.link_hash(writer, sequence, previous, link.kind, link.subject, link.content):
        problem = problem or _("the hash chain entry does not match the previous one")
    return LinkProof(name, link.kind, link.hash, problem)


def _find_checkpoint(call: Call, key: int) -> Checkpoint | None:
    """Return the first checkpoint whose heads reach the link, among the next MAX_CHECKPOINTS; None if there is none."""
    writer, sequence = chain.split_link_id(key)
    ended_at = call.ended_at or call.started_at
    for checkpoint in Checkpoint.objects.filter(at__gte=ended_at).order_by("at", "number")[:MAX_CHECKPOINTS]:
        try:
            head = read_heads(checkpoint.heads).get(writer)
        except (ValueError, TypeError, AttributeError):
            continue  # edited: a full verification reports it
        if head is not None and head[0] >= sequence:
            return checkpoint
    return None
