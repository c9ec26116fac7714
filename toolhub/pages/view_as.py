"""View as: the exact lists that a user's client gets, and for every hidden item the rule that hides it.

It covers any user, any of their tokens, any time and any environment. The answers come from the policy that also
answers tools/list and tools/call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.paginator import Page, Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from audit import local_time
from audit.types import Credential
from catalog.admin.limit_usage import hides_numbers
from catalog.metering import limits
from catalog.models import Grant
from catalog.policy import messages, rules, snapshot, visibility
from catalog.policy.definitions import LimitRule, Snapshot
from catalog.policy.rules import Requester, Visible
from toolhub.access.models import AccessToken
from toolhub.pages import view_as_rows
from toolhub.pages.access.remedies import Advisor
from toolhub.pages.lists import adjacent_pages, filter_rows
from toolhub.pages.staff import page, staff_page

ROWS_PER_PAGE = 50
TABS = ("tool", "resource", "prompt", "grants", "limits")
REQUIRED_PERMISSIONS = ("auth.view_user", "catalog.view_tool", "catalog.view_grant", "catalog.view_limit")


@dataclass(slots=True)
class ViewAsParams:
    """The page's parameters, from its query."""

    username: str
    tab: str
    which: str
    query: str
    at: datetime
    at_text: str
    environment: str
    token_id: int
    user: User | None = None
    token: AccessToken | None = None
    tokens: list[AccessToken] = field(default_factory=list)
    problem: str = ""

    @classmethod
    def from_request(cls, request: HttpRequest) -> ViewAsParams:
        data = request.GET
        tab, token, at_text = data.get("show", ""), data.get("token", ""), data.get("at", "").strip()[:40]
        params = cls(
            username=data.get("user", "").strip()[:150],
            tab=tab if tab in TABS else "tool",
            which=data.get("sees", "") if data.get("sees") in {"yes", "no"} else "",
            query=data.get("q", "").strip()[:200],
            at=timezone.now(),
            at_text=at_text,
            environment=data.get("environment", "").strip()[:100] or settings.ENVIRONMENT,
            token_id=int(token) if token.isdecimal() and len(token) < 18 else 0,
        )
        params._look_up()
        return params

    def _look_up(self) -> None:
        if self.at_text:
            parsed = local_time.parse_time(self.at_text)
            if parsed is None:
                self.problem = _("This date and time is not valid. The page shows the current state.")
            else:
                self.at = parsed
        if not self.username:
            return
        found = get_user_model().objects.filter(username=self.username).first()
        if found is None:
            self.problem = _("There is no user with this name. Check the spelling.")
            return
        self.user = found
        self.tokens = list(AccessToken.objects.filter(user=self.user, revoked=None).prefetch_related("toolsets")[:100])
        self.token = next((token for token in self.tokens if token.pk == self.token_id), None)
        if self.token is not None and self.token.expires <= self.at:
            self.problem = _("This token is expired at that time. Its client would be rejected.")

    @property
    def toolset_ids(self) -> frozenset[int] | None:
        if self.token is None or not self.token.restricted:
            return None
        return frozenset(toolset.pk for toolset in self.token.toolsets.all())

    def credential(self) -> Credential:
        assert self.user is not None  # noqa: S101 - asked only when there is one
        return visibility.page_credential(self.user.pk, self.user.get_username(), self.toolset_ids)

    def advisor(self, request: HttpRequest) -> Advisor:
        """Return the advisor for the page's time, environment and token; it offers only changes for now and here."""
        here = not self.at_text and self.environment == settings.ENVIRONMENT
        return Advisor(request, self.at.timestamp(), self.environment, actionable=here, token=self.token)

    def address(self, **changes: Any) -> str:
        """Return the address of this page with the given query parameters changed."""
        parts: dict[str, Any] = {
            "user": self.username,
            "token": self.token_id or "",
            "at": self.at_text,
            "environment": "" if self.environment == settings.ENVIRONMENT else self.environment,
            "show": self.tab,
            "sees": self.which,
            "q": self.query,
        }
        return "?" + urlencode({name: value for name, value in {**parts, **changes}.items() if value})


@staff_page(*REQUIRED_PERMISSIONS)
@never_cache
@require_safe
def view_as(request: HttpRequest) -> HttpResponse:
    params = ViewAsParams.from_request(request)
    catalogue = snapshot.latest()
    context: dict[str, Any] = {
        "params": params,
        "environments": view_as_rows.environments(catalogue, settings.ENVIRONMENT),
        "own_environment": settings.ENVIRONMENT,
    }
    if params.user is not None:
        who = Requester(params.user.pk, params.toolset_ids)
        seen = rules.decide_all(catalogue, who, params.at.timestamp(), params.environment)
        if request.GET.get("format") == "json":
            return _protocol_response(params, seen)
        context |= _page_context(request, params, catalogue, who, seen)
    title = _("View as %(user)s") % {"user": params.username} if params.user else _("View as")
    return page(request, "admin/pages/view_as.html", title, **context)


@staff_page("auth.view_user")
@require_safe
def redirect_to_view_as(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect from the page of a user to this page."""
    user = get_object_or_404(get_user_model(), pk=pk)
    return HttpResponseRedirect(f"{reverse('pages:view-as')}?{urlencode({'user': user.get_username()})}")


def _protocol_response(params: ViewAsParams, seen: Visible) -> JsonResponse:
    """Return the answer of tools/list (or its siblings), all pages in one."""
    if params.tab == "resource":
        answer = {
            "resources": [item.wire for item, _rule in seen.resources.values()],
            "resourceTemplates": [item.wire for item, _rule in seen.templates.values()],
        }
    elif params.tab == "prompt":
        answer = {"prompts": [item.wire for item, _rule in seen.prompts.values()]}
    elif params.tab == "tool":
        answer = {"tools": [item.wire for item, _rule in seen.tools.values()]}
    else:
        raise Http404
    return JsonResponse(answer, json_dumps_params={"ensure_ascii": False, "indent": 1})


def _page_context(
    request: HttpRequest, params: ViewAsParams, catalogue: Snapshot, who: Requester, seen: Visible
) -> dict[str, Any]:
    counts = {
        "tool": len(seen.tools),
        "resource": len(seen.resources) + len(seen.templates),
        "prompt": len(seen.prompts),
    }
    names = {
        "tool": _("Tools"),
        "resource": _("Resources"),
        "prompt": _("Prompts"),
        "grants": _("Grants"),
        "limits": _("Limits"),
    }
    shown: dict[str, Any] = {
        "counts": counts,
        "tabs": [(tab, names[tab], counts.get(tab), params.address(show=tab, sees="", q="")) for tab in TABS],
        "choices": [(params.address(sees=value), value, words) for value, words in _choices()],
        "exact": params.address(format="json", sees="", q=""),
        "changes_at": datetime.fromtimestamp(seen.changes_at, UTC) if seen.changes_at else None,
    }
    words = params.query.lower().split()
    number = request.GET.get("page")
    pages: Page[Any]
    if params.tab in view_as_rows.ITEM_KINDS:
        found = view_as_rows.entries(catalogue, seen, params.tab, which=params.which, words=words)
        pages = Paginator(found, ROWS_PER_PAGE).get_page(number)
        shown["rows"] = view_as_rows.rows(catalogue, who, params.username, list(pages), params.advisor(request))
    elif params.tab == "grants":
        pages = Paginator(_grants(params), ROWS_PER_PAGE).get_page(number)
        shown["rows"] = [
            (
                grant,
                messages.name_target(grant),
                messages.name_subject(grant),
                grant.state_at(params.at, params.environment),
                _count_items(catalogue, grant),
            )
            for grant in pages
        ]
    else:
        credential = params.credential()
        labelled = [(rule, messages.translate(rule.rule)) for rule in limits.list_rules_for(credential)]
        fitting = [rule for rule, text in labelled if all(word in f"{text} {rule.rule}".lower() for word in words)]
        pages = Paginator(fitting, ROWS_PER_PAGE).get_page(number)
        shown["rows"] = [
            (messages.translate(rule.rule), rule, remaining, _limit_link(rule), hides_numbers(request, rule.measure))
            for rule, remaining in limits.remaining_of_rules(credential, list(pages))
        ]
    shown["page"] = pages
    shown["older"], shown["newer"] = adjacent_pages(pages, lambda number: params.address(page=number))
    return shown


def _choices() -> tuple[tuple[str, str], ...]:
    return ("", _("all")), ("yes", _("visible")), ("no", _("hidden"))


def _grants(params: ViewAsParams) -> Any:
    assert params.user is not None  # noqa: S101 - asked only when there is one
    # By primary key, not by a join: a user in two groups would find a grant to everyone twice.
    numbers = Grant.objects.filter(view_as_rows.grants_filter(params.user.pk)).order_by().values("pk")
    found = filter_rows(Grant.objects.filter(pk__in=numbers), view_as_rows.SEARCH_FIELDS, params.query)
    return found.select_related("tool", "toolset", "resource", "prompt", "user", "group").order_by("pk")


def _count_items(catalogue: Snapshot, grant: Grant) -> int | None:
    """Count the items that a grant of a toolset covers; None for a grant of a single item."""
    return len(catalogue.by_toolset.get(grant.toolset_id, ())) if grant.toolset_id is not None else None


def _limit_link(rule: LimitRule) -> str:
    return reverse("admin:catalog_limit_change", args=[rule.id])
