"""What a check of the chain found is said in the language of the page; every sentence that it writes is known."""

from __future__ import annotations

import ast
import inspect

import pytest
from django.utils.translation import override

from audit.integrity import links, messages, verify

CALL = "call 019ca945-0a00-7000-8000-000000000000"


def sentences() -> set[str]:
    """Every text that the checks give to a Problem, or return as one; what they fill in stands as 7:1."""
    found = set()
    for module in (verify, links):
        for node in ast.walk(ast.parse(inspect.getsource(module))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Problem":
                found |= texts(node.args[1])
            elif isinstance(node, ast.FunctionDef) and node.name in {
                "unsigned", "_check_call", "_check_action", "_check_writer"
            }:  # fmt: skip
                returns = [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value]
                found |= {text for value in returns for text in texts(value)}
    return found - {""}


def texts(node: ast.expr) -> set[str]:
    if isinstance(node, ast.IfExp):
        return texts(node.body) | texts(node.orelse)
    if isinstance(node, ast.Constant):
        return {str(node.value)}
    if isinstance(node, ast.JoinedStr):
        return {"".join(str(part.value) if isinstance(part, ast.Constant) else "7:1" for part in node.values)}
    return set()


def test_every_sentence_of_a_check_is_known_in_the_language_of_the_page():
    all_of_them = sentences()
    assert len(all_of_them) > 25
    for what in all_of_them:
        assert messages.found(what) == what
        with override("zh-hans"):
            assert messages.found(what) != what, what


@pytest.mark.parametrize(
    ("problem", "english", "said"),
    [
        (f"{CALL}: the call was deleted", "",
         "调用 019ca945-0a00-7000-8000-000000000000：该调用已被删除"),
        (f"{CALL} (link 3:7, begin): its hash chain entry was renumbered", "",
         "调用 019ca945-0a00-7000-8000-000000000000 (link 3:7, begin)：它的哈希链条目被重新编号"),
        ("link 3:7: missing: the newest entries were deleted, but checkpoint 4 names it",
         "hash chain entry 3:7: missing: the newest entries were deleted, but checkpoint 4 names it",
         "哈希链条目 3:7：缺失：最新的条目被删除，但 checkpoint 4 指向它"),
        ("checkpoint 2: missing: deleted", "", "检查点 2：缺失：已被删除"),
        (f"{CALL}: nobody ever wrote this", "",
         "调用 019ca945-0a00-7000-8000-000000000000：nobody ever wrote this"),
        ("not a problem at all", "", "not a problem at all"),
    ],
)  # fmt: skip
def test_a_problem_names_its_record_in_the_language_of_the_page(problem, english, said):
    assert messages.said(problem) == (english or problem)
    with override("zh-hans"):
        assert messages.said(problem) == said
