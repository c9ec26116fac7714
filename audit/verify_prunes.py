"""What retention took away, by its own entries on the chain: only that may be missing."""

from __future__ import annotations

import json
from collections.abc import Iterator

from audit import chain
from audit.models import Action, Link

VERB, KIND = "pruned", "calls"
ROWS, BODIES = "rows", "bodies"


class Prunes:
    """Up to which call rows and bodies were removed, as far as recorded prunes say."""

    def __init__(self) -> None:
        self._limits = {ROWS: "", BODIES: ""}

    def cover(self, what: str, call: str) -> bool:
        """Whether a recorded prune took it. A prune may have run since the last look."""
        return self._covers(what, call) or (self._look() and self._covers(what, call))

    def _covers(self, what: str, call: str) -> bool:
        # Whoever removes rows removes their bodies.
        return call < self._limits[ROWS] or (what == BODIES and call < self._limits[BODIES])

    def _look(self) -> bool:
        before = dict(self._limits)
        for limits in _recorded():
            for what, limit in limits.items():
                self._limits[what] = max(self._limits[what], limit)
        return self._limits != before


def _recorded() -> Iterator[dict[str, str]]:
    from audit.ledger import action_content

    for action in Action.objects.filter(verb=VERB, kind=KIND).order_by("id").iterator():
        # The chains of actions are verified by themselves; here it only counts that this entry is on one.
        link = Link.objects.filter(id=action.link, kind=chain.ACTION, subject=action.id.hex).first()
        if link is None or link.content != action_content(action):
            continue
        try:
            after = json.loads(action.after)
            what, limit = after["what"], after["before"]
        except (ValueError, KeyError, TypeError):
            continue
        if what in {ROWS, BODIES} and isinstance(limit, str):
            yield {what: limit}
