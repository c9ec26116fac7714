"""A verification's problems are codes with parameters: said in English by the command, translated on pages."""

from __future__ import annotations

import ast
import inspect
import json

import pytest
from django.utils.translation import override

from audit.case_files import examination
from audit.integrity import links, messages, verification
from audit.integrity.messages import Finding, Problem, Subject
from audit.types import Reason

CALL = "019ca945-0a00-7000-8000-000000000000"


def find_used_codes() -> set[str]:
    """Every code that the checks make a finding of."""
    found = set()
    for module in (verification, links, examination):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in {"Finding", "problem"}
            ):
                code = node.args[0 if node.func.id == "Finding" else 2]
                texts = {one.value for one in ast.walk(code) if isinstance(one, ast.Constant)}
                found |= {str(text) for text in texts} & messages.CODES
    return found


def test_every_code_is_used_and_has_a_sentence_in_both_languages() -> None:
    assert find_used_codes() == messages.CODES
    for code in messages.CODES:
        sentence = messages._SENTENCES[code]
        params: dict[str, str | Subject] = (
            {"a": "7", "b": "8"} if code.endswith("_key") else {"a": Subject("checkpoint", "4")}
        )
        finding = Finding(code, dict(list(params.items())[: sentence.count("%s")]))
        assert finding.format_english() == finding.translate()
        with override("zh-hans"):
            assert finding.translate() != finding.format_english(), code
            assert finding.format_english().isascii()


@pytest.mark.parametrize(
    ("problem", "english", "said"),
    [
        (Problem(Subject("call", CALL), Finding("call_deleted")),
         f"call {CALL}: the call was deleted", f"调用 {CALL}：该调用已被删除"),
        (Problem(Subject("call", CALL, "3:7", "begin"), Finding("entry_renumbered")),
         f"call {CALL} (link 3:7, begin): its hash chain entry was renumbered",
         f"调用 {CALL} (link 3:7, begin)：它的哈希链条目被重新编号"),
        (Problem(Subject("link", "3:7"), Finding("newest_deleted", {"checkpoint": Subject("checkpoint", "4")})),
         "link 3:7: missing: the newest entries were deleted, but checkpoint 4 names it",
         "哈希链条目 3:7：缺失：最新的条目被删除，但 检查点 4 指向它"),
        (messages.problem("checkpoint", 2, "checkpoint_deleted"),
         "checkpoint 2: missing: deleted", "检查点 2：缺失：已被删除"),
        (Problem(Subject("link", "3:7"), Finding("unknown_type", {"type": repr("call 1: was changed")})),
         "link 3:7: has an unknown type: 'call 1: was changed'", "哈希链条目 3:7：类型未知：'call 1: was changed'"),
    ],
)  # fmt: skip
def test_a_problem_is_in_the_language_of_the_viewer(problem: Problem, english: str, said: str) -> None:
    with override("zh-hans"):
        assert str(problem) == english
        assert messages.translate(problem) == said
    assert Problem.from_reason(Reason.read(problem.reason.text)) == problem


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        json.dumps(["log.nobody_knows", {}]),
        json.dumps(["log.call_deleted", {"subject": {"kind": "ghost", "name": "1"}, "found": []}]),
        json.dumps(["log.body_state", {"subject": {"kind": "call", "name": "1"}, "found": []}]),
        json.dumps(["rule.grant", {"number": 4}]),
    ],
)
def test_other_stored_reasons_are_no_problem(text: str) -> None:
    assert Problem.from_reason(Reason.read(text)) is None
