"""What the rules read in a text: its length for a model, its words, and words of grammar in English and Chinese."""

from __future__ import annotations

import re

CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_CJK = re.compile(f"[{CJK}]")
_LATIN = re.compile(r"[a-z0-9_]+")
_CHARACTERS_PER_TOKEN = 4

USAGE = re.compile(
    r"\b(use[ds]?|useful|using|when|whenever|before|after|instead|rather than|if|unless|suitable|prefer|"
    r"for (a|an|the|any|every|all|each)?\s?(question|task|case|request|check|preview|purpose)s?|in order to|so that)\b"
    r"|当|[时前后](才|再)?(使用|调用|用)|的时候|[如若]果|倘若|若(要|需|用户)|用于|适[用合]|可用来|用来|之前|之后|以前|需要|请勿|不要用|而不是|"
    r"场景|想要|以便|情况下|场合|(询问|问到|问起|提到)",
    re.IGNORECASE,
)
RESULT = re.compile(
    r"\b(return(s|ed|ing)?|results?|respon(se|ds)|output|gives?|given back|answers?|yields?|produces?|"
    r"as (json|text|csv|markdown|html|a (list|table|number|file|picture|link))|one (line|row|entry) (per|for each)|"
    r"list of|lists?)\b"
    r"|返回|结果|输出|得到|给出|回答|列出|列表|响应",
    re.IGNORECASE,
)
FAILURE = re.compile(
    r"\b(fail(s|ed|ing|ure|ures)?|errors?|refus\w+|reject\w*|denied|denies|already|not found|no such|missing|"
    r"(does|do|did) not exist|doesn't exist|cannot|can't|invalid|otherwise|conflicts?|nothing (changes|happens|is)|"
    r"changes? nothing|"
    r"left (as|un)\w*|unchanged|stops?|rolled back|retry|retries|twice)\b"
    r"|失败|错误|报错|出错|拒绝|不存在|已(存在|登记|经|有|被)|存在时|不会|重复|否则|冲突|找不到|无效|异常|不会改变|不变|重试|回滚|无法",
    re.IGNORECASE,
)
UNDO = re.compile(
    r"\b(undo\w*|undone|recover\w*|restor\w+|permanent\w*|irrever\w+|for good|trash|recycle|forever|backups?|lost|"
    r"cannot be|can't be|brought back|no way back|final|archiv\w+|history|old version|previous (version|value)s?)\b"
    r"|撤销|撤回|恢复|永久|不可逆|回收站|彻底|备份|还原|丢失|历史版本|无法(找回|挽回)",
    re.IGNORECASE,
)
OPENING = re.compile(
    r"\s*((this|the|an?|it|these|that)\b( (tool|function|api|endpoint|method|command|service|utility|helper)s?\b)?"
    r"|(tool|function|api|endpoint|method|command|utility|helper)s? (to|for|that|which)\b"
    r"|(这是|这个|该|本|此|一个|一种)(工具|接口|函数|方法|功能|命令|服务)?(是|可以|用于|用来)?)",
    re.IGNORECASE,
)
"""Openings that could be those of any tool, before anything about this one."""


def has_cjk(text: str) -> bool:
    return _CJK.search(text) is not None


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens: one for four ASCII characters, one for each other character (Chinese, say)."""
    plain = sum(character < "\x80" for character in text)
    return max(1, round(plain / _CHARACTERS_PER_TOKEN + len(text) - plain))


def split_name(name: str) -> list[str]:
    """Return the words of a name in snake_case, kebab-case, dots or camelCase."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).replace("-", "_").replace(".", "_")
    return spaced.lower().strip("_").split("_")


def split_text(text: str) -> list[str]:
    """Return the words of a text in order; a run of Chinese characters, which has no spaces, as its pairs."""
    found = []
    for latin, chinese in re.findall(rf"([a-z0-9_]+)|([{CJK}]+)", text.lower()):
        if latin:
            found.append(latin)
        elif len(chinese) == 1:
            found.append(chinese)
        else:
            found += [chinese[at : at + 2] for at in range(len(chinese) - 1)]
    return found


def stem(word: str) -> str:
    """Return the word without its English ending: enough to tell "orders" from "customers", not a dictionary form."""
    for ending in ("ies", "es", "s", "ed", "ing"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
