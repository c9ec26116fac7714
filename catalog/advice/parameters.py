"""Suggestions about an input schema: what models fill in wrong, and what a schema can enforce instead of a sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from catalog.advice import words
from catalog.advice.suggestions import Suggestion
from catalog.schemas.parameters import resolve_reference

MAX_PARAMETERS = 10
MAX_WALKED, MAX_DEPTH = 200, 4
_COMBINED = ("allOf", "anyOf", "oneOf")
_TYPING = {"type", "enum", "const", "$ref", *_COMBINED}

_QUOTED = r"[\"'`“”‘’「」『』]"
CHOICES = re.compile(
    r"\b(one of|either|(allowed|possible|valid|supported) (values|options)|options are|choose (from|between))\b"
    rf"|{_QUOTED}[\w.-]+{_QUOTED}\s*([,，、/|]|or|and|或|和|或者)\s*(or |and )?{_QUOTED}[\w.-]+{_QUOTED}"
    r"|\b[a-z][a-z_]*(\s?\|\s?[a-z][a-z_]*)+\b|(?<![\w/.:])[a-z]{2,}(/[a-z]{2,}){2,}(?![\w/.])"
    r"|[(（]\s*[a-z_]{2,}(\s*[,/]\s*[a-z_]{2,}){1,6}(\s*,?\s*or\s+[a-z_]{2,})?\s*[)）]"
    r"|可选值|可选项|取值[为是：:范]|可以是|之一|(\d|[a-z_]+)\s*(表示|代表|[=＝])\s*\S{1,12}[，,、；;]\s*(\d|[a-z_]+)\s*(表示|代表|[=＝])"
    r"|\d\s?[=:]\s?[a-z]+[,;]\s?\d\s?[=:]\s?[a-z]+",
    re.IGNORECASE,
)
DEFAULT = re.compile(
    r"\b(by default|defaults? (to|is|of)|default[:=]|default value|defaulting to)"
    r"|\bif (omitted|not (given|set|specified|provided)),? "
    r"|[(（\[]\s*default\s+\S+?\s*[)）\],]|默认(值|为|是|：|:|\s*\d)|缺省|[(（]默认|不填(则|时)?为|省略时",
    re.IGNORECASE,
)
FORMATTED = re.compile(
    r"\b(format(ted)?|syntax|expression|regex|cron|iso.?8601|rfc ?\d+|template|glob|notation|query language)\b"
    r"|格式|语法|表达式|正则|写法|通配",
    re.IGNORECASE,
)
EXAMPLE = re.compile(
    r"\b(e\.?g\b|for example|for instance|such as|example:|like [\"'`“])|例如|比如|如[：:“\"]|示例|譬如", re.IGNORECASE
)
_STRUCTURE = re.compile(r"\{\d+\}|[\])dw][*+}]?\\?[-:/@.]")
"""Parts of a pattern that a model cannot guess: an exact number, or something between two groups."""
_CREDENTIAL_WORDS = frozenset(
    ("password", "passwd", "passphrase", "secret", "credential", "credentials", "apikey", "authorization", "bearer")
)
_CREDENTIAL_PAIRS = {
    ("api", "key"), ("access", "key"), ("private", "key"), ("secret", "key"), ("auth", "key"), ("encryption", "key"),
    ("access", "token"), ("auth", "token"), ("api", "token"), ("bearer", "token"), ("refresh", "token"),
    ("session", "token"), ("client", "secret"), ("auth", "header"),
}  # fmt: skip
_CREDENTIAL_TEXT = re.compile(
    r"\b(your|the|an?)\s+(\w+\s+){0,2}(api key|access token|password|secret key|private key|bearer token)\b"
    r"|密码|密钥|口令|令牌|凭据|私钥",
    re.IGNORECASE,
)
_NOT_CREDENTIALS = re.compile(
    r"翻页|分页|page|next|continu|cursor|count|max|limit|length|number|reset|policy|hash of|expir|强度|长度|数量|上限"
)
_ACTIONS = ("action", "subcommand", "verb", "operation_type", "op")
_IDENTIFIERS = re.compile(r"(^|_)(id|ids|no|nr|num|number|code|key|timestamp|time|port|year|offset|cursor)$")


@dataclass(frozen=True, slots=True)
class Part:
    """One parameter: its path, such as `filter.since` or `items[].id`, and its schema."""

    path: str
    name: str
    schema: dict[str, Any]
    required: bool
    depth: int

    @property
    def text(self) -> str:
        return f"{self.schema.get('title') or ''} {self.schema.get('description') or ''}".strip()

    @property
    def types(self) -> list[Any]:
        """The types of the schema and of its alternatives."""
        written = self.schema.get("type")
        found = list(written) if isinstance(written, list) else [written] if written is not None else []
        for option in _options(self.schema):
            inner = option.get("type")
            found += inner if isinstance(inner, list) else [inner] if inner is not None else []
        return found

    def has(self, *keywords: str) -> bool:
        """Return whether the schema or one of its alternatives contains one of these keywords."""
        return any(not option.keys().isdisjoint(keywords) for option in (self.schema, *_options(self.schema)))


def list_parts(schema: dict[str, Any]) -> list[Part]:
    """Return every parameter of a schema, also those inside objects and lists, up to a depth and a number."""
    found: list[Part] = []
    _collect(schema, "", 0, schema, found)
    return found


def _collect(part: dict[str, Any], prefix: str, depth: int, root: dict[str, Any], found: list[Part]) -> None:
    required = part.get("required")
    properties = part.get("properties")
    for name, written in properties.items() if isinstance(properties, dict) else ():
        if len(found) >= MAX_WALKED:
            return
        inner = resolve_reference(written, root)
        path = f"{prefix}{name}"
        found.append(Part(path, name, inner, isinstance(required, list) and name in required, depth))
        if depth + 1 < MAX_DEPTH:
            for one, mark in ((inner, "."), (resolve_reference(inner.get("items"), root), "[].")):
                for option in (one, *(resolve_reference(other, root) for other in _options(one))):
                    _collect(option, f"{path}{mark}", depth + 1, root, found)
    for option in _options(part) if depth == 0 else ():
        _collect(resolve_reference(option, root), prefix, depth + 1, root, found)


def _options(schema: dict[str, Any]) -> list[dict[str, Any]]:
    lists = [schema[key] for key in _COMBINED if isinstance(schema.get(key), list)]
    return [option for options in lists for option in options if isinstance(option, dict)]


def check_parameters(schema: dict[str, Any]) -> Iterator[Suggestion]:
    """Yield the suggestions about an input schema that may be saved."""
    parts = list_parts(schema)
    rules = (
        ("parameter_undescribed", lambda part: not part.schema.get("description")),
        ("parameter_untyped", lambda part: not part.has(*_TYPING)),
        ("choices_in_text", lists_choices),
        ("default_in_text", names_default),
        ("parameter_nested", lambda part: part.depth == 0 and _is_nested(part, schema)),
        ("size_unlimited", _is_unlimited),
        ("number_unlimited", _has_no_range),
        ("example_missing", _needs_example),
        ("parameter_credential", is_credential),
    )
    for code, applies in rules:
        if names := [part.path for part in parts if applies(part)]:
            yield Suggestion(code, {"names": names})
    if parts and not schema.keys() & {"additionalProperties", "unevaluatedProperties"}:
        yield Suggestion("parameter_unknown_allowed")
    top = [part for part in parts if part.depth == 0]
    if len(top) > MAX_PARAMETERS:
        yield Suggestion("parameters_many", {"number": len(top), "most": MAX_PARAMETERS})
    for part in top:
        # Each action needs other arguments: they cannot all be required.
        choices = part.schema.get("enum")
        chooses = part.name.lower() in _ACTIONS and isinstance(choices, list) and len(choices) > 2
        if chooses and any(not other.required for other in top if other is not part):
            yield Suggestion("several_actions", {"name": part.path})


def lists_choices(part: Part) -> bool:
    if part.has("enum", "const", "pattern", "format"):
        return False
    if not {"string", "integer"} & set(part.types):
        return False
    text = EXAMPLE.split(part.text)[0]  # what follows "for example" is no complete list
    return CHOICES.search(text) is not None


def names_default(part: Part) -> bool:
    return not part.required and "default" not in part.schema and DEFAULT.search(part.text) is not None


def is_credential(part: Part) -> bool:
    split = words.split_name(part.name)
    if _NOT_CREDENTIALS.search(part.name.lower()) or not {"string"} >= set(part.types) - {"null"}:
        return False
    named = bool(_CREDENTIAL_WORDS & set(split)) or any(pair in _CREDENTIAL_PAIRS for pair in pairwise(split))
    if named or part.schema.get("format") == "password" or part.schema.get("writeOnly") is True:
        return True
    alone = split in (["token"], ["key"], ["pwd"], ["auth"])
    return alone and _CREDENTIAL_TEXT.search(part.text) is not None


def _is_nested(part: Part, root: dict[str, Any]) -> bool:
    items = resolve_reference(part.schema.get("items"), root)
    return any("properties" in one for one in (part.schema, items, *_options(part.schema), *_options(items)))


def _is_unlimited(part: Part) -> bool:
    if "string" in part.types and not part.has("maxLength", "enum", "const", "pattern", "format", "contentEncoding"):
        return True
    return "array" in part.types and not part.has("maxItems", "enum", "const")


def _has_no_range(part: Part) -> bool:
    """Return whether a count has no range; identifiers and times have none by nature."""
    if "integer" not in part.types or part.has(
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum", "const", "multipleOf"
    ):
        return False
    return not _IDENTIFIERS.search("_".join(words.split_name(part.name)))


def _needs_example(part: Part) -> bool:
    if "string" not in part.types or part.has("examples", "default", "enum", "const") or EXAMPLE.search(part.text):
        return False
    pattern = part.schema.get("pattern")
    return (isinstance(pattern, str) and _STRUCTURE.search(pattern) is not None) or bool(FORMATTED.search(part.text))
