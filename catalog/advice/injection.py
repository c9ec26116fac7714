"""Texts in a definition that steer the model instead of describing the tool: orders, secrecy, theft, hidden characters.

A model reads descriptions, names of choices and examples like everything else in its context, so that a definition of
somebody else's server is an attack surface ("tool poisoning"). The patterns are those of published attacks and their
Chinese counterparts; none of them matches advice such as "before this tool, call search_orders".
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from catalog.advice.suggestions import Suggestion
from toolhub import invisible, lookalikes

MAX_TEXTS = 2_000
MAX_FOUND = 5
MAX_SHOWN_CHARACTERS = 80

_PERSON = r"(the )?(users?|person|people|humans?|operators?|anyone|anybody|them|him|her)"
_PRIVATE = (
    r"(~/\.|\.ssh\b|id_rsa|\.env\b|/etc/(passwd|shadow)|mcp\.json|private keys?|"
    r"(all|your|their|any|stored|saved|user'?s?) (api[ _-]?keys?|passwords?|credentials)|"
    r"system prompts?|(full|entire|whole|complete) (conversation|chat)|(conversation|chat) history|previous messages)"
)
_ENGLISH = (
    r"\b(ignore|disregard|forget|override|bypass)\b.{0,30}"
    r"\b(previous|prior|earlier|above|other|system|all|any|your|those)\b.{0,20}\b(instructions?|rules?|prompts?|messages?|guidelines?|guardrails?|tools?)\b",
    rf"\b(do not|don't|never|must not|without)\s+(tell|inform|mention|reveal|show|ask|notify|alert|warn|disclos)\w*\b"
    rf".{{0,40}}\b{_PERSON}\b",
    r"<\s*+/?\s*+(important|system|instructions?|secret|hidden|admin|critical)\s*+>",
    r"\[(system|inst)\]|\bsystem prompt\b",
    rf"\b(read|open|cat|load|include|send|pass|copy|paste|append|attach|upload|forward|provide|put)\b.{{0,60}}{_PRIVATE}",
    r"\b(always|also|must|secretly|silently|quietly)\b.{0,30}\b(send|forward|post|upload|bcc|cc|copy|mail)\b.{0,60}"
    r"(https?://|\S{1,64}@\w)",
    r"\b(before|after|when(ever)?|prior to)\b.{0,20}\b(using|calling|invoking|running)\b.{0,10}"
    r"\b(any|every|all|each|other|another)\b.{0,10}\btools?\b",
    r"\b(always|must|only)\b.{0,20}\b(use|call|choose|prefer|invoke)\b.{0,10}\bthis (tool|function|server)\b.{0,40}"
    r"\b(first|instead of|over|rather than|no matter|regardless|all|any|every|other)\b",
    r"\byou are now\b|\bpretend (to be|that you)\b|\byour new (role|instructions?|task)\b",
    r"\b(jailbreak|developer mode)\b",
    r"\b(takes?|has|have|given) (the )?(precedence|priority) over\b.{0,30}\b(tools?|instructions?|servers?|rules?)\b",
)
_CHINESE = (
    r"(忽略|无视|忘记|忘掉|覆盖|绕过|不(要|必|用)理会).{0,10}(之前|以上|上述|先前|此前|前面|所有|其他|其它|系统|你的|任何).{0,8}"
    r"(指令|指示|规则|提示|说明|要求|工具|限制)",
    r"(不要|不得|不能|切勿|请勿|禁止|无需|不必|别|不用)(向|让|对|跟|把|将)?.{0,6}"
    r"(告诉|告知|通知|提醒|透露|提及|提到|询问|征求|知道|泄露|显示给).{0,6}(用户|使用者|任何人|对方|他们)",
    r"(不要|不得|不能|切勿|请勿|禁止|别)(向|让|对|跟)(用户|使用者|任何人|对方|他们).{0,8}(告诉|告知|提醒|透露|提及|提到|说明|知道|显示|解释)",
    r"(读取|打开|发送|附上|附带|上传|包含|传入|填入|复制|粘贴|提供|写入).{0,24}"
    r"(~/\.|\.ssh|\.env|/etc/passwd|id_rsa|mcp\.json|私钥|(所有|全部|你的|用户的?|保存的)(密码|密钥|凭据)|系统提示|(对话|聊天)(记录|历史|内容)|历史消息|全部对话|完整对话)",
    r"(必须|务必|总是|始终|一律|永远|只能).{0,8}(使用|调用|选择|执行).{0,4}(本|此|该|这个)(工具|接口).{0,24}(其他|其它|所有|任何|无论|优先|而不是)",
    r"(使用|调用|执行|运行).{0,4}(任何|其他|其它|所有|每个|一切).{0,6}工具.{0,6}(之前|之后|前|后|时)",
    r"(同时|务必|总是|始终|必须|悄悄|偷偷|秘密|暗中).{0,12}(发送|转发|抄送|密送|上传|提交).{0,40}(https?://|\S{1,64}@\w)",
    r"你现在是|你必须扮演|假装你是|系统提示词|开发者模式|你的新(任务|角色|指令)",
)
_LATIN_PATTERNS = tuple(re.compile(pattern, re.IGNORECASE | re.DOTALL) for pattern in _ENGLISH)
_PATTERNS = (*_LATIN_PATTERNS, *(re.compile(pattern, re.IGNORECASE | re.DOTALL) for pattern in _CHINESE))


def find_steering(text: str) -> list[str]:
    """Return the parts of a text that tell a model what to do or to hide, each cut to a line."""
    plain = invisible.remove(text)
    found = []
    for pattern in _select_patterns(plain):
        if match := pattern.search(plain):
            found.append(" ".join(match[0].split())[:MAX_SHOWN_CHARACTERS])
    # One passage may match several patterns: the longest says it best.
    return [one for one in found if not any(one != other and one in other for other in found)]


def count_steering(text: str) -> Counter[str]:
    """Return how often each such passage occurs, also where letters only look like those of its words."""
    seen = invisible.remove(text)
    folded = lookalikes.fold(seen)
    found: Counter[str] = Counter()
    for pattern in _select_patterns(seen):
        here = Counter(" ".join(match[0].split())[:MAX_SHOWN_CHARACTERS] for match in pattern.finditer(seen))
        if folded != seen:
            # A passage in honest letters is found in both.
            here |= Counter(" ".join(match[0].split())[:MAX_SHOWN_CHARACTERS] for match in pattern.finditer(folded))
        found += here
    return found


def _select_patterns(text: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns that can match: the Chinese ones take half of the time, and need a Chinese character."""
    return _LATIN_PATTERNS if text.isascii() else _PATTERNS


def check_texts(fields: dict[str, Any]) -> Iterator[Suggestion]:
    """Yield suggestions about the texts of a definition: a dictionary of its fields, texts or JSON."""
    number = 0
    for where, text in _texts(fields):
        if invisible.show(text) != text:
            yield Suggestion("invisible", {"where": where})
            number += 1
        for found in find_steering(text):
            yield Suggestion("injection", {"text": invisible.show(found), "where": where})
            number += 1
        if number >= MAX_FOUND:
            return


def _texts(fields: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield every text in the fields with its place, names of parameters too; a bounded number."""
    left = MAX_TEXTS
    waiting: list[tuple[str, Any]] = list(reversed(fields.items()))
    while waiting and left:
        where, value = waiting.pop()
        left -= 1
        if isinstance(value, str):
            yield where, value
        elif isinstance(value, list):
            waiting += [(where, one) for one in reversed(value)]
        elif isinstance(value, dict):
            for key, inner in reversed(value.items()):
                waiting += [(f"{where}.{key}", inner), (where, key)]
