"""Answers to calls in the language of the page, and what a change of rules makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy, ngettext

from catalog.policy.messages import target

ANSWERS: Final[dict[str, Promise]] = {
    "allow": gettext_lazy("allowed"),
    "deny": gettext_lazy("denied"),
    "ask": gettext_lazy("asks for approval"),
    "limit": gettext_lazy("rate limited"),
    "unclear": gettext_lazy("cannot be told"),
}


def describe_change(before: str, after: str) -> str:
    """Return both answers to a call: "allowed → denied"."""
    return f"{ANSWERS.get(before, before)} → {ANSWERS.get(after, after)}"


def describe_changes(changes: Iterable[tuple[str, str, int]]) -> list[str]:
    """Return (before, after, number of calls) as texts, each with its number unless it is the only one."""
    found = list(changes)
    texts = [(describe_change(before, after), number) for before, after, number in found]
    return [text if len(texts) == 1 else f"{text}: {number:,}" for text, number in texts]


def describe_total(after: str, number: int) -> str:
    """Return how many calls a rule in trial would have given this answer."""
    match after:
        case "deny":
            text = ngettext(
                "%(number)s call would have been denied.", "%(number)s calls would have been denied.", number
            )
        case "ask":
            text = ngettext(
                "%(number)s call would have asked for approval.",
                "%(number)s calls would have asked for approval.",
                number,
            )
        case "limit":
            text = ngettext(
                "%(number)s call would have been rate limited.",
                "%(number)s calls would have been rate limited.",
                number,
            )
        case _:
            text = ngettext(
                "%(number)s call would have been allowed.", "%(number)s calls would have been allowed.", number
            )
    return text % {"number": f"{number:,}"}


def name_item(kind: str, name: str) -> str:
    """Return an item in a list that is mostly of tools: a tool by its name, any other with its kind."""
    return name if kind == "tool" else target(kind, name)
