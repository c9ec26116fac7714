"""What the servers of `test_result_quota` hold."""

from __future__ import annotations

from catalog.functions import tool

MODULES = "tests.e2e.quota_tools"
RESULT_BYTES = 400_000


@tool("quota_large")
async def large() -> str:
    """Return more than fits."""
    return "x" * RESULT_BYTES


def seed() -> dict[str, str]:
    """The cast; alice and bob may call the tool."""
    from tests.e2e.seed import create_cast, grant_tool

    tokens = create_cast()
    grant_tool("quota_large", ["alice", "bob"], max_result_bytes=1024)
    return tokens


def store_many(username: str, number: int) -> int:
    """Store results from this process; how many bytes were used at most."""
    import asyncio

    from django.contrib.auth.models import User

    from catalog.calls import stored_results

    user = User.objects.get(username=username)
    most = 0
    for _ in range(number):
        asyncio.run(stored_results.put(user.pk, b"y" * RESULT_BYTES, "text/plain"))
        most = max(most, stored_results.count_used_bytes())
    return most


def count_used() -> dict[str, int]:
    """{username: bytes} of the stored results, "" for all."""
    from django.db.models import F, Sum

    from catalog.calls import stored_results
    from catalog.models import StoredResult

    rows = StoredResult.objects.filter(removed=False).order_by().values(owner=F("user__username"))
    used = {row["owner"]: row["used"] for row in rows.annotate(used=Sum("size"))}
    return {"": stored_results.count_used_bytes(), **used}
