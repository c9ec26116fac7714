"""Suggestions for one tool: its name, description, annotations, result and parameters.

It reads plain attributes and runs no queries; a runner adds its own suggestions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from catalog.advice import injection, words
from catalog.advice.parameters import check_parameters, list_parts
from catalog.advice.suggestions import Suggestion
from catalog.runners import registry
from catalog.runners.base import Effect

MIN_DESCRIPTION_TOKENS = 5
MAX_DESCRIPTION_TOKENS = 400
MAX_NAME_CHARACTERS = 64
_GRAMMAR = frozenset(("a", "an", "the", "of", "for", "to", "in", "on", "by", "with", "from", "and", "or", "all", "one"))
_GRAMMAR |= {"some", "its", "this", "that", "it", "is", "are", "tool", "given"}

# Words that contradict an annotation when they stand first. A word that is missing here, or left out because it also
# names a calculation ("add", "replace"), only means that no suggestion is made.
READS = frozenset(
    ("get", "list", "read", "search", "find", "fetch", "show", "count", "look", "lookup", "view", "describe")
)
CHANGES = frozenset(
    ("create", "write", "update", "upsert", "insert", "patch", "send", "upload", "move", "rename", "edit")
)
DESTROYS = frozenset(("delete", "remove", "drop", "purge", "destroy", "erase", "wipe", "truncate"))
_CHINESE = {
    "reads": re.compile(r"\s*(查询|获取|列出|读取|搜索|查看|检索|统计)"),
    "changes": re.compile(r"\s*(创建|新建|新增|修改|更新|写入|发送|上传|移动|重命名|提交)"),
    "destroys": re.compile(r"\s*(删除|移除|清空|销毁|抹除|清除|卸载)"),
}


def check_tool(row: Any) -> list[Suggestion]:
    """Return the suggestions for a row of the catalogue, or for anything with its attributes."""
    found = [*_check_name(row.name), *_check_description(row)]
    schema = row.input_schema if isinstance(row.input_schema, dict) else {}
    found += check_parameters(schema)
    described = registry.runners().get(row.runner)
    settings = row.settings if isinstance(row.settings, dict) else {}
    effect = described.effect(settings) if described is not None and described.effect is not None else None
    found += _check_annotations(row, effect)
    texts = {"name": row.name, "title": row.title, "description": row.description, "input_schema": schema}
    found += injection.check_texts({**texts, "output_schema": row.output_schema or {}})
    if described is not None and described.advice is not None:
        found += [Suggestion("runner", {"sentence": sentence}) for sentence in described.advice(row)]
    return found


def _check_name(name: str) -> Iterator[Suggestion]:
    split = words.split_name(name)
    if len(name) > MAX_NAME_CHARACTERS:
        yield Suggestion("name_long", {"most": MAX_NAME_CHARACTERS})
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        yield Suggestion("name_dot")
    if len(split) == 1:
        yield Suggestion("name_single_word", {"name": name})
    if _joins_actions(split):
        yield Suggestion("name_joins")


def _joins_actions(split: list[str]) -> bool:
    return not {"and", "or"}.isdisjoint(split[1:-1])


def _check_description(row: Any) -> Iterator[Suggestion]:
    text = row.description.strip()
    if words.estimate_tokens(text) < MIN_DESCRIPTION_TOKENS:
        yield Suggestion("description_short")
        return
    if (tokens := words.estimate_tokens(text)) > MAX_DESCRIPTION_TOKENS:
        yield Suggestion("description_long", {"tokens": f"{tokens:,}"})
    if _repeats_name(text, row.name):
        yield Suggestion("description_repeats_name")
        return
    if opening := words.OPENING.match(text):
        yield Suggestion("description_opening", {"words": opening[0].strip()})
    if not words.USAGE.search(text):
        yield Suggestion("usage_missing")
    yield from _check_result(row, text)
    if row.read_only is False:
        if not words.FAILURE.search(text):
            yield Suggestion("failure_missing")
        if row.destructive and not words.UNDO.search(text):
            yield Suggestion("undo_missing")


def _repeats_name(text: str, name: str) -> bool:
    content = {words.stem(word) for word in words.split_text(text) if word not in _GRAMMAR}
    return content <= {words.stem(word) for word in words.split_name(name)}


def _check_result(row: Any, text: str) -> Iterator[Suggestion]:
    schema = row.output_schema if isinstance(row.output_schema, dict) else {}
    if not schema:
        if not words.RESULT.search(text):
            yield Suggestion("result_missing")
        return
    fields = [part for part in list_parts(schema) if part.depth == 0]
    bare = [part.path for part in fields if not part.schema.get("description")]
    if 2 * len(bare) > len(fields):
        yield Suggestion("result_undescribed", {"names": bare})


def _check_annotations(row: Any, effect: Effect | None) -> Iterator[Suggestion]:
    if row.read_only is None:
        yield Suggestion("read_only_undeclared")
    elif row.read_only is False:
        if row.destructive is None:
            yield Suggestion("destructive_undeclared")
        if row.idempotent is None:
            yield Suggestion("idempotent_undeclared")
    kind, word = _first_action(row.name, row.description)
    revealed = effect is not None and effect.changes is True
    if row.read_only and (kind in ("changes", "destroys") or revealed):
        yield Suggestion("read_only_contradicted", {"word": effect.word if effect is not None and revealed else word})
    elif row.read_only is False and kind == "reads" and (effect is None or effect.changes is False):
        yield Suggestion("changes_contradicted", {"word": word})
    deletes = kind == "destroys" or (effect is not None and effect.destroys)
    if deletes and row.destructive is False and row.read_only is not True:
        yield Suggestion("destructive_contradicted")


def _first_action(name: str, description: str) -> tuple[str, str]:
    """Return what the first known word of the name, or of a Chinese description, claims; ("", "") without one."""
    split = words.split_name(name)
    if _joins_actions(split):
        return "", ""
    for word in split[:2]:
        for kind, known in (("reads", READS), ("changes", CHANGES), ("destroys", DESTROYS)):
            if word in known:
                return kind, word
    for kind, pattern in _CHINESE.items():
        if match := pattern.match(description):
            return kind, match[1]
    return "", ""
