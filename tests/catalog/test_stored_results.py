"""Results that are kept because they were too large."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from catalog.calls import call_tool, stored_results
from catalog.calls.stored_results import ROW_BYTES, NoRoom
from catalog.errors import ResultRemoved, UnknownResource
from catalog.models import StoredResult
from tests import factories
from tests.catalog import tools as tools
from tests.catalog.pipeline import RecordingChannel, call, caller, logged_calls, publish, run_in_database, text

pytestmark = pytest.mark.django_db(transaction=True)


async def test_another_user_a_wrong_address_and_an_expired_result_are_none(alice: Any, bob: Any) -> None:
    uri = await stored_results.put(alice.pk, b"mine", "text/plain")
    expired = await stored_results.put(alice.pk, b"old", "text/plain", seconds=-1)
    assert await stored_results.get(factories.credential(bob), uri) is None
    for wrong in (
        expired,
        uri + "0",
        uri.upper(),
        f"{stored_results.URI_PREFIX}{uuid4()}",
        f"{stored_results.URI_PREFIX}../x",
        "docs://x",
        "",
    ):
        assert await stored_results.get(factories.credential(alice), wrong) is None


async def test_a_result_is_read_back_as_it_was(alice: Any) -> None:
    text = await stored_results.get(
        factories.credential(alice), await stored_results.put(alice.pk, "grüße\0".encode(), "text/plain")
    )
    assert text is not None and text.content() == {"uri": text.uri, "mimeType": "text/plain", "text": "grüße\0"}
    data = bytes(range(256)) * 1000
    image = await stored_results.get(
        factories.credential(alice), await stored_results.put(alice.pk, data, "image/png", is_text=False)
    )
    assert image is not None and image.body == data and "blob" in image.content()


async def test_the_job_deletes_expired_results_and_nothing_else(alice: Any) -> None:
    kept = await stored_results.put(alice.pk, b"new", "text/plain")
    await stored_results.put(alice.pk, b"old", "text/plain", seconds=-1)
    assert await sync_to_async(stored_results.remove_expired)() == 1
    assert (
        await StoredResult.objects.acount() == 1
        and await stored_results.get(factories.credential(alice), kept) is not None
    )


def put(user: Any, size: int, **options: Any) -> Any:
    """Store a result that takes `size` bytes in all."""
    return stored_results.put(user.pk, b"x" * (size - ROW_BYTES), "text/plain", **options)


async def test_a_result_beyond_the_quota_of_its_user_takes_the_place_of_the_oldest(
    alice: Any, bob: Any, settings: Any
) -> None:
    settings.STORED_RESULTS_USER_BYTES, settings.STORED_RESULTS_BYTES = 100_000, 1_000_000
    other = await put(bob, 90_000)
    first, second, third = [await put(alice, 40_000) for _ in range(3)]
    with pytest.raises(ResultRemoved):
        await stored_results.get(factories.credential(alice), first)
    for user, uri in ((alice, second), (alice, third), (bob, other)):
        assert await stored_results.get(factories.credential(user), uri) is not None
    assert await sync_to_async(stored_results.count_used_bytes)() == 170_000
    assert await stored_results.get(factories.credential(bob), first) is None, (
        "another user does not learn that there was one"
    )


async def test_the_oldest_of_all_users_goes_first_when_all_results_are_too_many(
    alice: Any, bob: Any, settings: Any
) -> None:
    settings.STORED_RESULTS_USER_BYTES, settings.STORED_RESULTS_BYTES = 100_000, 150_000
    oldest = await put(alice, 50_000)
    kept = [(bob, await put(bob, 50_000)), (alice, await put(alice, 50_000)), (bob, await put(bob, 50_000))]
    with pytest.raises(ResultRemoved):
        await stored_results.get(factories.credential(alice), oldest)
    for user, uri in kept:
        assert await stored_results.get(factories.credential(user), uri) is not None
    assert await sync_to_async(stored_results.count_used_bytes)() == 150_000


async def test_expired_results_go_before_any_other(alice: Any, settings: Any) -> None:
    settings.STORED_RESULTS_USER_BYTES = 100_000
    kept = await put(alice, 50_000)
    await put(alice, 50_000, seconds=-1)
    await put(alice, 50_000)
    assert await stored_results.get(factories.credential(alice), kept) is not None


async def test_a_result_larger_than_a_quota_is_truncated_with_the_cause_and_removes_nothing(
    alice: Any, settings: Any
) -> None:
    await run_in_database(publish, alice, "call_large")
    kept = await put(alice, 50_000)
    settings.STORED_RESULTS_USER_BYTES = 100_000
    result = await call(alice, "call_large", {"size": 200_000})
    assert "was truncated. It is larger than the space for stored results. Request less." in text(result)
    assert await stored_results.get(factories.credential(alice), kept) is not None
    settings.STORED_RESULTS_USER_BYTES = 0
    with pytest.raises(NoRoom):
        await put(alice, ROW_BYTES + 1)


async def test_reading_a_removed_result_says_what_happened_and_what_to_do(alice: Any, bob: Any, settings: Any) -> None:
    await run_in_database(publish, alice, "call_large")
    settings.STORED_RESULTS_USER_BYTES = 300_000
    links = [(await call(alice, "call_large", {"size": 200_000})).content[1]["uri"] for _ in range(2)]
    with pytest.raises(ResultRemoved, match=r".*") as removed:
        await call_tool.read_resource(caller(alice), links[0], RecordingChannel())
    assert "removed to make room" in removed.value.message and "Call the tool again" in removed.value.message
    with pytest.raises(UnknownResource) as unknown:
        await call_tool.read_resource(caller(bob), links[0], RecordingChannel())
    assert type(unknown.value) is UnknownResource, "not yours reads like not there"
    logged = [(row.outcome, row.detail) for row in await logged_calls(method="resources/read")]
    assert [detail for _, detail in logged] == [
        "removed to make room for newer results",
        "no such result, another user's or toolset's, or expired",
    ]
    assert (await call_tool.read_resource(caller(alice), links[1], RecordingChannel())).contents


async def test_the_job_removes_what_lowered_quotas_no_longer_hold(alice: Any, bob: Any, settings: Any) -> None:
    uris = [(user, await put(user, 50_000)) for user in (alice, bob, alice, bob)]
    settings.STORED_RESULTS_USER_BYTES, settings.STORED_RESULTS_BYTES = 60_000, 60_000
    await sync_to_async(stored_results.clean_up)()
    assert await sync_to_async(stored_results.count_used_bytes)() == 50_000
    assert await stored_results.get(factories.credential(uris[3][0]), uris[3][1]) is not None
    await StoredResult.objects.aupdate(expires_at="2020-01-01T00:00:00Z")
    await sync_to_async(stored_results.clean_up)()
    assert await StoredResult.objects.acount() == 0


async def test_an_almost_full_disk_keeps_no_large_results_and_the_call_still_answers(alice: Any, settings: Any) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("the disk of a PostgreSQL server cannot be asked")
    await run_in_database(publish, alice, "call_large")
    settings.MIN_FREE_MB = 10**9
    with pytest.raises(NoRoom):
        await put(alice, 50_000)
    assert await StoredResult.objects.acount() == 0


def test_sizes_are_counted_without_reading_a_body(alice: Any) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("the plan of SQLite")
    everything = StoredResult.objects.filter(removed=False)
    for results in (everything, everything.filter(user=alice)):
        for plan in (results.order_by("created_at", "pk").values("pk", "size"), results.order_by().values("size")):
            assert "USING COVERING INDEX stored_result_size" in plan.explain()
