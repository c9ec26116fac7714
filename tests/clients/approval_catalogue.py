"""Tools that ask before they run, for real clients, and the people who answer. Run inside the hub by `Hub.call`."""

from __future__ import annotations

BY_APPROVER, IN_CLIENT, IN_BROWSER = "sum_by_approver", "sum_in_client", "sum_in_browser"
MAX_CALLERS = 60


def load() -> list[list[str]]:
    """One tool for each way to ask, with callers who are granted them: their names and tokens."""
    from django.contrib.auth.models import User

    from catalog.functions import registry
    from catalog.models import ApprovalRule, Toolset
    from tests.factories import grant, make_group, make_tool, make_toolset
    from toolhub.access.models import AccessToken

    toolset: Toolset = make_toolset("Sums")
    row = registry.tool_row("calculate_sum")
    harmless, destructive = {"read_only": True}, {"read_only": False, "destructive": True}
    tools = {
        name: make_tool(toolset=toolset, **{**row, "name": name, **hints})
        for name, hints in ((BY_APPROVER, destructive), (IN_CLIENT, harmless), (IN_BROWSER, destructive))
    }
    approvers = make_group("approvers", [User.objects.create(username="approver")])
    ApprovalRule.objects.create(name="A second person", tool=tools[BY_APPROVER], group=approvers)
    ApprovalRule.objects.create(name="In the client", tool=tools[IN_CLIENT], asks="person", accepts_client=True)
    ApprovalRule.objects.create(name="In the browser", tool=tools[IN_BROWSER], asks="person", accepts_client=True)
    callers = [User.objects.create(username=f"caller-{number}") for number in range(MAX_CALLERS)]
    grant(make_group("callers", callers), toolset)
    return [[user.username, AccessToken.objects.issue(user, "test", days=1)[1]] for user in callers]


def approve(caller: str, by: str) -> str:
    """Approve the one request of this caller that waits, as soon as there is one; return its state."""
    from django.contrib.auth.models import User

    from catalog.approvals import decisions
    from catalog.models import Approval
    from tests.polling import wait_until

    row = wait_until(lambda: Approval.objects.filter(user__username=caller, state="waiting").first())
    assert row is not None
    return str(decisions.approve(row.pk, User.objects.get(username=by)).state)


def list_states(caller: str) -> list[list[str | bool]]:
    """The requests of this caller: state, who decided, and whether that came through the client."""
    from catalog.models import Approval

    columns = ("state", "decided_by_name", "by_client")
    return [
        list(row) for row in Approval.objects.filter(user__username=caller).order_by("created").values_list(*columns)
    ]


def list_statuses(caller: str) -> list[str]:
    """The statuses of this caller's calls, in order."""
    from audit.models import Call

    return list(Call.objects.filter(username=caller).order_by("id").values_list("outcome", flat=True))


def count_tasks(caller: str) -> int:
    """How many calls of this caller were answered with a task."""
    from catalog.models import Task

    return Task.objects.filter(user__username=caller).count()
