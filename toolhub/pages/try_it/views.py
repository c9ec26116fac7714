"""Try it: run a tool from its page in the admin, as oneself or as another user, and view the result.

The call goes through the call pipeline. Without scripts the page works by reloading; with them it is notified of every
change.
"""

from __future__ import annotations

import json
import time
from typing import Any, cast
from uuid import UUID

from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from audit import display
from audit.actions import log
from audit.actions.model_signals import name_of
from audit.export import files
from audit.redaction import redactor
from audit.redaction.schema_fields import has_marks
from audit.results import content, tables
from audit.types import Reason
from catalog.errors import CatalogError, InvalidArguments, LimitReached, UnknownTool
from catalog.models import Tool
from catalog.policy import approval_texts, limit_texts, messages, rules, snapshot
from catalog.policy.definitions import LIMIT, Rule, ToolDefinition
from catalog.policy.rules import Requester
from catalog.schemas import errors as schema_errors
from catalog.schemas.errors import SchemaProblem
from toolhub import invisible
from toolhub.access.try_permissions import MAY_TRY, MAY_TRY_AS
from toolhub.pages.access import remedy_changes
from toolhub.pages.staff import page, staff_page
from toolhub.pages.try_it import form as try_form
from toolhub.pages.try_it.form import Form, Question, Rejection
from toolhub.pages.try_it.remote import TryOwners
from toolhub.pages.try_it.run import Run, TryRequest, TryRuns
from toolhub.parts import parts
from toolhub.wire.errors import McpError


@staff_page("catalog.view_tool", MAY_TRY)
@never_cache
@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def try_tool(request: HttpRequest, pk: int) -> HttpResponse:
    tool = get_object_or_404(Tool, pk=pk)
    form = Form(request, tool)
    if request.method == "POST" and "switch" in request.POST:
        form.switch()
    elif request.method == "POST" and "remedy" in request.POST:
        _remove_obstacle(request, tool, form)
    elif request.method == "POST":
        return _run(request, tool, form)
    state = _find_state(request, request.GET.get("run", ""))
    if state is not None:
        form.show(state)
    return _page(request, tool, form, state)


@staff_page("catalog.view_tool", MAY_TRY)
@never_cache
@require_safe
def try_state(request: HttpRequest, pk: int, run: UUID) -> HttpResponse:
    """Return the current parts of the page as JSON, for its polling."""
    return JsonResponse(_page_state(request, pk, _state(request, pk, run)))


@staff_page("catalog.view_tool", MAY_TRY)
@require_POST
def try_cancel(request: HttpRequest, pk: int, run: UUID) -> HttpResponse:
    _state(request, pk, run)
    state = _state(request, pk, run, "cancel")
    return _respond(request, pk, run, _page_state(request, pk, state))


@staff_page("catalog.view_tool", MAY_TRY)
@require_POST
def try_answer(request: HttpRequest, pk: int, run: UUID) -> HttpResponse:
    """Pass on the person's answer to a question of the tool: accept with values, decline, or cancel."""
    state = _state(request, pk, run)
    key, action = request.POST.get("key", ""), request.POST.get("action", "cancel")
    pending = state["asked"].get(key)
    problems: dict[str, Question] = {}
    if pending is not None:
        question = Question(key, *pending)
        result: dict[str, Any] | None = {"action": action if action in {"accept", "decline"} else "cancel"}
        if action == "accept" and question.fields is not None:
            content = question.read(request.POST)
            problems = {key: question} if content is None else {}
            result = None if content is None else {"action": "accept", "content": content}
        if result is not None:
            state = _state(request, pk, run, "answer", key=key, result=try_form.as_json(result))
    return _respond(request, pk, run, _page_state(request, pk, state, problems))


@staff_page("catalog.view_tool", MAY_TRY)
@require_safe
def try_part(request: HttpRequest, pk: int, run: UUID, number: int) -> HttpResponse:
    """Serve a picture, sound or file of the result; only verified bytes get a picture or sound media type."""
    state = _state(request, pk, run)
    try:
        raw, kind = content.decode_body(state["result"]["content"][number])
    except (LookupError, TypeError):
        raise Http404 from None
    return files.media(raw, kind, f"result-{number}")


def _run(request: HttpRequest, tool: Tool, form: Form) -> HttpResponse:
    try:
        run = _start_run(request, tool, form)
    except Rejection as rejected:
        form.show_error(rejected)
        link = _call_link(request, rejected.call_id)
        if _wants_json(request):
            found = {
                "refused": True,
                "errors": form.errors(),
                "message": form.error,
                "record": link,
                "words": _("View call"),
                "access": _render_access(request, tool, form),
            }
            return JsonResponse(found)
        return _page(request, tool, form, None, call_link=link)
    if _wants_json(request):
        return JsonResponse(_page_state(request, tool.pk, run.state()))
    return redirect(f"{reverse('pages:try', args=[tool.pk])}?run={run.id}")


def _start_run(request: HttpRequest, tool: Tool, form: Form) -> Run:
    actor, user = form.actor, form.user()
    try_request = TryRequest(
        actor_id=actor.pk,
        actor=actor.get_username(),
        user_id=user.pk,
        username=user.get_username(),
        tool_id=tool.pk,
        tool=tool.name,
        arguments=form.arguments(),
        address=str(request.META.get("REMOTE_ADDR") or ""),
    )
    # An attempt by an administrator is logged even if the call is then rejected.
    log.record("tried", "tool", name_of(tool), None, {"as": try_request.username})
    try:
        return async_to_sync(parts.get(TryRuns).start)(try_request)
    except UnknownTool:
        raise Rejection(_hidden_reason(request, tool, user)) from None
    except InvalidArguments as error:
        raise Rejection(_argument_error(form, error), "", error.call_id) from None
    except LimitReached as error:
        raise Rejection(_limit_error(error), "", error.call_id) from None
    except (CatalogError, McpError) as error:
        raise Rejection(str(error), "", getattr(error, "call_id", None)) from None


def _argument_error(form: Form, error: InvalidArguments) -> str:
    problem = SchemaProblem.from_reason(error.reason)
    if problem is None:
        return error.message  # the function rejected them with its own message
    if form.as_json:
        return schema_errors.translate(problem)
    return try_form.place_error(form.fields, problem) or _("Fix the marked fields.")


def _limit_error(error: LimitReached) -> str:
    limit = messages.translate(Rule(LIMIT, error.reason.params)) if error.reason is not None else error.label
    details = {"limit": limit, "time": limit_texts.format_seconds(error.seconds)}
    return _("Limit reached: %(limit)s. Try again in %(time)s.") % details


def _hidden_reason(request: HttpRequest, tool: Tool, user: User) -> str:
    advice = remedy_changes.explain(request, user.pk, "tool", tool.pk)
    reason = messages.translate(rules.DISABLED)  # it was deleted a moment ago
    if advice is not None:
        # A grant may have been added in the meantime.
        reason = advice.text or _("Access was granted just now. Try again.")
    details = {"user": user.get_username(), "rule": reason}
    return _("%(user)s does not have access to this tool. The attempt was logged. Reason: %(rule)s") % details


def _remove_obstacle(request: HttpRequest, tool: Tool, form: Form) -> None:
    """Make the change that a button of the reasons stands for; what was typed stays."""
    try:
        user = form.user()
    except Rejection as rejected:
        form.show_error(rejected)
        return
    remedy_changes.carry_out(request, user.pk, "tool", tool.pk, request.POST["remedy"])


def _access_context(request: HttpRequest, tool: Tool, form: Form) -> dict[str, Any]:
    """Return why the user of the form does not see the tool, or whom its calls ask, if the viewer may know."""
    try:
        user = form.user()
    except (Rejection, PermissionDenied):
        return {}
    advice = remedy_changes.explain(request, user.pk, "tool", tool.pk)
    if advice is None or not advice.lines:
        return {"asks": _describe_asks(tool, user)}
    own = user.pk == form.actor.pk
    return {"advice": advice, "own": own, "ungranted": advice.asked.explanation.obstacles == (rules.NO_GRANT,)}


def _describe_asks(tool: Tool, user: User) -> list[str]:
    """Return whom calls of this user ask. Who tries the tool as another user confirms the call in their place."""
    catalogue = snapshot.latest()
    item = catalogue.items.get(("tool", tool.pk))
    if not isinstance(item, ToolDefinition):
        return []
    now = time.time()
    return approval_texts.describe_asks(catalogue, Requester(user.pk), item, now, settings.ENVIRONMENT, own=True)


def _render_access(request: HttpRequest, tool: Tool, form: Form) -> str:
    return render_to_string("admin/pages/try_access.html", _access_context(request, tool, form), request)


def _act(run: UUID, actor_id: int, action: str, **given: Any) -> dict[str, Any] | None:
    owners = parts.find(TryOwners)  # a process that serves no clients has no tries
    return None if owners is None else async_to_sync(owners.act)(run, actor_id, action, **given)


def _find_state(request: HttpRequest, text: str) -> dict[str, Any] | None:
    try:
        state = _act(UUID(text), cast(User, request.user).pk, "state") if text else None
    except ValueError:
        return None
    return state if state is None or _may_view(request, state) else None


def _state(request: HttpRequest, pk: int, run: UUID, action: str = "state", **given: Any) -> dict[str, Any]:
    """Return the state of a run, or perform an action on it.

    Raises Http404 for a run that is unknown (or expired), belongs to another tool, or was tried by another person; and
    PermissionDenied for a run as another user after this person lost the permission for that.
    """
    state: dict[str, Any] | None = _act(run, cast(User, request.user).pk, action, **given)
    if state is None or state["tool_id"] != pk:
        raise Http404
    if not _may_view(request, state):
        raise PermissionDenied
    return state


def _may_view(request: HttpRequest, state: dict[str, Any]) -> bool:
    return bool(state["own"]) or cast(User, request.user).has_perm(MAY_TRY_AS)


def _page_state(
    request: HttpRequest, pk: int, state: dict[str, Any], questions: dict[str, Question] | None = None
) -> dict[str, Any]:
    """Return the state for the page's script: numbers, and the parts of the page as HTML."""
    context = _context(request, state, questions)
    parts = {
        name: render_to_string(f"admin/pages/try_{name}.html", context, request)
        for name in ("questions", "outcome", "log")
    }
    addresses = {
        action: reverse(f"pages:try-{action}", args=[pk, state["id"]]) for action in ("state", "cancel", "answer")
    }
    shown = {name: state[name] for name in ("id", "ended", "seconds", "progress", "user")}
    return {**shown, **parts, "addresses": addresses, "wrong": bool(questions)}


def _context(
    request: HttpRequest, state: dict[str, Any], questions: dict[str, Question] | None = None
) -> dict[str, Any]:
    result, schema = state["result"], None
    if result:
        schema = Tool.objects.filter(pk=state["tool_id"]).values_list("output_schema", flat=True).first()
        result = _hide_marked(result, schema)
    error = state["error"]
    has_structured = bool(result) and "structured" in result

    def address(number: int) -> str:
        return reverse("pages:try-part", args=[state["tool_id"], state["id"], number])

    return {
        "run": state,
        "pk": state["tool_id"],
        "result": result,
        "parts": content.parts(result["content"], address) if result else [],
        "more": max(0, len(result["content"]) - content.MAX_PARTS) if result else 0,
        "view": tables.describe({"structuredContent": result["structured"]}, schema) if has_structured else None,
        "structured": display.body(json.dumps(result["structured"], ensure_ascii=False)) if has_structured else None,
        "error": error and {"kind": error["kind"], "text": invisible.show(_error_text(error))},
        "log": [(level, invisible.show(text)) for level, text in state["log"]],
        "questions": [
            (questions or {}).get(key) or Question(key, method, params)
            for key, (method, params) in state["asked"].items()
        ],
        "record": _call_link(request, UUID(state["id"]), own=state["own"]),
    }


def _hide_marked(result: dict[str, Any], schema: Any) -> dict[str, Any]:
    """Return a result without the secrets that the output schema of its tool marks: the page shows what the log keeps.

    Where the schema marks none, nothing is hidden.
    """
    if not isinstance(schema, dict) or not has_marks(schema):
        return result
    logged = {"structuredContent" if name == "structured" else name: value for name, value in result.items()}
    shown: dict[str, Any] = redactor.result_redactor(schema).value(logged)
    return {"structured" if name == "structuredContent" else name: value for name, value in shown.items()}


def _error_text(error: dict[str, str]) -> str:
    reason = Reason.read(error.get("reason", ""))
    return (messages.translate_reason(reason) if reason is not None else "") or error["text"]


def _call_link(request: HttpRequest, call_id: UUID | None, *, own: bool = False) -> str:
    """Return the address of the call in the audit log; "" when this person may not read it."""
    if call_id is not None and request.user.has_perm("audit.view_call"):
        return reverse("admin:audit_call_change", args=[call_id])
    return reverse("access:call", args=[call_id]) if call_id is not None and own else ""


def _respond(request: HttpRequest, pk: int, run: UUID, shown: dict[str, Any]) -> HttpResponse:
    if _wants_json(request):
        return JsonResponse(shown)
    return redirect(f"{reverse('pages:try', args=[pk])}?run={run}")


def _wants_json(request: HttpRequest) -> bool:
    return request.headers.get("Accept", "").startswith("application/json")


def _page(
    request: HttpRequest, tool: Tool, form: Form, state: dict[str, Any] | None, *, call_link: str = ""
) -> HttpResponse:
    context: dict[str, Any] = {"tool": tool, "form": form, "refusal_record": call_link, "whole_page": True}
    context |= _access_context(request, tool, form)
    if state is not None:
        context |= {**_context(request, state), "state_url": reverse("pages:try-state", args=[tool.pk, state["id"]])}
    title = _("Try %(tool)s") % {"tool": tool.name}
    return page(request, "admin/pages/try.html", title, **context)
