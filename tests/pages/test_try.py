"""Try it: through the call pipeline, logged with the name of who tried, live, and cancelled like any other call."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from catalog.schemas import validator
from catalog.schemas.errors import SchemaProblem
from tests.pages import try_seed
from tests.pages.try_person import Person
from tests.pages.try_tools import HOSTILE, LARGE_CHARACTERS, PICTURE
from tests.polling import wait_until
from tests.real_servers import Hub
from toolhub.pages.try_it import form as try_form

MODULES = {"TOOLHUB_TOOL_MODULES": "catalog.examples,tests.pages.try_tools"}


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=try_seed.seed, env=MODULES) as hub:
        yield hub


@pytest.fixture(scope="module")
def root(hub: Hub) -> Iterator[Person]:
    with Person(hub, "root") as person:
        yield person


def get_call(hub: Hub, call: str) -> dict[str, Any]:
    (found,) = [row for row in hub.call(try_seed.list_calls) if row["id"] == call]
    return found


# --- the form ------------------------------------------------------------------------------------------------------


def fill_form(schema: dict[str, Any], **values: str) -> list[try_form.Field]:
    fields = try_form.fields_of(schema)
    try_form.fill_fields(fields, {f"argument.{name}": value for name, value in values.items()})
    return fields


def test_a_parameter_whose_name_reads_like_a_problem_is_marked_itself() -> None:
    odd = 'x": is required'
    schema = {"type": "object", "properties": {"x": {"type": "integer"}, odd: {"type": "integer", "maximum": 3}}}
    check = validator.validator("odd-name", {**schema, "required": ["x"]})
    plain, strange = fields = try_form.fields_of(schema)
    problem = check({"x": 1, odd: 4})
    assert problem is not None and str(problem) == f'argument "{odd}": expected at most 3, got integer 4'
    assert try_form.place_error(fields, problem) == ""
    assert (plain.error, strange.error) == ("", "expected at most 3, got integer 4")
    missing = check({odd: 1})
    assert missing is not None and try_form.place_error(fields, missing) == "" and plain.error == "is required"


def test_a_problem_inside_a_field_names_its_place_and_one_of_no_field_is_handed_back() -> None:
    fields = try_form.fields_of({"type": "object", "properties": {"a": {}, "a.b": {}}})
    assert try_form.place_error(fields, SchemaProblem(("a", "b", 0), "missing")) == ""
    assert [field.error for field in fields] == ['argument "a.b[0]": is required', ""]
    assert try_form.place_error(fields, SchemaProblem((), "too_large", {"limit": 5})) == (
        "The arguments are larger than 5 bytes."
    )


def test_invalid_values_are_reported_at_their_field() -> None:
    wrong = {"a": "many", "tags": "[1,", "sure": "perhaps", "mode": "fast"}
    fields = fill_form(try_seed.FIELDS, **wrong)
    assert try_form.read_arguments(fields) is None
    errors = {field.name: field.error for field in fields}
    assert "must be a number" in errors["a"]
    assert "line 1" in errors["tags"]
    assert "Choose one" in errors["sure"]
    assert "Choose one" in errors["mode"]  # values are JSON: "fast" comes as '"fast"'
    assert (errors["b"], errors["note"]) == ("", "")
    (missing, *_) = fill_form(try_seed.FIELDS)
    assert try_form.read_arguments([missing]) is None
    assert "required" in missing.error


def test_typed_values_become_arguments_of_their_own_type_and_empty_fields_are_not_given() -> None:
    values = {"a": "1e3", "b": "90071992547409931", "note": "1", "mode": '"slow"', "sure": "false", "tags": '["x"]'}
    assert try_form.read_arguments(fill_form(try_seed.FIELDS, **values)) == {
        "a": 1000.0,
        "b": 90071992547409931,
        "note": "1",
        "mode": "slow",
        "sure": False,
        "tags": ["x"],
    }
    assert try_form.read_arguments(fill_form(try_seed.FIELDS, a="2")) == {"a": 2}
    kinds = {field.name: (field.kind, field.value) for field in try_form.fields_of(try_seed.FIELDS)}
    assert kinds["b"] == ("number", "2")
    assert kinds["mode"] == ("choice", '"fast"')
    assert kinds["tags"][0] == "json"


@pytest.mark.parametrize("number", ["1e999", "NaN", "Infinity", "1,5", "0x10", "١"])
def test_numbers_that_json_does_not_have_are_rejected(number: str) -> None:
    (field, *_) = fill_form(try_seed.FIELDS, a=number)
    assert try_form.read_arguments([field]) is None, field.value


# --- refusals ------------------------------------------------------------------------------------------------------


def test_running_as_somebody_else_needs_a_permission_of_its_own(hub: Hub) -> None:
    before = len(hub.call(try_seed.list_calls))
    with Person(hub, "helper") as helper:
        address = f"/admin/catalog/tool/{hub.seeded['try_everything']}/try/"
        assert helper.post(address, user="alice").status_code == 403
        assert len(hub.call(try_seed.list_calls)) == before
        page = helper.http.get(address).text
        assert 'name="user"' not in page
        done = helper.outcome(helper.try_tool(hub.seeded["try_everything"], "helper"))
        assert get_call(hub, done["id"])["username"] == "helper"
        assert "/calls/" in done["outcome"], "a call of one's own can be read without the permission for the record"


def test_somebody_elses_try_is_absent(hub: Hub, root: Person) -> None:
    done = root.outcome(root.try_tool(hub.seeded["try_everything"]))
    with Person(hub, "helper") as helper:
        for method, address in (
            ("GET", done["addresses"]["state"]),
            ("POST", done["addresses"]["cancel"]),
            ("POST", done["addresses"]["answer"]),
            ("GET", f"{done['addresses']['state']}part/2/"),
        ):
            answer = helper.http.get(address) if method == "GET" else helper.post(address)
            assert answer.status_code == 404, address
    other = done["addresses"]["state"].replace(f"/{hub.seeded['try_everything']}/", f"/{hub.seeded['add']}/")
    assert root.http.get(other).status_code == 404


def test_a_denied_try_names_the_rule_and_is_logged(hub: Hub, root: Person) -> None:
    refused = root.try_tool(hub.seeded["try_everything"], "charlie")
    assert refused["refused"]
    assert refused["message"].startswith("charlie does not have access to this tool. The attempt was logged.")
    assert refused["message"].endswith("Reason: Only other people have access.")
    last = hub.call(try_seed.list_calls)[-1]
    assert (last["username"], last["outcome"], last["transport"]) == ("charlie", "refused", "admin")
    assert last["credential"] == "tried in the admin by root"
    assert root.try_tool(hub.seeded["add"], "nobody-of-this-name", a=1)["errors"].keys() == {"user"}


def test_a_superuser_has_no_access_without_a_grant(hub: Hub, root: Person) -> None:
    assert "root does not have access to this tool" in root.try_tool(hub.seeded["try_everything"], "root")["message"]


def test_wrong_arguments_appear_at_their_field_whether_the_page_or_the_call_pipeline_finds_them(
    hub: Hub, root: Person
) -> None:
    before = len(hub.call(try_seed.list_calls))
    assert "must be a number" in root.try_tool(hub.seeded["add"], a="x")["errors"]["argument-0"]
    assert len(hub.call(try_seed.list_calls)) == before, "what cannot be sent was not attempted"
    refused = root.try_tool(hub.seeded["add"], a=1, note="longer than twenty characters")
    assert "at most 20 characters" in refused["errors"]["argument-2"]
    assert hub.call(try_seed.list_calls)[-1]["outcome"] == "invalid_arguments"
    assert f"/admin/audit/call/{hub.call(try_seed.list_calls)[-1]['id']}/" in refused["record"]


def test_a_tool_is_tried_in_the_form_of_the_chosen_user(hub: Hub, root: Person) -> None:
    address = f"/admin/catalog/tool/{hub.seeded['bounded']}/try/"
    own, theirs = (root.http.get(address + f"?user={user}").text for user in ("root", "alice"))
    assert 'name="argument.b"' in own and 'name="argument.b"' not in theirs
    assert '<option value="2"' in theirs and '<option value="2"' not in own
    assert "42" in str(root.outcome(root.try_tool(hub.seeded["bounded"], a=2)))
    assert hub.call(try_seed.list_calls)[-1]["outcome"] == "ok"
    refused = root.try_tool(hub.seeded["bounded"], a=2, b=1)
    assert "not known" in refused["errors"]["argument-1"]


def test_the_users_limits_count_and_the_page_says_which_one_was_reached(hub: Hub, root: Person) -> None:
    assert root.outcome(root.try_tool(hub.seeded["limited"], a=1))["ended"]
    refused = root.try_tool(hub.seeded["limited"], a=1)
    assert "1/d on tool try_limited" in refused["message"]
    assert hub.call(try_seed.list_calls)[-1]["outcome"] == "limited"


# --- what happens --------------------------------------------------------------------------------------------------


def test_progress_shows_while_it_runs_and_the_audit_log_names_the_user_and_the_administrator(
    hub: Hub, root: Person, tmp_path: Path
) -> None:
    state = root.try_tool(hub.seeded["try_steps"], go_on=tmp_path / "go")
    assert not state["ended"]
    wait_until(lambda: (root.look(state)["progress"] or {}).get("message") == "the first step", what="progress")
    assert root.look(state)["progress"]["total"] == 3
    wait_until(lambda: "looked around" in root.look(state)["log"], what="the log line")
    assert get_call(hub, state["id"])["outcome"] == "running"
    (tmp_path / "go").touch()
    assert "alice went on" in root.outcome(state)["outcome"]
    kept = get_call(hub, state["id"])
    assert (kept["username"], kept["outcome"], kept["transport"]) == ("alice", "ok", "admin")
    assert (kept["credential"], kept["client_name"]) == ("tried in the admin by root", "toolhub admin")
    tried = hub.call(try_seed.list_actions, kind="tool", verb="tried")
    assert any(each["actor"] == "root" and json.loads(each["after"]) == {"as": "alice"} for each in tried)


def test_the_call_survives_its_page_and_a_page_opened_later_shows_it(hub: Hub, root: Person, tmp_path: Path) -> None:
    address = f"/admin/catalog/tool/{hub.seeded['try_steps']}/try/"
    csrf = root.http.cookies.get("toolhub_csrf")
    form = {"user": "alice", "argument.go_on": str(tmp_path / "go"), "csrfmiddlewaretoken": csrf}
    sent = root.http.post(address, data=form)  # as a browser without scripts
    assert sent.status_code == 302
    running = root.http.get(sent.headers["Location"]).text
    assert str(tmp_path / "go") in running, "the form keeps what was typed"
    (tmp_path / "go").touch()
    wait_until(lambda: "alice went on" in root.http.get(sent.headers["Location"]).text, what="the result")


def test_cancelling_ends_the_call_and_the_audit_log_says_by_whom(hub: Hub, root: Person, tmp_path: Path) -> None:
    state = root.try_tool(hub.seeded["try_steps"], go_on=tmp_path / "never")
    assert root.post(state["addresses"]["cancel"]).status_code == 200
    assert "The call was cancelled" in root.outcome(state)["outcome"]
    kept = get_call(hub, state["id"])
    assert (kept["outcome"], kept["detail"]) == ("cancelled", "cancelled in the admin by root")


def test_disabling_an_account_ends_its_running_calls(hub: Hub, root: Person, tmp_path: Path) -> None:
    state = root.try_tool(hub.seeded["try_steps"], go_on=tmp_path / "never")
    try:
        hub.call(try_seed.switch_off, username="alice")
        assert "Access was revoked" in root.outcome(state)["outcome"]
    finally:
        hub.call(try_seed.switch_on, username="alice")
    assert get_call(hub, state["id"])["outcome"] == "cancelled"
    wait_until(lambda: "refused" not in root.try_tool(hub.seeded["try_everything"]), what="alice's account to be back")


def test_a_question_of_the_tool_is_answered_in_the_page(hub: Hub, root: Person) -> None:
    state = root.try_tool(hub.seeded["try_ask"])
    wait_until(lambda: "What is your &lt;b&gt;name" in root.look(state)["questions"], what="the question")
    wrong = {"key": "elicit_1", "action": "accept", "argument.name": "J"}
    still = root.post(state["addresses"]["answer"], **wrong).json()
    assert "at least 2 characters" in still["questions"]
    assert not still["ended"]
    root.post(state["addresses"]["answer"], **{**wrong, "argument.name": "Jo", "argument.age": "7"})
    outcome = root.outcome(state)["outcome"]
    assert "accept" in outcome and "Jo" in outcome and "7" in outcome


def test_a_question_can_be_declined(hub: Hub, root: Person) -> None:
    state = root.try_tool(hub.seeded["try_ask"])
    wait_until(lambda: root.look(state)["questions"].strip(), what="the question")
    root.post(state["addresses"]["answer"], key="elicit_1", action="decline")
    assert "decline" in root.outcome(state)["outcome"]


def test_unsupported_capabilities_are_refused_as_for_a_client_without_them(hub: Hub, root: Person) -> None:
    outcome = root.outcome(root.try_tool(hub.seeded["try_sample"]))["outcome"]
    assert "did not declare the capability &#x27;sampling&#x27;" in outcome
    assert "isError" in outcome


def test_every_kind_of_content_is_shown_by_the_type_of_its_bytes(hub: Hub, root: Person) -> None:
    done = root.outcome(root.try_tool(hub.seeded["try_everything"]))
    outcome = done["outcome"]
    assert HOSTILE not in outcome and "<script>alert" not in outcome and "<svg" not in outcome
    assert "&quot;b&quot;: 1" in outcome
    assert '<a href="https://example.com/report"' in outcome
    assert 'href="file:' not in outcome
    parts = f"{done['addresses']['state']}part"
    picture = root.http.get(f"{parts}/2/")
    assert (picture.headers["content-type"], picture.content) == ("image/png", PICTURE)
    assert "sandbox" in picture.headers["content-security-policy"]
    assert root.http.get(f"{parts}/3/").headers["content-type"] == "audio/wav"
    drawn = root.http.get(f"{parts}/4/")
    assert drawn.headers["content-type"] == "application/octet-stream"
    assert drawn.headers["content-disposition"].startswith("attachment")
    assert root.http.get(f"{parts}/0/").status_code == 404
    assert root.http.get(f"{parts}/99/").status_code == 404


def test_a_secret_that_the_output_schema_marks_is_hidden_in_the_result_and_in_its_text(hub: Hub, root: Person) -> None:
    outcome = root.outcome(root.try_tool(hub.seeded["try_secret"]))["outcome"]
    assert "sesame" not in outcome and "$redacted" in outcome
    assert "&quot;account&quot;: &quot;Ann&quot;" in outcome and "at the door of Ann" in outcome


def test_arguments_can_be_written_as_json_and_turned_into_fields_and_back(hub: Hub, root: Person) -> None:
    address = f"/admin/catalog/tool/{hub.seeded['add']}/try/"
    typed = {"user": "alice", "switch": "1", "argument.a": "5", "argument.tags": '["x"]'}
    page = root.post(address, mode="form", **typed).text
    assert '<textarea class="th-input code" id="arguments"' in page and "&quot;a&quot;: 5" in page
    assert root.post(address, mode="json", user="alice", arguments='{"a": 5, "b": 6}').json()["id"]
    refused = root.post(address, mode="json", user="alice", arguments="[5]").json()
    assert "must be a JSON object" in refused["message"]


@pytest.mark.parametrize("lost", ["try_tool_as_other", "try_tool", "staff"])
def test_losing_the_permission_to_try_cancels_the_call_on_every_page_and_is_logged(
    hub: Hub, tmp_path: Path, lost: str
) -> None:
    with Person(hub, "deputy") as deputy:
        done = deputy.outcome(deputy.try_tool(hub.seeded["try_everything"]))
        running = deputy.try_tool(hub.seeded["try_steps"], go_on=tmp_path / "never")
        try:
            hub.call(try_seed.take_away, username="deputy", what=lost)
            refused = 302 if lost == "staff" else 403  # to the admin's sign-in
            for address in (running["addresses"]["state"], f"{done['addresses']['state']}part/2/"):
                assert deputy.http.get(address).status_code == refused, address
            wait_until(lambda: get_call(hub, running["id"])["outcome"] != "running", what="the end of the call")
        finally:
            hub.call(try_seed.give_back, username="deputy")
    kept = get_call(hub, running["id"])
    assert (kept["outcome"], kept["detail"]) == ("cancelled", "access was revoked")


def test_trying_as_oneself_goes_on_without_the_permission_to_try_as_others(hub: Hub, tmp_path: Path) -> None:
    with Person(hub, "deputy") as deputy:
        running = deputy.try_tool(hub.seeded["try_steps"], "deputy", go_on=tmp_path / "go")
        other = deputy.try_tool(hub.seeded["try_steps"], "alice", go_on=tmp_path / "go")
        try:
            hub.call(try_seed.take_away, username="deputy", what="try_tool_as_other")
            wait_until(lambda: get_call(hub, other["id"])["outcome"] == "cancelled", what="a look at who may try")
            (tmp_path / "go").touch()
            assert "deputy went on" in deputy.outcome(running)["outcome"]
        finally:
            hub.call(try_seed.give_back, username="deputy")


# --- more than one process, and its end ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workers() -> Iterator[Hub]:
    env = {**MODULES, "TOOLHUB_STOP_SECONDS": "1"}
    with Hub(workers=2, postgres=True, redis=True, seed=try_seed.seed, env=env) as hub:
        yield hub


@pytest.fixture
def pair(workers: Hub) -> Iterator[tuple[Person, Person]]:
    """root at a page of one worker, and at a page of the other."""
    with workers.pin_to_worker(0):
        first = Person(workers, "root")
    with workers.pin_to_worker(1):
        second = Person(workers, "root")
    with first, second:
        yield first, second


@pytest.mark.postgres
@pytest.mark.redis
def test_a_result_goes_from_worker_to_worker_once_however_often_its_page_polls(
    workers: Hub, pair: tuple[Person, Person]
) -> None:
    first, second = pair
    state = first.outcome(first.try_tool(workers.seeded["try_large"]))
    assert workers.redis is not None
    with redis.Redis.from_url(workers.redis.url) as store:

        def carried() -> int:
            return int(store.info("stats")["total_net_input_bytes"])

        looks = []
        for _ in range(8):
            before = carried()
            assert "x" * 1_000 in second.look(state)["outcome"]
            looks.append(carried() - before)
    assert looks[0] >= LARGE_CHARACTERS, "the other worker was told what came out"
    assert max(looks[1:]) < 20_000, "and not told again"
    answer = second.look(state)
    assert answer["outcome"] == first.look(state)["outcome"]
    assert answer["log"] == first.look(state)["log"] != ""


@pytest.mark.postgres
@pytest.mark.redis
def test_another_worker_shows_cancels_and_answers_a_running_try_and_a_stop_ends_it(
    workers: Hub, pair: tuple[Person, Person], tmp_path: Path
) -> None:
    first, second = pair
    state = first.try_tool(workers.seeded["try_steps"], go_on=tmp_path / "never")
    wait_until(lambda: (second.look(state)["progress"] or {}).get("total") == 3, what="progress")
    assert second.post(state["addresses"]["cancel"]).status_code == 200
    assert "The call was cancelled" in second.outcome(state)["outcome"]
    state = first.try_tool(workers.seeded["try_ask"])
    wait_until(lambda: second.look(state)["questions"].strip(), what="the question")
    answer = {"key": "elicit_1", "action": "accept", "argument.name": "Jo"}
    assert second.post(state["addresses"]["answer"], **answer).status_code == 200
    assert "Jo" in second.outcome(state)["outcome"]
    assert not second.look(state)["questions"].strip()
    state = first.try_tool(workers.seeded["try_steps"], go_on=tmp_path / "never")
    workers.stop()
    kept = get_call(workers, state["id"])
    assert (kept["outcome"], kept["detail"]) == ("cancelled", "the server is stopping")
