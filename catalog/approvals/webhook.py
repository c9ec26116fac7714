"""The announcement of requests for approval to one address, such as the incoming webhook of a chat.

It names the tool, who asks and where to decide, and no arguments. Slack, Mattermost and Teams show its `text`.
"""

from __future__ import annotations

import json
import logging
from typing import Any, Final

from asgiref.sync import async_to_sync
from django.conf import settings
from django.utils import timezone

from catalog.models import Approval
from toolhub import egress, invisible
from toolhub.log_throttle import ThrottledWarning
from toolhub.parts import parts

JOB_NAME: Final = "Announce approvals"
JOB_SECONDS: Final = 3.0
TIMEOUT_SECONDS: Final = 10.0
MAX_ANSWER_BYTES: Final = 100_000
MAX_PER_RUN: Final = 20
log = logging.getLogger(__name__)


class Announcer:
    """The background job that announces requests: each once, by one process, as long as they wait."""

    def __init__(self) -> None:
        self._warning = ThrottledWarning(log)

    def run(self) -> None:
        """Announce what is due; after a failure, the rest at the next run."""
        if not settings.APPROVAL_WEBHOOK_URL:
            return
        waiting = Approval.objects.filter(state=Approval.State.WAITING, announced=None, expires__gt=timezone.now())
        for row in waiting.select_related("user", "group").order_by("created")[:MAX_PER_RUN]:
            if not Approval.objects.filter(pk=row.pk, announced=None).update(announced=timezone.now()):
                continue
            problem = self._post(row)
            if problem:
                Approval.objects.filter(pk=row.pk).update(announced=None)
                self._warning.warn("requests for approval cannot be announced: %s", problem)
                return

    def _post(self, row: Approval) -> str:
        """Send one announcement; return what went wrong, without the address, which is a secret."""
        try:
            reply = async_to_sync(egress.fetch)(
                "POST",
                settings.APPROVAL_WEBHOOK_URL,
                headers={"content-type": "application/json"},
                content=json.dumps(describe(row)).encode(),
                timeout=TIMEOUT_SECONDS,
                max_bytes=MAX_ANSWER_BYTES,
                resolver=parts.get(egress.NameResolver).resolve,
                allowed=egress.parse_allowed(settings.APPROVAL_WEBHOOK_NETWORKS),
            )
        except egress.EgressError as error:
            return f"{type(error).__name__}, see TOOLHUB_APPROVAL_WEBHOOK_URL"
        return "" if reply.status < 300 else f"status {reply.status}, see TOOLHUB_APPROVAL_WEBHOOK_URL"


def describe(row: Approval) -> dict[str, Any]:
    """Return the announcement of a request."""
    link = f"{settings.PUBLIC_URL}/approvals/{row.id}/"
    user, rule = invisible.show(row.user.get_username()), invisible.show(row.rule_name)
    group = invisible.show(str(row.group)) if row.group is not None else ""
    who = f"the group {group}" if group else user
    return {
        "event": "approval.requested",
        "text": f"{row.tool_name} for {user} waits for approval by {who} (rule: {rule}): {link}",
        "id": str(row.id),
        "url": link,
        "tool": row.tool_name,
        "user": user,
        "rule": rule,
        "approvers": group,
        "expires": row.expires.isoformat(),
    }
