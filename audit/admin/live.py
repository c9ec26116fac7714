"""Live lists of calls: whether the list at an address can show new calls by itself, or the reason why it cannot."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, QueryDict
from django.utils import timezone
from django.utils.translation import gettext_lazy

from audit.admin.base import CURSORS, LIVE
from audit.queries.live_calls import MAX_ROW_DELAY
from audit.queries.search import CallSearch, id_at

LATER_PAGE, ENDED = "later_page", "ended"
REASONS = {
    LATER_PAGE: gettext_lazy("Live shows the newest calls, and this is an older page."),
    ENDED: gettext_lazy("This period has ended, so no new calls appear."),
}


def find_obstacle(parameters: QueryDict, search: CallSearch) -> str:
    """Return the code of the reason why this list cannot be live; empty when it can."""
    if any(parameters.get(name) for name in CURSORS):
        return LATER_PAGE
    return ENDED if has_ended(search) else ""


def has_ended(search: CallSearch) -> bool:
    """Return whether the searched period is over: no call can begin in it any more."""
    end = search.interval()[1]
    return end is not None and end <= timezone.now()


def known_until() -> str:
    """Return the end of the time whose calls a search that begins now finds, as a cursor: later ones may be missing."""
    return id_at(timezone.now() - MAX_ROW_DELAY).hex


def context(request: HttpRequest, search: CallSearch) -> dict[str, Any]:
    """Return what the list of calls shows about being live."""
    obstacle = find_obstacle(request.GET, search)
    newest = request.GET.copy()
    for name in CURSORS:
        newest.pop(name, None)
    return {
        "wanted": request.GET.get(LIVE) == "1",
        "obstacle": obstacle,
        "reason": REASONS.get(obstacle, ""),
        "newest_url": f"?{newest.urlencode()}" if obstacle == LATER_PAGE else "",
        "ended": REASONS[ENDED],
        "known_until": known_until(),
    }
