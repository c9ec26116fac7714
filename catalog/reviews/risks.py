"""What is dangerous about a changed definition: warnings as codes with parameters, the worst first.

Nothing here decides. A warning says what a reviewer in a hurry would overlook: text that steers the model, characters
that no reader sees, data that now goes elsewhere. An approved definition that had the same is not warned about again.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final
from urllib.parse import urlsplit

from catalog import quarantine
from catalog.advice import injection
from catalog.models import Tool
from catalog.models.base import CatalogueItem
from catalog.reviews.changes import Change, NewText, Path, find_changes, find_texts
from catalog.runners import registry
from toolhub import invisible, lookalikes

HIGH, MEDIUM, LOW = 3, 2, 1
MAX_READ_CHARACTERS: Final = 20_000
"""Maximum characters of new text in one definition that are searched for warnings; more of it is a warning itself."""
MAX_READ_TEXTS: Final = 1_000
MAX_KEY_CHARACTERS: Final = 80
"""Longer names of parameters and other keys are texts in disguise."""
MAX_NOTES: Final = 20
"""Maximum warnings below the highest level; the others would only be in the way."""
MAX_BLANKS, MAX_EMPTY_LINES = 30, 8
"""Longer runs of blanks before text push it out of sight in most clients."""
MAX_UNNOTED_GROWTH_CHARACTERS: Final = 500
MAX_SHOWN_CHARACTERS: Final = 80

# Possessive, so that a long run of blanks with no text behind it is read once.
_PUSHED_AWAY = re.compile(
    rf"(?<![^\S\n])[^\S\n]{{{MAX_BLANKS},}}+(?=\S)|(?<!\s)(?:[^\S\n]*+\n){{{MAX_EMPTY_LINES},}}+(?=\s*\S)"
)
_LINK = re.compile(
    r"\b(?:https?|wss?|ftp)://[^\s\"'<>)\]]+|\bmailto:\S+|\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+", re.IGNORECASE
)
_CONFIDENTIAL = re.compile(
    r"pass(word|phrase|wd)|secret|token|credential|api[_-]?key|private[_-]?key|session|cookie|"
    r"system[_-]?prompt|conversation|chat[_-]?(history|log)|history|transcript|previous|reasoning|thought|scratchpad|"
    r"side[_-]?note|feedback|context|memory|environ|\.?ssh|密码|密钥|机密|令牌|凭据|对话|聊天|上下文|历史|提示词",
    re.IGNORECASE,
)
"""Names of parameters that ask the model for what it knows besides the task."""


@dataclass(frozen=True, slots=True)
class Risk:
    level: int
    """HIGH, MEDIUM or LOW."""
    code: str
    """See `catalog.reviews.review_texts`."""
    member: str = ""
    """The member of the definition; empty for the definition as a whole."""
    path: Path = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    """What the sentence names. Texts of the definition are already without invisible characters."""


def find_risks(item: CatalogueItem) -> list[Risk]:
    """Return the warnings about an item's proposal, the worst first; [] when there is none."""
    proposed = quarantine.proposal(item)
    if proposed is None:
        return []
    approved = quarantine.approved(item)
    found = list(_check_texts(approved, proposed))
    found += [risk for change in find_changes(item) for risk in _check_change(change)]
    if isinstance(item, Tool):
        found += _check_annotations(approved, proposed)
        found += _check_settings(item, approved, proposed)
    found.sort(key=lambda risk: -risk.level)
    high = sum(risk.level == HIGH for risk in found)
    return found[: high + MAX_NOTES]


def is_dangerous(found: list[Risk]) -> bool:
    """Return whether a reviewer has to read the change alone: it has a warning of the highest level."""
    return any(risk.level == HIGH for risk in found)


def _check_texts(approved: Mapping[str, Any], proposed: Mapping[str, Any]) -> Iterator[Risk]:
    """Yield the warnings about every text that is new, as deep as it is; a bounded number of characters."""
    remaining, texts = MAX_READ_CHARACTERS, 0
    confidential: list[str] = []
    for text in find_texts(approved, proposed):
        texts += 1
        if len(text.after) > remaining or texts > MAX_READ_TEXTS:
            yield Risk(HIGH, "too_long", text.member, text.path)
            break
        remaining -= len(text.after)
        if text.member == "blob":
            continue
        yield from _check_text(text.member, text.path, text.before, text.after)
        name = _get_parameter(text)
        if name and _CONFIDENTIAL.search(lookalikes.fold(invisible.remove(name))):
            confidential.append(name)
        if text.is_key and len(text.after) > MAX_KEY_CHARACTERS:
            yield Risk(HIGH, "long_name", text.member, text.path, {"name": _shorten(text.after)})
    if confidential:
        yield Risk(HIGH, "parameter_confidential", "", (), {"names": _shorten(", ".join(confidential))})


def _get_parameter(text: NewText) -> str:
    """Return the name of a parameter that this text gives, at any depth of a schema or among a prompt's arguments."""
    if text.is_key and _parent(text.path) in ("properties", "patternProperties"):
        return text.after
    if text.member == "arguments" and text.path and text.path[-1] == "name" and not text.is_key:
        return text.after
    return ""


def _check_change(change: Change) -> Iterator[Risk]:
    member, path, after = change.member, change.path, change.after
    parent, name = _parent(path), path[-1] if path else ""
    if after is None:
        if parent == "properties":
            yield Risk(LOW, "parameter_gone", member, path, {"name": _shorten(name)})
    elif parent == "properties" and change.is_new:
        yield Risk(MEDIUM, "parameter_new", member, path, {"name": _shorten(name)})
    elif name == "required":
        yield Risk(MEDIUM, "required_new", member, path, {"names": _shorten(after.replace("\n", ", "))})
    elif name == "default":
        yield Risk(MEDIUM, "default", member, path, {"value": _shorten(after)})
    elif member == "ui" or (member in ("text", "blob") and change.before is not None):
        yield Risk(MEDIUM, "content", member, path)


def _check_text(member: str, path: Path, before: str, after: str) -> Iterator[Risk]:
    before = before[:MAX_READ_CHARACTERS]
    if hidden := _find_hidden(before, after):
        names = ", ".join(dict.fromkeys(map(invisible.show, hidden)))
        yield Risk(HIGH, "invisible", member, path, {"number": sum(map(len, hidden)), "names": _shorten(names)})
    elif before and before != after and lookalikes.look_alike(" ".join(before.split()), " ".join(after.split())):
        yield Risk(MEDIUM, "alike", member, path)
    if lookalikes.has_many_marks(after) and not lookalikes.has_many_marks(before):
        yield Risk(HIGH, "marks", member, path)
    for phrase in injection.count_steering(after) - injection.count_steering(before):
        yield Risk(HIGH, "steering", member, path, {"text": invisible.show(phrase)})
    if fake := _find_lookalike_words(after) - _find_lookalike_words(before):
        yield Risk(HIGH, "lookalike", member, path, {"words": _shorten(", ".join(sorted(fake)))})
    if _PUSHED_AWAY.search(after) and not _PUSHED_AWAY.search(before):
        yield Risk(HIGH, "blanks", member, path)
    links = [link for link in dict.fromkeys(_LINK.findall(after)) if link not in before]
    if links and member != "settings":  # where requests go is judged by `_check_settings`
        yield Risk(MEDIUM, "links", member, path, {"links": _shorten(", ".join(links))})
    if len(after) - len(before) > MAX_UNNOTED_GROWTH_CHARACTERS:
        yield Risk(MEDIUM, "longer", member, path, {"number": len(after) - len(before)})


def _find_hidden(before: str, after: str) -> list[str]:
    """Return the runs of invisible characters, if there are more of them than before or other ones."""
    if after.isascii() and after.isprintable():
        return []
    found = [list(run) for is_hidden, run in groupby(after, invisible.is_invisible) if is_hidden]
    counts = Counter(character for run in found for character in run)
    counts.subtract(character for character in before if invisible.is_invisible(character))
    return ["".join(run) for run in found] if any(number > 0 for number in counts.values()) else []


def _find_lookalike_words(text: str) -> set[str]:
    positions = lookalikes.find(text)
    words: set[str] = set()
    for word in re.finditer(r"\w+", text) if positions else ():
        at = bisect_left(positions, word.start())
        if at < len(positions) and positions[at] < word.end():
            words.add(word[0][:MAX_SHOWN_CHARACTERS])
    return words


def _check_annotations(approved: Mapping[str, Any], proposed: Mapping[str, Any]) -> Iterator[Risk]:
    old, new = _dict(approved.get("annotations")), _dict(proposed.get("annotations"))

    def now(hint: str, value: bool) -> bool:
        return new.get(hint) is value and old.get(hint) is not value

    if now("readOnlyHint", True):
        yield Risk(MEDIUM, "read_only_now", "annotations")
    elif old.get("readOnlyHint") is True and new.get("readOnlyHint") is not True:
        yield Risk(MEDIUM, "read_only_lost", "annotations")
    if now("destructiveHint", True):
        yield Risk(MEDIUM, "destructive_now", "annotations")
    elif now("destructiveHint", False):
        yield Risk(MEDIUM, "harmless_now", "annotations")


def _check_settings(item: Tool, approved: Mapping[str, Any], proposed: Mapping[str, Any]) -> Iterator[Risk]:
    old, new = _dict(approved.get("settings")), _dict(proposed.get("settings"))
    if old == new:
        return
    before = {(flow.secret, flow.destination) for flow in registry.flows(item.runner, old)} if old else set()
    after = {(flow.secret, flow.destination) for flow in registry.flows(item.runner, new)}
    for secret, destination in sorted(after - before, key=lambda pair: (pair[0], pair[1].key)):
        yield Risk(HIGH, "secret_sent", "settings", (), {"secret": secret, "destination": destination})
    host, other = _host(old.get("url")), _host(new.get("url"))
    method, new_method = str(old.get("method") or ""), str(new.get("method") or "")
    if host != other:
        yield Risk(HIGH, "host", "settings", ("url",), {"before": host or "–", "after": other or "–"})
    if method != new_method:
        yield Risk(MEDIUM, "method", "settings", ("method",), {"before": method or "–", "after": new_method or "–"})
    if host == other and method == new_method:
        yield Risk(MEDIUM, "settings", "settings")


def _host(url: Any) -> str:
    try:
        return invisible.show(urlsplit(str(url or "")).netloc)
    except ValueError:
        return invisible.show(str(url))[:MAX_SHOWN_CHARACTERS]


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _parent(path: Path) -> str:
    return path[-2] if len(path) > 1 else ""


def _shorten(text: str) -> str:
    one_line = " ".join(invisible.show(text).split())
    return one_line if len(one_line) <= MAX_SHOWN_CHARACTERS else one_line[: MAX_SHOWN_CHARACTERS - 1] + "…"
