"""The runner of registered functions."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.runners import factory, registry
from tests.catalog import tools  # noqa: F401 - registers the functions
from tests.catalog.pipeline import call, publish, run_in_database, text


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({}, "function: Field required"),
        ({"function": ""}, "function: String should have at least 1 character"),
        ({"function": "x", "shell": True}, "shell: Extra inputs are not permitted"),
        ({"function": 5}, "function: Input should be a valid string"),
        ("function", "Input should be a valid dictionary"),
    ],
)
def test_wrong_settings_are_named(settings: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        registry.parse_settings("python_function", settings)


def test_an_unknown_kind_of_runner_is_none() -> None:
    with pytest.raises(KeyError):
        registry.parse_settings("magic", {})


def test_a_function_that_is_not_registered_cannot_be_prepared() -> None:
    with pytest.raises(LookupError):
        factory.prepare("python_function", {"function": "os.system"})


@pytest.mark.django_db(transaction=True)
async def test_functions_run_on_the_loop_or_in_a_thread_as_they_are_written(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add", "call_double")
    assert text(await call(alice, "call_add", {"a": 1.5, "b": 2})) == "3.5"
    assert text(await call(alice, "call_double", {"n": 21})) == "42 in tool"
    assert text(await call(alice, "call_double", {"n": 21.0})) == "42 in tool"


@pytest.mark.django_db(transaction=True)
async def test_an_argument_that_a_wider_schema_lets_in_is_not_handed_over(alice: Any) -> None:
    await run_in_database(publish, alice, "call_add", input_schema={"type": "object"})
    assert text(await call(alice, "call_add", {"a": 1, "b": 2, "c": 3})) == "3"
    assert (await call(alice, "call_add", {"a": 1})).is_error
