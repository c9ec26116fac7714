"""The test of an upstream server in a browser: each step shows when it begins, and the reader can stop it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.browser import meeting
from tests.browser.axe import find_violations
from tests.browser.conftest import Window
from tests.real_servers import Hub
from tests.runners.upstream import Upstream

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
WAIT_SECONDS = 60


class SlowUpstream(Upstream):
    """It says which tools it has when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()

    async def _list(self, context: Any, params: Any) -> Any:
        await asyncio.to_thread(self.may_answer.wait, WAIT_SECONDS)
        return await super()._list(context, params)


@pytest.fixture
def slow() -> Iterator[SlowUpstream]:
    upstream = SlowUpstream()
    with upstream.running():
        yield upstream
        upstream.may_answer.set()


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=meeting.seed, env={"TOOLHUB_ALLOW_PRIVATE_NETWORKS": "127.0.0.0/8"}) as hub:
        yield hub


@pytest.fixture
def testing(hub: Hub, slow: SlowUpstream, window: Windows) -> Window:
    """The administrator's window while the server is asked for its tools."""
    number = hub.call(meeting.add_upstream, url=slow.url, name=f"server-{slow.port}")
    mine = window(reduced_motion="reduce")
    mine.sign_in("root", f"/admin/login/?next=/admin/catalog/upstream/{number}/tools/")
    mine.page.click("button[value=test]")
    mine.page.wait_for_selector("[data-step=tool][data-state=running]")
    return mine


def read_states(page: Any) -> dict[str, str]:
    steps = page.locator("#upstream-test [data-step]").all()
    return {one.get_attribute("data-step"): one.get_attribute("data-state") for one in steps}


def test_each_step_shows_while_it_runs_and_the_end_says_what_was_found(testing: Window, slow: SlowUpstream) -> None:
    page = testing.page
    assert read_states(page) == {"connect": "done", "initialize": "done", "tool": "running"}
    assert page.inner_text("#upstream-test [role=status]") == ""
    assert find_violations(page) == [] and testing.too_wide() == ""
    slow.may_answer.set()
    page.wait_for_selector("#upstream-test [role=status][data-end=good]")
    assert set(read_states(page).values()) == {"done"}
    assert f"{len(slow.tools)} found" in page.inner_text("[data-step=tool]")
    assert f"{len(slow.tools)} tools" in page.inner_text("#upstream-test [role=status]")
    assert page.locator("#upstream-test button").is_hidden()


def test_who_cancels_is_told_so_and_can_test_again(testing: Window, slow: SlowUpstream) -> None:
    page = testing.page
    page.click("#upstream-test button")
    page.wait_for_selector("#upstream-test [role=status]:text-is('The test was cancelled.')")
    assert read_states(page)["tool"] == "failed"
    assert page.evaluate("document.activeElement.value") == "test"
    slow.may_answer.set()
    page.keyboard.press("Enter")
    page.wait_for_selector("#upstream-test [role=status][data-end=good]")


def test_a_server_that_is_gone_ends_the_test_at_its_step_with_the_reason(testing: Window, slow: SlowUpstream) -> None:
    page = testing.page
    slow.may_answer.set()
    page.wait_for_selector("#upstream-test [data-end=good]")
    slow.stop()
    page.click("button[value=test]")
    page.wait_for_selector("#upstream-test [role=status][data-end=bad]")
    assert len(page.inner_text("#upstream-test [role=status]")) > 20
    assert [step for step, state in read_states(page).items() if state == "failed"] == ["connect"]
