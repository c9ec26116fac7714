"""The test cases of one tool: what the last runs found, and a button that runs them.

Tests of a tool that is not declared read-only run after a confirmation. Saving a read-only tool runs its tests.
"""

from __future__ import annotations

from typing import Any, cast
from urllib.parse import urlencode

from asgiref.sync import async_to_sync
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from audit.types import Reason
from catalog.models import Tool, ToolTest
from catalog.tool_tests import messages as test_messages
from toolhub.access.try_permissions import MAY_TRY
from toolhub.pages.staff import page, staff_page
from toolhub.pages.tool_tests.runs import Actor, ToolTestRuns, find_refusal, is_stale
from toolhub.parts import parts

MAX_TESTS = 100
"""Maximum number of test cases of a tool on its page, and in one run of all of them."""


@staff_page("catalog.view_tool", "catalog.view_tooltest", MAY_TRY)
@require_http_methods(["GET", "HEAD", "POST"])
def tool_tests(request: HttpRequest, pk: int) -> HttpResponse:
    tool = get_object_or_404(Tool, pk=pk)
    tests = list(tool.tests.select_related("user", "tool", "editor").order_by("name")[:MAX_TESTS])
    asked: list[ToolTest] = []
    if request.method == "POST":
        wanted = set(request.POST.getlist("test"))
        asked = [test for test in tests if str(test.pk) in wanted or "all" in wanted]
        if asked and (tool.read_only or "confirmed" in request.POST):
            _start(request, asked)
            return redirect("pages:tool-tests", pk)
    running = sum(test.result == ToolTest.Result.RUNNING for test in tests)
    return page(
        request,
        "admin/pages/tool_tests.html",
        _("Test cases of %(tool)s") % {"tool": tool.name},
        tool=tool,
        rows=[_row(request, test, running) for test in tests],
        asked=asked,
        number=len(asked),
        more=max(0, tool.tests.count() - MAX_TESTS),
        every=f"{reverse('admin:catalog_tooltest_changelist')}?{urlencode({'q': tool.name})}",
        running=running,
        add=f"{reverse('admin:catalog_tooltest_add')}?tool={tool.pk}",
    )


def _row(request: HttpRequest, test: ToolTest, running: int) -> dict[str, Any]:
    stale = is_stale(test, running)
    result = ToolTest.Result.FAILED if stale else ToolTest.Result(test.result)
    may_see = test.last_call is not None and request.user.has_perm("audit.view_call")
    return {
        "test": test,
        "result": result.value,
        "label": result.label,
        "problem": test_messages.translate(Reason("test.interrupted").text if stale else test.problem),
        "call": reverse("admin:audit_call_change", args=[test.last_call]) if may_see else "",
        "link": reverse("admin:catalog_tooltest_change", args=[test.pk]),
    }


def _start(request: HttpRequest, tests: list[ToolTest]) -> None:
    async_to_sync(parts.get(ToolTestRuns).start)([test.pk for test in tests], _actor(request))


def _actor(request: HttpRequest) -> Actor:
    user = cast(User, request.user)
    return Actor(user.pk, user.get_username(), str(request.META.get("REMOTE_ADDR") or ""))


def on_tool_saved(*, tool: Tool, request: HttpRequest, **_kwargs: Any) -> None:
    """Run the tests of a read-only tool that a person saved, those that this person may run."""
    if parts.find(ToolTestRuns) is None:  # a process that serves no clients
        return
    if not request.user.has_perm("catalog.view_tooltest"):
        return
    person = cast(User, request.user)
    every = tool.tests.select_related("user", "editor")[:MAX_TESTS]
    tests = [test for test in every if find_refusal(test, person) is None]
    if not tests:
        return
    _start(request, tests)
    text = ngettext("%(number)s test case is running.", "%(number)s test cases are running.", len(tests))
    link = format_html(
        '<a class="underline" href="{}">{}</a>', reverse("pages:tool-tests", args=[tool.pk]), _("View results")
    )
    messages.info(request, format_html("{} {}", text % {"number": len(tests)}, link))
