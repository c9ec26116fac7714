"""Hints: after an error its next step, by code or pattern, of the tool or the common one."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from catalog.errors import ToolError
from catalog.functions.content import Result, Text
from catalog.runners import hints, registry
from catalog.runners.hints import DEFAULTS, Hint, find
from tests.catalog.local_api import Api
from tests.catalog.local_api import api as api
from tests.runners.harness import make_script, produce_result, run, texts

HTTP = {"url": "http://api.example.com/"}


async def fail(kind: str, settings: dict[str, Any], **arguments: Any) -> str:
    with pytest.raises(ToolError) as failed:
        await run(kind, settings, arguments)
    return str(failed.value)


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "says"),
    [
        ({"text": "Wait."}, "a code, a pattern, or both"),
        ({"code": "404"}, "text"),
        ({"code": "404", "text": " "}, "enter the next step"),
        ({"code": "404", "text": "x" * 501}, "text"),
        ({"code": "not found!", "text": "x"}, "enter a code such as 404"),
        ({"pattern": "(", "text": "x"}, "cannot be used"),
        ({"pattern": "(?=x)", "text": "x"}, "cannot be used"),
        ({"pattern": "x" * 201, "text": "x"}, "pattern"),
        ({"code": "404", "text": "x", "status": 404}, "status"),
    ],
)
def test_a_hint_that_could_not_be_meant_is_refused_with_the_reason(hint: dict[str, Any], says: str) -> None:
    for kind, settings in (("http_api", HTTP), ("command", {"program": "wc"})):
        with pytest.raises(ValueError, match=says):
            registry.parse_settings(kind, {**settings, "hints": [hint]})
    with pytest.raises(ValueError, match="hints"):
        registry.parse_settings("http_api", {**HTTP, "hints": [{"code": "404", "text": "x"}] * 31})


def test_a_pattern_costs_no_more_than_its_budget() -> None:
    slow = Hint(pattern="(x{0,30}){0,30}y", text="never")
    began = time.monotonic()
    assert find([slow] * hints.MAX_HINTS, "", "x" * 1_000_000) == ""
    assert time.monotonic() - began < 30  # bounded by work, whatever the machine does meanwhile
    assert find([Hint(pattern="y", text="found")], "", "x" * hints.MAX_SEARCHED_CHARACTERS + "y") == ""


# --- what works ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "code", "text", "fits"),
    [
        ({"code": "404"}, "404", "", True),
        ({"code": "4xx"}, "404", "", True),
        ({"code": "4XX"}, "404", "", True),
        ({"code": "4xx"}, "500", "", False),
        ({"code": "4xx"}, "", "", False),
        ({"code": "timeout"}, "timeout", "", True),
        ({"code": "-32602"}, "-32602", "", True),
        ({"pattern": "no such \\w+"}, "", "there is no such column", True),
        ({"pattern": "no such"}, "404", "gone", False),
        ({"code": "404", "pattern": "user"}, "404", "no user 7", True),
        ({"code": "404", "pattern": "user"}, "403", "no user 7", False),
    ],
)
def test_a_hint_fits_by_code_and_pattern(hint: dict[str, str], code: str, text: str, fits: bool) -> None:
    assert find([Hint(**hint, text="Do this.")], code, text) == ("Next step: Do this." if fits else "")


def test_the_first_that_fits_counts_before_the_common_one() -> None:
    own = [Hint(code="404", pattern="user", text="List the users."), Hint(code="4xx", text="Ask again.")]
    assert find(own, "404", "no user", DEFAULTS) == "Next step: List the users."
    assert find(own, "403", "", DEFAULTS) == "Next step: Ask again."
    assert find(own, "503", "", DEFAULTS) == f"Next step: {DEFAULTS['5xx'].format(contact='your administrator')}"
    assert find(own, "418", "", DEFAULTS) == "Next step: Ask again." and find([], "418", "", DEFAULTS) == ""


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 429, 500, 502])
async def test_an_error_of_an_api_ends_with_the_next_step(api: Api, status: int) -> None:
    api.answers["/x"] = (status, "text/plain", b"no")
    said = await fail("http_api", {"url": f"{api.url}/x", "retries": 0})
    default = DEFAULTS.get(str(status), DEFAULTS["5xx"]).format(contact="your administrator")
    assert said == f"The API answered with status {status}. no Next step: {default}"
    own = [{"code": f"{status // 100}xx", "pattern": "no", "text": "Take the other one."}]
    said = await fail("http_api", {"url": f"{api.url}/x", "retries": 0, "hints": own})
    assert said == f"The API answered with status {status}. no Next step: Take the other one."


async def test_a_status_without_a_hint_stays_as_it_is(api: Api) -> None:
    api.answers["/x"] = (418, "text/plain", b"no")
    assert await fail("http_api", {"url": f"{api.url}/x"}) == "The API answered with status 418. no"


async def test_an_api_that_asks_to_wait_is_quoted(api: Api) -> None:
    api.answers["/x"] = (429, "text/plain", b"")
    for header, says in (("Retry-After: 30", " and asks to wait 30 s."), ("Retry-After: soon", "429.")):
        api.extra = f"{header}\r\n"
        assert says in await fail("http_api", {"url": f"{api.url}/x"})


async def test_an_api_that_is_slow_or_away_has_a_hint_too(api: Api) -> None:
    late = await fail("http_api", {"url": f"{api.url}/hold", "timeout": 0.2, "retries": 0})
    assert late.endswith(DEFAULTS["timeout"])
    own = [{"code": "unreachable", "text": "Start the service."}]
    api.troubles["/x"] = 10
    away = await fail("http_api", {"url": f"{api.url}/x", "retries": 0, "hints": own})
    assert away.endswith("Next step: Start the service.")


async def test_a_program_has_hints_by_its_status_and_by_what_it_wrote(tmp_path: Path, settings: Any) -> None:
    program = make_script(tmp_path, "fail", "import sys; sys.stderr.write('no such file'); sys.exit(int(sys.argv[1]))")
    settings.COMMANDS = [program]
    own = [{"code": "3", "text": "Wait."}, {"pattern": "no such file", "text": "List the files."}]
    for status, hint in ((3, "Wait."), (4, "List the files.")):
        made = await produce_result("command", {"program": program, "arguments": [str(status)], "hints": own}, {})
        assert made.is_error and texts(made)[-1] == f"Next step: {hint}"
    made = await produce_result("command", {"program": program, "arguments": ["0"], "hints": own}, {})
    assert not made.is_error and "Next step" not in "".join(texts(made))
    assert sys.executable


async def test_a_query_has_hints_by_what_the_database_said(tmp_path: Path, settings: Any) -> None:
    (tmp_path / "db").touch()
    settings.SQL_DATABASES = {"sales": f"sqlite:///{tmp_path}/db"}
    query = {"database": "sales", "statement": "SELECT a FROM sales"}
    own = [{"pattern": "no such table: sales", "text": "Ask for the list of tables."}]
    said = await fail("sql_query", {**query, "hints": own})
    assert "no such table" in said and said.endswith("Next step: Ask for the list of tables.")


async def test_a_result_with_an_error_keeps_its_content_and_gets_the_hint() -> None:
    async def refuse(arguments: Any, context: Any) -> Result:
        return Result([Text("no project 7")], structured={"n": 1}, is_error=True, code="x")

    hinted = hints.with_hints(refuse, [Hint(pattern="no project", text="List the projects.")])
    result = await hinted({}, None)  # type: ignore[arg-type]
    assert result.content == [Text("no project 7"), "Next step: List the projects."] and result.structured == {"n": 1}
