"""What the server of the walk through a long search holds: run inside it by `Hub.call`."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from tests.browser.seed import PASSWORD

CALLS = 16_000
RESULT_CHARACTERS = 12_000


def seed() -> dict[str, Any]:
    """An auditor, and so many large calls of alice that one step does not search all; "#7" is in the first and last.

    The second call is of a client "q8". alice has a tool and a token, which are returned as "alice".
    """
    from django.contrib.auth.models import Group, User
    from django.utils import timezone

    from tests import factories
    from tests.audit.rows import build_call, save
    from toolhub.access.models import AccessToken

    alice = User.objects.create_user("alice", password=PASSWORD)
    auditor = User.objects.create_user("auditor", password=PASSWORD, is_staff=True)
    auditor.groups.add(Group.objects.get(name="auditor"))
    start = timezone.now() - timedelta(days=3)
    result = json.dumps({"content": [{"type": "text", "text": "lorem ipsum " * (RESULT_CHARACTERS // 12)}]})
    for first in range(0, CALLS, 1_000):
        save(
            *(
                build_call(
                    number,
                    user=alice,
                    started_at=start + timedelta(seconds=number),
                    arguments=json.dumps({"note": "order #7 查" if number in {0, CALLS - 1} else "order"}),
                    outcome="ok" if number else "timeout",
                    result=result,
                    client_name="q8" if number == 1 else "claude-code",
                )
                for number in range(first, first + 1_000)
            )
        )
    factories.grant(alice, factories.make_tool("calculate_sum"))
    return {"alice": AccessToken.objects.issue(alice, "laptop")[1]}
