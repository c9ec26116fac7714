"""What is wrong with settings, in the language of the page: no English sentence is left in a Chinese one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from django.utils.translation import override
from pydantic import BaseModel, Field, ValidationError

from catalog.runners import registry, settings_errors
from catalog.runners.upstream_mcp import connection
from catalog.schemas import patterns

ENGLISH = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")
"""Two words beside each other: a sentence, where a name of a setting stands alone."""
CHINESE = re.compile("[一-鿿]")
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("python_function", {}),
    ("python_function", {"function": 5, "isolated": "maybe", "memory_bytes": 1, "cpu_seconds": 1.5, "other": 1}),
    ("python_function", {"function": "x" * 201, "cpu_seconds": "many", "max_processes": 5000, "memory_bytes": None}),
    ("http_api", {"url": "https://h/", "method": "FETCH", "timeout": 0, "keep": ["a"] * 101, "query": []}),
    ("http_api", {"url": "https://h/", "timeout": "long", "break_seconds": None, "wait_seconds": float("inf")}),
    ("http_api", {"url": "ftp://h/", "select": "items", "content_type": "json", "headers": {"a b": "a"}}),
    ("http_api", {"url": "https://{h}/", "select": "$.a b", "headers": {"Cookie": "a"}}),
    ("http_api", {"url": "https://h/?a=b"}),
    ("http_api", {"url": "https://h/{a b}"}),
    *(("http_api", {"url": url}) for url in ("http://a b/", "http://u:p@h/", "http://", "http://0x7f.1/", "http://[")),
    ("http_api", {"url": "http://[fe80::1%25eth0]/"}),
    ("http_api", {"url": "https://h/", "body": {"a": "a"}}),
    ("http_api", {"url": "https://h/", "method": "POST", "body_argument": "a", "body": "*"}),
    ("http_api", {"url": "https://h/", "method": "POST", "body_format": "text", "body": "*"}),
    ("http_api", {"url": "https://h/", "method": "POST", "body_format": "form", "body_argument": "a"}),
    ("http_api", {"url": "https://h/", "method": "POST", "files": {"f": {"argument": "a"}}}),
    ("http_api", {"url": "https://h/", "method": "POST", "files": {"f": {"argument": "a", "content_type": "x"}}}),
    ("http_api", {"url": "https://h/", "content_type": "a/b", "body_format": "multipart"}),
    ("http_api", {"url": "https://h/", "select": "$.a", "response": "image"}),
    (
        "http_api",
        {"url": "https://h/", "cookies": {"a": "a"}, "headers": {"Accept": "a"}, "static_headers": {"Cookie": ""}},
    ),
    ("http_api", {"url": "https://h/", "headers": {"A": "a"}, "static_headers": {"a": "b"}}),
    ("http_api", {"url": "https://h/", "content_type": "a/b", "static_headers": {"Content-Type": "a/b"}}),
    ("http_api", {"url": "https://h/", "static_headers": {"a": {"secret": "NOT ONE"}, "b": 3}}),
    ("command", {"program": "wc", "arguments": ["a\0b"]}),
    ("command", {"program": "wc", "arguments": ["a{b}"]}),
    ("command", {"program": "wc", "arguments": ["-l", "{b}"]}),
    ("command", {"program": "wc", "arguments": ["{b}", "-l"]}),
    ("command", {"program": "wc", "stdin": "a", "stdin_file": "b"}),
    ("command", {"program": "wc", "environment": {"a b": "c"}}),
    ("command", {"program": "wc", "environment": {"PATH": "c"}}),
    ("command", {}),
    ("command", {"commands": {"x": {}}, "choose": "c"}),
    ("command", {"commands": {"x": {"program": "wc"}}, "choose": "c", "stdin": "s"}),
    ("sql_query", {"database": "", "statement": "DELETE FROM a"}),
    ("sql_query", {"database": "x" * 65, "statement": "SELECT 1; SELECT 2"}),
    ("sql_query", {"database": "a", "statement": "SELECT 'open"}),
    ("sql_query", {"database": "a", "statement": "EXPLAIN SELECT 1"}),
    ("upstream_mcp", {"upstream": "", "tool": 3}),
]
UNREACHABLE: list[dict[str, Any]] = [
    {"url": "file:///etc/passwd"},
    {"url": "https://h/", "headers": {"a b": "c"}},
    {"url": "https://h/", "headers": {"Host": "c"}},
    {"url": "https://h/", "headers": {"X": "é"}},
    {"url": "https://h/", "headers": {"Authorization": "Bearer abcdefgh"}},
    {"url": "https://h/", "command": "x"},
    {"url": "https://h/", "allowed_networks": ["10.0.0.0/33"]},
    {"url": "https://h/", "allowed_networks": ["10.0.0.1/8"]},
    {"url": "https://h/", "allowed_networks": ["10.0.0.0/8:"]},
    {"url": "https://h/", "allowed_networks": ["10.0.0.0/8:99999"], "timeout": 0, "args": 5},
    {"transport": "stdio"},
    {"transport": "pigeon"},
    {"transport": "stdio", "command": "x", "args": ["\0"]},
    {"transport": "stdio", "command": "x", "env": {"a b": "c"}},
    {"transport": "stdio", "command": "x", "env": {"LD_PRELOAD": "c"}},
    {"transport": "stdio", "command": "x", "env": {"A": "\0"}},
]


class Everything(BaseModel):
    """One field for each kind of error that has a sentence."""

    missing: int
    text: str
    spelt: str = Field(pattern="^a$")
    whole: int
    parsed: int
    cut: int
    number: float
    parsed_number: float
    finite: float = Field(allow_inf_nan=False)
    truth: bool
    parsed_truth: bool
    names: dict[str, int]
    items: list[int]
    pair: tuple[int, ...]
    inner: BaseModel
    choice: Literal["a", "b", "c"]
    above: float = Field(gt=1.5)
    at_least: int = Field(ge=3)
    below: float = Field(lt=600.0)
    at_most: int = Field(le=68_719_476_736)
    short: str = Field(min_length=1)
    shorter: str = Field(min_length=2)
    long: str = Field(max_length=1)
    longer: str = Field(max_length=2)
    many: list[int] = Field(max_length=1)
    more: list[int] = Field(max_length=2)

    model_config = {"extra": "forbid"}


ALL_WRONG: Mapping[str, Any] = {
    "text": 1,
    "spelt": "b",
    "whole": None,
    "parsed": "x",
    "cut": 1.5,
    "number": None,
    "parsed_number": "x",
    "finite": float("inf"),
    "truth": None,
    "parsed_truth": "x",
    "names": 1,
    "items": 1,
    "pair": 1,
    "inner": 1,
    "choice": "d",
    "above": 1,
    "at_least": 1,
    "below": 700,
    "at_most": 99_999_999_999,
    "short": "",
    "shorter": "",
    "long": "ab",
    "longer": "abc",
    "many": [1, 2],
    "more": [1, 2, 3],
    "stray": 1,
}


def errors() -> list[Mapping[str, Any]]:
    with pytest.raises(ValidationError) as refused:
        Everything.model_validate(ALL_WRONG)
    return [dict(entry) for entry in refused.value.errors(include_url=False, include_input=False)]


def test_every_sentence_is_one_of_pydantic_with_its_values() -> None:
    found = errors()
    assert {entry["type"] for entry in found} >= set(settings_errors.SENTENCES) | {"string_too_short", "too_long"}
    assert len(found) == len(Everything.model_fields) + 1
    for entry in found:
        assert settings_errors.translate_error(entry) == entry["msg"]
        if (sentence := settings_errors.SENTENCES.get(entry["type"])) is not None and entry["type"] != "literal_error":
            values = {name: f"{value:g}" if value == 600.0 else value for name, value in entry.get("ctx", {}).items()}
            assert sentence % values == entry["msg"]


def test_every_sentence_is_translated_into_chinese_with_its_values() -> None:
    with override("zh-hans"):
        said = {str(entry["loc"][0]): settings_errors.translate_error(entry) for entry in errors()}
    assert {name: text for name, text in said.items() if ENGLISH.search(text) or not CHINESE.search(text)} == {}
    for name, value in (
        ("above", "1.5"),
        ("below", "600"),
        ("at_most", "68719476736"),
        ("many", "1"),
        ("spelt", "^a$"),
    ):
        assert value in said[name]
    assert said["choice"] == "必须是以下之一：'a', 'b', 'c'"


def test_errors_without_a_sentence_of_ours_stay_in_the_words_of_pydantic() -> None:
    with override("zh-hans"):
        assert settings_errors.translate_error(
            {"type": "url_scheme", "msg": "URL scheme should be odd", "loc": ()}
        ) == ("URL scheme should be odd")


@pytest.mark.parametrize(("kind", "data"), WRONG)
def test_a_problem_that_an_english_page_finds_is_translated_where_it_is_shown(kind: str, data: dict[str, Any]) -> None:
    with override("en"), pytest.raises(ValidationError) as refused:
        registry.runner(kind).settings.model_validate(data)
    with override("zh-hans"):
        said = settings_errors.format_errors(refused.value)
    assert CHINESE.search(said) and not ENGLISH.search(said), said


@pytest.mark.parametrize(("kind", "data"), WRONG)
def test_errors_of_a_tool_are_in_the_active_language(kind: str, data: dict[str, Any]) -> None:
    said = {}
    for language in ("en", "zh-hans"):
        with override(language), pytest.raises(ValueError) as refused:
            registry.parse_settings(kind, data)
        said[language] = str(refused.value)
    assert CHINESE.search(said["zh-hans"]) and not ENGLISH.search(said["zh-hans"]), said["zh-hans"]
    assert ENGLISH.search(said["en"]) and not CHINESE.search(said["en"]), said["en"]


@pytest.mark.parametrize("fields", UNREACHABLE)
def test_errors_of_an_upstream_are_in_the_active_language(fields: dict[str, Any]) -> None:
    said = {}
    for language in ("en", "zh-hans"):
        with override(language), pytest.raises(ValueError) as refused:
            connection.parse({"upstream": 1, **fields})
        said[language] = str(refused.value)
    assert CHINESE.search(said["zh-hans"]) and not ENGLISH.search(said["zh-hans"]), said["zh-hans"]
    assert ENGLISH.search(said["en"]) and not CHINESE.search(said["en"]), said["en"]


@pytest.mark.parametrize("commands", [[], ["wc"], ["nothing-of-this-name"]])
def test_the_reason_why_a_tool_cannot_run_here_is_in_the_active_language(settings: Any, commands: list[str]) -> None:
    settings.COMMANDS, settings.SQL_DATABASES = commands, dict.fromkeys(commands, "sqlite:///nowhere")
    with override("zh-hans"):
        said = [
            registry.not_ready("command", {"program": "nothing-of-this-name"}),
            registry.not_ready("sql_query", {"database": "elsewhere", "statement": "SELECT 1"}),
        ]
    assert [text for text in said if text is None or ENGLISH.search(text) or not CHINESE.search(text)] == []


def test_errors_of_re2_stand_in_a_sentence_in_the_active_language() -> None:
    with override("zh-hans"):
        with pytest.raises(ValueError, match=r"^正则表达式 \(a 无法使用（.+）$"):
            patterns.searcher("(a")
        with pytest.raises(ValueError, match="最多 1000 个字符"):
            patterns.searcher("a" * 1001)
