"""`/admin/rule-examples/`: three worked examples of rules about calls: the steps, the result, and the same as a file.

The README has the same files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from toolhub.pages.staff import page, staff_page


@dataclass(frozen=True, slots=True)
class Step:
    text: str | Promise
    link: str = ""
    """The name of an address; "" without a link."""
    words: str | Promise = ""
    permission: str = ""
    """Needed to open it: others read the words without a link. `a|b` is one of the two."""


@dataclass(frozen=True, slots=True)
class Example:
    key: str
    """Also the name of its file in templates/admin/pages/rule_examples/."""
    title: str | Promise
    steps: tuple[Step, ...]
    result: str | Promise


RULES: Final = ("catalog.view_grant", "catalog.view_limit", "catalog.view_approvalrule")
VIEW_AS: Final = Step(
    gettext_lazy("View the tools as one of its members: the list has them, and each definition what is left of it."),
    "pages:view-as",
    gettext_lazy("View as"),
    "auth.view_user&catalog.view_tool&catalog.view_grant&catalog.view_limit",
)
EXAMPLES: Final = (
    Example(
        "regions",
        gettext_lazy("Support may read any customer, and write only in its own region"),
        (
            Step(
                gettext_lazy("Give the group “support” a grant for the tool that reads, without conditions."),
                "admin:catalog_grant_add",
                gettext_lazy("Add a grant"),
                "catalog.add_grant",
            ),
            Step(
                gettext_lazy(
                    "Give the group “support-emea” a grant for the tool that writes. Under Conditions, choose the "
                    "argument “region”, the operator “is always” and the value “emea”. Add hours if the group writes "
                    "only at work."
                ),
                "admin:catalog_grant_add",
                gettext_lazy("Add a grant"),
                "catalog.add_grant",
            ),
            Step(
                gettext_lazy(
                    "For many regions, make one grant to “support” with “is in the list”, and a value list that has "
                    "other values for each group."
                ),
                "admin:catalog_valuelist_changelist",
                gettext_lazy("Value lists"),
                "catalog.view_valuelist",
            ),
            VIEW_AS,
        ),
        gettext_lazy(
            "Members of “support-emea” find no region in the tool that writes: toolhub fills it in. A call that names "
            "another region ends like one with invalid arguments, and names the argument."
        ),
    ),
    Example(
        "deletions",
        gettext_lazy("Deletions need four eyes"),
        (
            Step(
                gettext_lazy("Make a group of the people who may approve."),
                "admin:auth_group_changelist",
                gettext_lazy("Groups"),
                "auth.view_group",
            ),
            Step(
                gettext_lazy(
                    "Add an approval rule for the tool, or for all tools with “destructive tools only”. It asks the "
                    "approvers of that group. Four eyes is on: nobody approves a call of their own."
                ),
                "admin:catalog_approvalrule_add",
                gettext_lazy("Add an approval rule"),
                "catalog.add_approvalrule",
            ),
            Step(gettext_lazy("Approvers decide under Approvals, on any device.")),
            Step(
                gettext_lazy(
                    "A call that is approved every week need not ask for ever: approvers who may add grants let "
                    "exactly this call run from now on. Such grants are listed by “runs without approval”."
                ),
                "admin:catalog_grant_changelist",
                gettext_lazy("Grants"),
                "catalog.view_grant",
            ),
        ),
        gettext_lazy(
            "The call waits, and its client reads who is asked and where. With another argument, another tool or "
            "another person, it asks again."
        ),
    ),
    Example(
        "week",
        gettext_lazy("A new rule, tried for a week"),
        (
            Step(
                gettext_lazy("Fill in the new limit, and run it over the calls of the last 7 days with Replay."),
                "admin:catalog_limit_add",
                gettext_lazy("Add a limit"),
                "catalog.add_limit",
            ),
            Step(
                gettext_lazy(
                    "Save it with “In trial”. To try a change of a rule, open it and choose “Try a change first”."
                )
            ),
            Step(
                gettext_lazy("For a week, read which calls of whom would have ended in another way."),
                "pages:trials",
                gettext_lazy("Rules in trial"),
                "catalog.view_grant|catalog.view_limit|catalog.view_approvalrule",
            ),
            Step(gettext_lazy("Then put it in force, or end the trial: that deletes the rule.")),
        ),
        gettext_lazy(
            "No client notices anything in that week. Each call that would have ended in another way says so in the "
            "audit log."
        ),
    ),
)


@staff_page()
@require_safe
def rule_examples(request: HttpRequest) -> HttpResponse:
    """Show the examples to everybody who may view rules."""
    if not any(request.user.has_perm(one) for one in RULES):
        raise PermissionDenied
    shown = [_present(request, one) for one in EXAMPLES]
    return page(request, "admin/pages/rule_examples.html", _("Rules by example"), examples=shown)


def _present(request: HttpRequest, example: Example) -> dict[str, Any]:
    return {
        "key": example.key,
        "title": example.title,
        "steps": [
            (step.text, reverse(step.link) if step.link and _may(request, step.permission) else "", step.words)
            for step in example.steps
        ],
        "result": example.result,
        "file": f"admin/pages/rule_examples/{example.key}.yaml",
    }


def _may(request: HttpRequest, permission: str) -> bool:
    if "|" in permission:
        return any(request.user.has_perm(one) for one in permission.split("|"))
    return bool(request.user.has_perms(permission.split("&")))
