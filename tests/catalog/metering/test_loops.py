"""The same call and the same error again: what counts as the same, what begins anew, and when the window ends."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import uuid4

import pytest
from django.core.cache import caches
from django_ratelimit.core import _split_rate

from catalog.metering.loops import Loop, digest_arguments, find_loop, note_end
from catalog.policy.definitions import LimitRule
from tests.catalog.metering.redis_limits import LimitsRedis, hang_up
from tests.polling import wait_until
from toolhub import rates

LAPTOP, PHONE = "token:1", "token:2"
TOOL, OTHER_TOOL = 7, 8
ERROR = "The table “orders” does not exist."


def rule_of(rate: str = "3/10m", number: int = 1) -> LimitRule:
    return LimitRule(number, "all", None, "each_user", None, rate, measure="errors")


def fail(rule: LimitRule, times: int = 1, error: str = ERROR, credential: str = LAPTOP, tool: int = TOOL) -> None:
    for _ in range(times):
        note_end([rule], credential, tool, error)


def find(rule: LimitRule, credential: str = LAPTOP, tool: int = TOOL) -> Loop | None:
    return find_loop(rule, credential, tool)


# --- refused ---------------------------------------------------------------------------------------------------------


def test_the_tool_is_refused_after_the_same_error_so_often_in_a_row_with_the_error_and_the_time(counter: None) -> None:
    rule = rule_of("3/10m")
    fail(rule, 2)
    assert find(rule) is None
    fail(rule)
    loop = find(rule)
    assert loop is not None
    assert (loop.count, loop.error) == (3, ERROR)
    assert 590 <= loop.seconds <= 600


def test_errors_that_differ_in_the_ids_of_calls_alone_are_the_same(counter: None) -> None:
    rule = rule_of()
    for number in (uuid4(), uuid4().hex, str(uuid4()).upper()):
        fail(rule, error=f"Call {number} failed: no such table.")
    assert find(rule) is not None


def test_calls_that_end_at_the_same_time_with_the_same_error_all_count(counter: None) -> None:
    rule, start = rule_of("20/h"), threading.Barrier(10)

    def work() -> None:
        start.wait(60)
        try:
            fail(rule, 2)
        finally:
            if hasattr(caches["limits"], "_cache") and hasattr(caches["limits"]._cache, "_pools"):
                hang_up()

    threads = [threading.Thread(target=work) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    loop = find(rule)
    assert loop is not None and loop.count == 20


def test_the_error_is_shown_on_one_line_of_300_characters_without_hidden_ones(counter: None) -> None:
    rule = rule_of("1/m")
    fail(rule, error="Bad\nline\u202e and \x1b[31mred " + "x" * 1_000)
    loop = find(rule)
    assert loop is not None
    assert len(loop.error) == 300 and "\n" not in loop.error and "\u202e" not in loop.error and "\x1b" not in loop.error


def test_long_errors_that_differ_at_their_end_are_not_the_same(counter: None) -> None:
    rule = rule_of("2/m")
    fail(rule, error="x" * 5_000 + "a")
    fail(rule, error="x" * 5_000 + "b")
    assert find(rule) is None


@pytest.mark.parametrize("error", ["", "\ud800", "\x00"])
def test_any_text_is_an_error(error: str, counter: None) -> None:
    rule = rule_of("2/m")
    fail(rule, 2, error)
    assert find(rule) is not None


# --- begins anew -----------------------------------------------------------------------------------------------------


def test_a_call_without_an_error_begins_anew(counter: None) -> None:
    rule = rule_of()
    fail(rule, 2)
    note_end([rule], LAPTOP, TOOL, None)
    fail(rule, 2)
    assert find(rule) is None
    fail(rule)
    note_end([rule], LAPTOP, TOOL, None)
    assert find(rule) is None, "the end of a call that was still running"


def test_another_error_begins_anew(counter: None) -> None:
    rule = rule_of()
    fail(rule, 2)
    fail(rule, error="Out of memory.")
    fail(rule, 2)
    assert find(rule) is None
    fail(rule)
    assert find(rule) == Loop(3, 600, ERROR)


def test_the_tool_is_free_again_when_the_window_of_the_first_error_ends(counter: None) -> None:
    rule, began = rule_of("2/s"), time.time()
    fail(rule, 2)
    wait_until(lambda: find(rule) is None, what="the end of the window")
    assert time.time() - began >= 0.99
    fail(rule)
    assert find(rule) is None, "it counts from one"


def test_errors_in_the_window_do_not_prolong_it(counter: None) -> None:
    rule, began = rule_of("1/2s"), time.time()

    def fail_again() -> bool:
        note_end([rule], LAPTOP, TOOL, ERROR)
        loop = find(rule)
        return loop is not None and loop.count == 1 and time.time() - began > 1

    fail(rule)
    wait_until(fail_again, what="a window of its own for an error after the first one")
    assert time.time() - began >= 1.99


# --- apart -----------------------------------------------------------------------------------------------------------


def test_another_credential_another_tool_and_another_limit_are_apart(counter: None) -> None:
    rule = rule_of("2/m")
    fail(rule, 2)
    assert find(rule) is not None
    assert find(rule, credential=PHONE) is None
    assert find(rule, tool=OTHER_TOOL) is None
    assert find_loop(rule_of("2/m", 2), LAPTOP, TOOL) is None
    note_end([rule], PHONE, TOOL, None)
    note_end([rule], LAPTOP, OTHER_TOOL, None)
    assert find(rule) is not None


def test_a_credential_may_have_any_id(counter: None) -> None:
    rule = rule_of("2/m")
    for credential in ("oauth: a b", "x" * 500, "é\n"):
        fail(rule, 2, credential=credential)
        assert find(rule, credential=credential) is not None


def test_each_limit_has_its_own_number_and_window(counter: None) -> None:
    rules = [rule_of("2/m", 1), rule_of("3/2h", 2)]
    for _ in range(2):
        note_end(rules, LAPTOP, TOOL, ERROR)
    assert [find(rule) is not None for rule in rules] == [True, False]
    note_end(rules, LAPTOP, TOOL, ERROR)
    assert [loop.seconds for rule in rules if (loop := find(rule))] == [60, 7_200]
    note_end(rules, LAPTOP, TOOL, None)
    assert [find(rule) for rule in rules] == [None, None]


# --- Redis is away ---------------------------------------------------------------------------------------------------


@pytest.mark.redis
def test_while_redis_is_away_this_process_notes_errors_for_itself(redis: LimitsRedis) -> None:
    rule = rule_of("2/h")
    redis.stop()
    fail(rule, 2)
    assert find(rule) is not None
    note_end([rule], LAPTOP, TOOL, None)
    assert find(rule) is None
    redis.start()


@pytest.mark.redis
def test_a_success_also_ends_what_was_noted_while_redis_was_away(redis: LimitsRedis) -> None:
    rule = rule_of("2/h")
    redis.stop()
    fail(rule, 2)
    redis.start()
    redis.answer_again()
    note_end([rule], LAPTOP, TOOL, None)
    redis.stop()
    assert find(rule) is None
    redis.start()


# --- the same call ---------------------------------------------------------------------------------------------------


def test_arguments_are_the_same_whatever_the_order_of_their_names() -> None:
    assert digest_arguments({"a": 1, "b": {"c": [1, 2], "d": None}}) == digest_arguments(
        {"b": {"d": None, "c": [1, 2]}, "a": 1}
    )


@pytest.mark.parametrize(
    "other", [{"a": [2, 1]}, {"a": ["1", 2]}, {"a": [True, 2]}, {"a": [1, 2], "b": None}, [["a", [1, 2]]], {}, None]
)
def test_other_arguments_are_not_the_same(other: Any) -> None:
    assert digest_arguments({"a": [1, 2]}) != digest_arguments(other)


def test_nobody_can_guess_arguments_from_their_digest(settings: Any) -> None:
    before = digest_arguments({"pin": "1234"})
    settings.SECRET_KEY = "another-key-" + "k" * 50
    assert digest_arguments({"pin": "1234"}) != before


def test_what_is_no_json_has_no_digest() -> None:
    with pytest.raises(ValueError):
        digest_arguments({"a": float("nan")})


def test_arguments_with_lone_surrogates_have_a_digest() -> None:
    assert digest_arguments({"a": "\ud800"}) != digest_arguments({"a": "\\ud800"})


def test_the_window_of_a_rate_is_that_of_the_library() -> None:
    for rate in ("3/s", "3/10m", "100/2h", "7/d"):
        assert rates.split(rate) == _split_rate(rate)
