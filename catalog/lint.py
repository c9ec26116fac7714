"""Suggestions for valid definitions: how to help models choose a tool well and call it correctly.

It reads plain attributes and runs no queries; a runner adds its own suggestions. Nothing here rejects; every
sentence gives its reason, in the language of the reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

from django.utils.translation import gettext as _

from catalog.runners import registry
from catalog.runners.base import Effect

MIN_DESCRIPTION_CHARACTERS = 20
MAX_DESCRIPTION_CHARACTERS = 1_500
MAX_NAME_CHARACTERS = 64
MAX_LISTED_NAMES = 8
MIN_SIMILARITY = 0.8
"""Minimum share of common words from which on a model cannot tell two descriptions apart."""
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_WORDS = {
    "reads": """get list read search find fetch show count check lookup describe view analyze calculate""",
    "destroys": """delete remove drop purge destroy erase wipe truncate""",
    "changes": """add create write set update upsert insert put patch post send upload move rename edit replace append
        merge""",
    "others": """run execute call start stop cancel open close ask generate make convert translate render download
        export import compare validate test try wait query browse summarize explain approve assign star enable disable
        restart book order pay invite publish schedule subscribe sync tell echo return print extract parse format
        resolve log sum compute estimate predict classify detect encode decode hash sign verify archive restore reset
        trigger toggle sample simulate say greet give look do use retrieve lists gets returns submit select store save
        load""",
}
READS, DESTROYS, CHANGES, OTHERS = (frozenset(words.split()) for words in _WORDS.values())
VERBS = READS | DESTROYS | CHANGES | OTHERS
USAGE_WORDS = re.compile(r"\b(use|used|useful|when|whenever|before|after|instead|if|unless|for)\b", re.IGNORECASE)
EFFECT_WORDS = re.compile(
    r"\b(chang|replac|delet|remov|add|creat|writ|updat|send|sent|mak|made|set|insert|overwrit|lost|los|stor|sav|post|"
    r"publish|mov|renam|run|start|stop|cancel|nothing|effect|append|upload|edit|merge|clos|open|book|pay|star|drop)",
    re.IGNORECASE,
)
CHOICE_WORDS = re.compile(
    r"\b(one of|either|allowed values|possible values|valid values|must be one)\b|"
    r"(['\"`])[\w-]+\2(,? (or )?\2[\w-]+\2)+|\b[a-z_]+\|[a-z_]+\b",
    re.IGNORECASE,
)
DEFAULT_WORDS = re.compile(r"\b(by default|defaults? to|default is|default:|default value)\b", re.IGNORECASE)


def check_tool(row: Any) -> list[str]:
    """Return the suggestions for a row of the catalogue, or for anything with its attributes."""
    advice = [*_check_name(row.name), *_check_description(row)]
    schema = row.input_schema if isinstance(row.input_schema, dict) else {}
    properties = schema.get("properties")
    found = properties if isinstance(properties, dict) else {}
    advice += _check_parameters({name: part if isinstance(part, dict) else {} for name, part in found.items()}, schema)
    described = registry.runners().get(row.runner)
    settings = row.settings if isinstance(row.settings, dict) else {}
    effect = described.effect(settings) if described is not None and described.effect is not None else None
    advice += _check_annotations(row, effect)
    if described is not None and described.advice is not None:
        advice += described.advice(row)
    return advice


def split_name(name: str) -> list[str]:
    """Return the words of a name in snake_case, kebab-case, dots or camelCase."""
    return (
        re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).replace("-", "_").replace(".", "_").lower().strip("_").split("_")
    )


def _check_name(name: str) -> Iterator[str]:
    words = split_name(name)
    if len(name) > MAX_NAME_CHARACTERS:
        longer = _("The name is longer than %(most)d characters. Many clients reject or shorten it.")
        yield longer % {"most": MAX_NAME_CHARACTERS}
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        yield _("The name contains a dot. Some clients accept only letters, digits, underscore and hyphen.")
    if len(words) == 1:
        alone = _(
            '"%(name)s" is likely to collide with a tool of another server. Make it specific, as in %(name)s_orders.'
        )
        yield alone % {"name": name}
    if {"and", "or"} & set(words):
        yield _("The name joins several actions. Models choose better when each tool does one thing.")


def _check_description(row: Any) -> Iterator[str]:
    text = row.description.strip()
    first = re.match(r"[A-Za-z]+", text)
    if not VERBS & set(split_name(row.name)[:2]) and (first is None or first[0].lower() not in VERBS):
        yield _("Neither the name nor the description starts with a verb. Models use the verb to choose a tool.")
    if len(text) < MIN_DESCRIPTION_CHARACTERS:
        yield _("The description is very short. Say what the tool does, when to use it, and its side effects.")
        return
    if len(text) > MAX_DESCRIPTION_CHARACTERS:
        long = _("The description has %(number)s characters. Every model reads all of them in every conversation.")
        yield long % {"number": f"{len(text):,}"}
    if not USAGE_WORDS.search(text):
        yield _("The description does not say when to use the tool. Models then guess or choose another tool.")
    if not row.read_only and not EFFECT_WORDS.search(text):
        yield _("The description does not say what the tool changes. Models and people decide by its side effects.")


def _check_parameters(properties: dict[str, dict[str, Any]], schema: dict[str, Any]) -> Iterator[str]:
    if bare := [name for name, part in properties.items() if not part.get("description")]:
        yield _(
            "Arguments without a description: %(names)s. Models use descriptions to fill in arguments."
        ) % _format_names(bare)
    if properties and "additionalProperties" not in schema:
        yield _('A misspelled argument is silently ignored. Add "additionalProperties": false to reject it.')
    if listed := [name for name, part in properties.items() if _lists_choices(part)]:
        yield _("The description lists the choices of %(names)s. Use an enum to enforce them.") % _format_names(listed)
    needed = schema.get("required") if isinstance(schema.get("required"), list) else []
    with_default_in_text = [
        name
        for name, part in properties.items()
        if "default" not in part
        and name not in (needed or [])
        and DEFAULT_WORDS.search(str(part.get("description", "")))
    ]
    if with_default_in_text:
        yield _(
            "The description names a default of %(names)s. Put it in the schema to fill it in automatically."
        ) % _format_names(with_default_in_text)
    if nested := [name for name, part in properties.items() if _is_nested(part)]:
        yield _("Objects inside arguments: %(names)s. Models fill flat parameters more reliably.") % _format_names(
            nested
        )
    if unbounded := [name for name, part in properties.items() if _is_unbounded(part)]:
        unbound = _("No size limit (maxLength, maxItems): %(names)s. A model in a loop can send very large values.")
        yield unbound % _format_names(unbounded)
    action = next((name for name in ("action", "operation", "command", "mode") if name in properties), None)
    if action is not None and len(VERBS & {str(value) for value in properties[action].get("enum") or []} - {"sum"}) > 2:
        several = _('"%(name)s" chooses between several actions. Models choose better when each tool does one thing.')
        yield several % {"name": action}


def _format_names(names: list[str]) -> dict[str, str]:
    """Return the parameters of a sentence about `names`: the first few of them."""
    shown = ", ".join(names[:MAX_LISTED_NAMES])
    if len(names) > MAX_LISTED_NAMES:
        shown = _("%(names)s and %(number)d more") % {"names": shown, "number": len(names) - MAX_LISTED_NAMES}
    return {"names": shown}


def _kinds(part: dict[str, Any]) -> list[Any]:
    kinds = part.get("type")
    return kinds if isinstance(kinds, list) else [kinds]


def _lists_choices(part: dict[str, Any]) -> bool:
    if "string" not in _kinds(part) or "enum" in part or "pattern" in part or "const" in part:
        return False
    return CHOICE_WORDS.search(str(part.get("description", ""))) is not None


def _is_nested(part: dict[str, Any]) -> bool:
    items = part.get("items")
    return "properties" in part or (isinstance(items, dict) and "properties" in items)


def _is_unbounded(part: dict[str, Any]) -> bool:
    kinds = _kinds(part)
    if "string" in kinds and not part.keys() & {"maxLength", "enum", "const", "pattern", "format", "contentEncoding"}:
        return True
    return "array" in kinds and "maxItems" not in part


def _check_annotations(row: Any, effect: Effect | None) -> Iterator[str]:
    words = split_name(row.name)
    verb = next((word for word in words[:2] if word in VERBS), "")
    revealed = effect is not None and effect.changes is True
    if row.read_only is None:
        yield _("Declare whether the tool is read-only. Clients ask before they run tools that may make changes.")
    elif row.read_only is False and row.destructive is None:
        yield _("The tool makes changes. Declare whether it is destructive.")
    if row.read_only and (verb in DESTROYS | CHANGES or revealed):
        reads = _("The tool is declared read-only, but %(word)s makes changes. Clients may run it without asking.")
        yield reads % {"word": effect.word if effect is not None and revealed else verb}
    elif row.read_only is False and (verb in READS and (effect is None or effect.changes is False)):
        changes = _(
            "The tool is not declared read-only, but %(word)s sounds like reading. Clients ask before each call."
        )
        yield changes % {"word": verb}
    if row.destructive is False and (verb in DESTROYS or (effect is not None and effect.destroys)):
        yield _("The tool is declared non-destructive, but it deletes. Clients will not warn.")


def find_similar_pairs(rows: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """Return (one, other, why) of all pairs of tools that a model can hardly tell apart, in English, for commands.

    The tools are given as (name, description).
    """
    listed = sorted(set(rows))
    names: dict[str, list[str]] = {}
    sets: dict[str, frozenset[str]] = {}
    at: dict[tuple[str, ...], list[str]] = {}
    for name, description in listed:
        names.setdefault("".join(split_name(name)).rstrip("s"), []).append(name)
        words = re.findall(r"\w+", description.lower())
        sets[name] = frozenset(words)
        for start in range(len(words) - 2):
            at.setdefault(tuple(words[start : start + 3]), []).append(name)
    found: dict[tuple[str, str], str] = {}
    for group in names.values():
        for pair in combinations(group, 2):
            found[pair] = "their names are almost the same"
    # Phrases that very many tools share carry no information; the other groups are small enough to compare in pairs.
    for group in at.values():
        for pair in combinations(sorted(set(group))[:30], 2):
            if pair not in found and _are_similar(sets[pair[0]], sets[pair[1]]):
                found[pair] = "their descriptions are almost the same"
    return [(one, other, why) for (one, other), why in sorted(found.items())]


def describe_similar(row: Any, others: Iterable[tuple[str, str]]) -> list[str]:
    """Return sentences about one tool; `others` may contain the tool itself."""
    name, words = row.name, frozenset(re.findall(r"\w+", row.description.lower()))
    spelt = "".join(split_name(name)).rstrip("s")
    advice = []
    for other, description in others:
        if other == name:
            continue
        if "".join(split_name(other)).rstrip("s") == spelt:
            advice.append(_("The name is almost the same as %(name)s. Models may confuse the two.") % {"name": other})
        elif _are_similar(words, frozenset(re.findall(r"\w+", description.lower()))):
            alike = _("The description is almost the same as that of %(name)s. Say when to use which tool.")
            advice.append(alike % {"name": other})
    return advice


def _are_similar(one: frozenset[str], other: frozenset[str]) -> bool:
    if min(len(one), len(other)) < 5:
        return False
    return len(one & other) / len(one | other) >= MIN_SIMILARITY


def check_prompt(row: Any) -> list[str]:
    advice = []
    declared = {argument["name"] for argument in row.arguments}
    used: set[str] = set()
    for message in row.messages:
        text = message.get("content", {}).get("text", "")
        used.update(PLACEHOLDER.findall(text) if isinstance(text, str) else ())
    advice += [
        _("{%(name)s} is not replaced, because there is no such argument.") % {"name": name}
        for name in sorted(used - declared)
    ]
    if row.messages:
        advice += [_('The argument "%(name)s" is never used.') % {"name": name} for name in sorted(declared - used)]
    return advice
