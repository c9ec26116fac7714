"""What the server of `test_deadline` holds. It asks the database for every token, as after five idle seconds."""

from __future__ import annotations

import os
from typing import Any

from catalog.functions import tool
from toolhub.access import bearer

MODULES = "tests.e2e.hanging_tools"
if os.environ.get("TOOLHUB_TOOL_MODULES") == MODULES:  # in the server, and not in the process of the tests
    bearer.FRESH_SECONDS = 0.0


@tool("hang_hello")
async def hello() -> str:
    """Say hello."""
    return "hello"


@tool("hang_large")
async def large() -> str:
    """Return more than fits."""
    return "x" * 5000


def seed() -> dict[str, Any]:
    """The cast, a tool, a task's tool and a secret one for alice."""
    from django.contrib.auth.models import User

    from tests.e2e.seed import create_cast, grant_tool
    from toolhub.access.models import AccessToken

    tokens = create_cast()
    grant_tool("hang_hello", ["alice"], task_support="optional")
    grant_tool("hang_large", ["alice"], max_result_bytes=1024)
    tokens["fresh"] = AccessToken.objects.issue(User.objects.get(username="alice"), "never seen", days=1)[1]
    return tokens
