"""`/tools/`: exactly the tools that the user's clients see, from the same decision as tools/list."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.html import escape
from django.views.decorators.http import require_safe

from audit.types import Credential
from catalog.access_requests import requestable, submissions
from catalog.conditions import measures
from catalog.metering import limits
from catalog.policy import approval_texts, snapshot, visibility
from catalog.policy.definitions import LimitRule, PromptDefinition, ResourceDefinition, ToolDefinition
from catalog.policy.rules import Requester, Visible
from catalog.schemas.parameters import Mark, Parameter, kinds, list_parameters, marks

MAX_PAGE_TOOLS = 50
"""Maximum number of tools on one page that the browser filters; with more of them, the server searches, in pages."""
MAX_PAGE_OTHERS = 25
"""Resources per page, and prompts per page."""
MAX_ABOUT_BYTES = 1_500
"""Maximum size of a description in a list, in bytes of the page; a tool's own page has all of it."""
MAX_PARAMETER_BYTES = 80_000
"""Maximum size of all parameter tables on one page, in bytes; further tools have theirs on their own page."""
MAX_DETAIL_BYTES = 100_000
REMEDIES = ("catalog.add_tool", "catalog.add_grant")
"""Permissions of which one is enough to do something about having no tools."""


@dataclass(frozen=True, slots=True)
class ToolCard:
    tool: ToolDefinition
    title: str
    about: str
    parameters: list[Parameter] | None
    """None when they did not fit on this page."""
    marks: list[Mark]
    limits: list[limits.Remaining]
    asks: list[str]
    """What its calls ask before they run, in sentences."""

    @property
    def keys(self) -> str:
        return " ".join(mark.key for mark in self.marks)


@dataclass(frozen=True, slots=True)
class OtherCard:
    item: ResourceDefinition | PromptDefinition
    about: str


def credential_of(user: User) -> Credential:
    """Return the user's credential for pages, without the restrictions that one of their tokens may have."""
    return visibility.page_credential(user.pk, user.get_username())


def visible_to(user: User) -> Visible:
    """Return everything that the user may use now. Compares the revision first: a page shows the latest saved state."""
    snapshot.latest()
    return visibility.for_credential(credential_of(user))


def title_of(tool: ToolDefinition) -> str:
    return tool.title or str(tool.annotations.get("title") or "") or tool.name


def describe_asks(tool: ToolDefinition, user: User) -> list[str]:
    """Return whom calls of the tool by this user ask for approval, in sentences."""
    who, now = Requester(user.pk), time.time()
    return approval_texts.describe_asks(snapshot.current(), who, tool, now, settings.ENVIRONMENT, own=True)


def _text(item: ToolDefinition) -> str:
    return f"{item.name} {item.title} {item.description}"


def _html_bytes(text: str) -> int:
    return len(escape(text).encode("utf-8", "surrogatepass"))


def cut_text(text: str, max_bytes: int = MAX_ABOUT_BYTES) -> str:
    """Shorten a text to at most `max_bytes` bytes in a page: descriptions come from outside and have no limit."""
    if _html_bytes(text[: max_bytes + 1]) <= max_bytes:
        return text
    text = text[:max_bytes]
    while _html_bytes(text) > max_bytes:
        text = text[: len(text) * max_bytes // _html_bytes(text) - 1]
    return text.rstrip() + "…"


def _rows_html_bytes(parameters: list[Parameter]) -> int:
    return sum(
        300 + sum(map(_html_bytes, (row.name, row.type, row.description, row.default, row.bounds, *row.choices)))
        for row in parameters
    )


def _cards(tools: Sequence[ToolDefinition], user: User) -> list[ToolCard]:
    remaining_bytes, cards = MAX_PARAMETER_BYTES, []
    left = limits.remaining_for_tools(credential_of(user), tools)
    for tool in tools:
        parameters: list[Parameter] | None = list_parameters(tool.input_schema)
        html_bytes = _rows_html_bytes(parameters or [])
        if html_bytes > remaining_bytes:
            parameters = None
        else:
            remaining_bytes -= html_bytes
        cards.append(
            ToolCard(
                tool,
                title_of(tool),
                cut_text(tool.description),
                parameters,
                marks(tool.annotations),
                left[tool.id],
                describe_asks(tool, user),
            )
        )
    return cards


def _list_limits(tool: ToolDefinition, user: User) -> list[tuple[LimitRule, limits.Remaining | None]]:
    """Return the limits of the tool for this user, the tightest first, and last those that have no number."""
    rules = snapshot.current().limits_by_tool.get(tool.id, ())
    found = limits.remaining_of_rules(credential_of(user), rules)
    return sorted(found, key=lambda pair: (1, 0, 0) if pair[1] is None else (0, pair[1].left, -pair[1].seconds))


def _matches(tool: ToolDefinition, words: list[str], kind: str) -> bool:
    if words:
        text = _text(tool).lower()
        if not all(word in text for word in words):
            return False
    return not kind or kind in kinds(tool.annotations)


@login_required
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    user = cast(User, request.user)
    mine = visible_to(user)
    query, kind = request.GET.get("q", "").strip()[:200], request.GET.get("kind", "")
    words = query.lower().split()
    found = [tool for tool, _rule in mine.tools.values() if not (words or kind) or _matches(tool, words, kind)]
    page = Paginator(found, MAX_PAGE_TOOLS).get_page(request.GET.get("page"))
    everything = page.number == 1 and not words and not kind
    others = [item for item, _rule in (*mine.resources.values(), *mine.templates.values()) if everything]
    prompts = [item for item, _rule in mine.prompts.values() if everything]
    summary = submissions.find_summary(user.pk)
    context = {
        "section": "tools",
        # Whoever can do something about having no tools is not told to ask somebody else.
        "administers": not mine.tools and user.is_staff and any(map(user.has_perm, REMEDIES)),
        "no_tools": not mine.tools and not snapshot.current().tools,
        "unseen_answers": summary.unseen,
        "can_request": summary.any_requests or bool(requestable.list_toolsets(mine)),
        "query": query,
        "kind": kind,
        "total": len(mine.tools),
        "here": len(mine.tools) <= MAX_PAGE_TOOLS,
        "page": page,
        "tools": _cards(list(page), user),
        "resources": [OtherCard(item, cut_text(item.description)) for item in others[:MAX_PAGE_OTHERS]],
        "more_resources": max(0, len(others) - MAX_PAGE_OTHERS),
        "prompts": [OtherCard(item, cut_text(item.description)) for item in prompts[:MAX_PAGE_OTHERS]],
        "more_prompts": max(0, len(prompts) - MAX_PAGE_OTHERS),
    }
    return render(request, "catalog/tools.html", context)


@login_required
@require_safe
def tool(request: HttpRequest, name: str) -> HttpResponse:
    """Show one tool of the user; a tool without access gets the same answer as one that does not exist."""
    user = cast(User, request.user)
    seen = visible_to(user).tools.get(name)
    if seen is None:
        raise Http404
    found = seen[0]
    parameters = list_parameters(found.input_schema)
    rows = _list_limits(found, user)
    schema = json.dumps(found.input_schema, indent=2, ensure_ascii=False)
    context = {
        "section": "tools",
        "tool": found,
        "title": title_of(found),
        "about": cut_text(found.description, MAX_DETAIL_BYTES),
        "marks": marks(found.annotations),
        "limits": rows,
        "tells_cost": any(rule.measure == measures.COST for rule, _left in rows),
        "asks": describe_asks(found, user),
        "parameters": parameters if _rows_html_bytes(parameters) <= MAX_DETAIL_BYTES else [],
        "schema": cut_text(schema, MAX_DETAIL_BYTES // 2),
    }
    return render(request, "catalog/tool.html", context)
