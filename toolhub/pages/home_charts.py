"""Charts of the home page: the input of the theme's chart component, as JSON for its attributes."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from audit import outcomes
from audit.queries.statistics import Report, Slot

SERIES: tuple[tuple[Any, frozenset[str], str], ...] = (
    (dict(outcomes.CHOICES)[outcomes.OK], frozenset({outcomes.OK}), "#0d9488"),
    (
        gettext_lazy("Failed"),
        frozenset({outcomes.TOOL_ERROR, outcomes.TIMEOUT, outcomes.UNKNOWN}),
        "#dc2626",
    ),
    (gettext_lazy("Rejected"), outcomes.REJECTED, "#f59e0b"),
    (gettext_lazy("Other"), frozenset(), "#8b5cf6"),
)
"""The series of the chart with their colours; the last one takes every outcome that no other includes."""


def group_outcomes(found: Counter[str]) -> list[int]:
    """Return the numbers of a slot, one for each of SERIES."""
    numbers = [sum(found[outcome] for outcome in members) for _label, members, _colour in SERIES]
    numbers[-1] = found.total() - sum(numbers)
    return numbers


def _label(slot: Slot, period: str) -> str:
    start = timezone.localtime(slot.start)
    if period == "24h":
        return f"{start:%H:%M}"
    # Counted days are UTC days: in other zones they begin at another hour, so the label shows that hour.
    whole = period == "30d" and start.hour == start.minute == 0
    return f"{start:%m-%d}" if whole else f"{start:%m-%d %H:%M}"


def bars(report: Report, period: str) -> str:
    """Return the data of the chart, for its attribute."""
    columns = list(zip(*(group_outcomes(slot.outcomes) for slot in report.slots), strict=True))
    datasets = [
        {"label": str(label), "data": list(numbers), "backgroundColor": colour, "borderColor": colour}
        for (label, _members, colour), numbers in zip(SERIES, columns, strict=True)
    ]
    return json.dumps({"labels": [_label(slot, period) for slot in report.slots], "datasets": datasets})


def line(report: Report, period: str) -> str:
    seconds = [None if slot.p95 is None else round(slot.p95 / 1e6, 4) for slot in report.slots]
    one = {
        "label": _("seconds"),
        "data": seconds,
        "borderColor": "#0d9488",
        "backgroundColor": "#0d9488",
        "spanGaps": True,
        "pointRadius": 2,
        "borderWidth": 2,
    }
    return json.dumps({"labels": [_label(slot, period) for slot in report.slots], "datasets": [one]})


def options(*, stacked: bool) -> str:
    grey = "#7b7b84"  # As readable on white as on a dark background: a chart has one colour for both.
    return json.dumps(
        {
            "animation": False,
            "responsive": True,
            "maintainAspectRatio": False,
            "maxBarThickness": 24,
            "interaction": {"mode": "index", "intersect": False},
            "plugins": {
                "legend": {
                    "display": stacked,
                    "position": "bottom",
                    "align": "start",
                    "labels": {"boxWidth": 10, "boxHeight": 10, "color": grey},
                }
            },
            "scales": {
                "x": {
                    "stacked": stacked,
                    "grid": {"display": False},
                    "ticks": {"color": grey, "maxTicksLimit": 8, "maxRotation": 0},
                },
                "y": {
                    "stacked": stacked,
                    "beginAtZero": True,
                    "grid": {"lineWidth": 1},
                    "ticks": {"color": grey, "maxTicksLimit": 5, **({"precision": 0} if stacked else {})},
                },
            },
        }
    )
