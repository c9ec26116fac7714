"""Proof of one call from the hash chain: whether it is unchanged, and which checkpoint covers it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from django.utils.translation import gettext as _

from audit.format import chain, timestamps
from audit.format.checkpoint import SignedCheckpoint, read_heads
from audit.integrity import verification
from audit.integrity.links import PruneLimits, check_call, check_transaction, is_authentic
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
    """Compute the proof of a call from its own links and their keyed digests.

    Only a full verification covers the links before them, and entries whose key is known by its public key alone.
    """
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
    prune_limits = PruneLimits(lambda link: is_authentic(link) or _find_checkpoint(link.id, _time_of(link)) is not None)
    links = [_check_link(call, key, rows, prune_limits) for key in link_ids]
    proof = Proof("success", _("intact"), "", links)
    last = link_ids[-1]
    proof.checkpoint = _find_checkpoint(last, call.ended_at or call.started_at)
    check = verification.find_last()
    if check is not None and check.ok and check.through and str(call.pk) <= check.through:
        proof.verification = check
    broken = [link for link in links if link.problem]
    present = [rows[key] for key in link_ids if key in rows]
    genuine = all(map(is_authentic, present))
    if broken or not all(check_transaction(link)[0] for link in present):
        proof.tone, proof.label, proof.text = (
            "danger",
            _("changed"),
            _("This call or its hash chain entry was changed after it was logged."),
        )
    elif not genuine and proof.checkpoint is None:
        proof.tone, proof.label = "danger", _("not authentic")
        proof.text = _("This call may have been added outside the log: its hash chain entry has no valid keyed digest.")
    elif not genuine:
        proof.tone, proof.label = "warning", _("verify to be sure")
        proof.text = _(
            "Unchanged as far as this page can tell. Its hash chain entry has no keyed digest, or an earlier key made "
            "it. Choose Verify now to verify the whole log."
        )
    elif proof.checkpoint is None:
        proof.tone, proof.label = "warning", _("not signed yet")
        proof.text = _("Unchanged since it was logged. No signed checkpoint covers it yet.")
    else:
        proof.text = _("Unchanged since it was logged. A signed checkpoint covers it.")
    return proof


def _check_link(call: Call, key: int, rows: dict[int, Link], prune_limits: PruneLimits) -> LinkProof:
    writer, sequence = chain.split_link_id(key)
    name = f"{writer}:{sequence}"
    link = rows.get(key)
    if link is None:
        return LinkProof(name, "", "", _("the hash chain entry is missing"))
    before = rows.get(key - 1)
    previous = chain.START_HASH if sequence == 1 else before.hash if before is not None else None
    if link.subject == call.pk.hex:
        found = check_call(link, call, prune_limits)
        problem = "" if found is None else found.translate()
    else:
        problem = _("the hash chain entry belongs to another call or change")
    if previous is None:
        problem = problem or _("the previous hash chain entry is missing")
    elif link.hash != chain.link_hash(writer, sequence, previous, link.kind, link.subject, link.content):
        problem = problem or _("the hash chain entry does not match the previous one")
    return LinkProof(name, link.kind, link.hash, problem)


def _time_of(link: Link) -> datetime | None:
    """Return the time in the id of the change that a link names."""
    try:
        return timestamps.from_ms(int(link.subject[:12], 16))
    except (ValueError, OverflowError):
        return None


_LATEST_MS = 253_370_764_800_000
"""The year 9999: PostgreSQL has later times, which cannot be read."""


def _find_checkpoint(key: int, since: datetime | None) -> Checkpoint | None:
    """Return a signed checkpoint whose heads reach the link; None if there is none.

    Searches the first MAX_CHECKPOINTS after `since`, or the newest ones.
    """
    writer, sequence = chain.split_link_id(key)
    readable = Checkpoint.objects.filter(at__lt=timestamps.from_ms(_LATEST_MS))
    found = readable.filter(at__gte=since).order_by("at", "number") if since else readable
    # Those that nobody signed are left to a full verification.
    for checkpoint in verification.read_rows(
        found[:MAX_CHECKPOINTS], lambda row: SignedCheckpoint.from_row(row).is_signed
    ):
        head = read_heads(checkpoint.heads).get(writer)
        if head is not None and head[0] >= sequence:
            return checkpoint
    return None
