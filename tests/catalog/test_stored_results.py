"""Results that are kept because they were too large."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async

from catalog.calls import stored_results
from catalog.models import StoredResult
from tests import factories

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
