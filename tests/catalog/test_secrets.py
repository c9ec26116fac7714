"""Secrets: kept encrypted, entered and never shown, used for the right caller, hidden wherever they would turn up."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import logging
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import sync_to_async
from cryptography.fernet import Fernet
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core import checks
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command

from audit import outcomes
from audit.models import Action, Call
from audit.redaction import redactor
from catalog import encryption
from catalog.errors import InvalidArguments
from catalog.examples import catalogue
from catalog.functions.content import ABSENT
from catalog.models import PersonalSecret, Secret, Tool
from catalog.policy import snapshot
from catalog.secrets import resolve
from tests import factories
from tests.catalog.local_api import Api
from tests.catalog.local_api import api as api
from tests.catalog.pipeline import call, caller, logged_calls, run_in_database, text
from toolhub import env

CANARY = "kv-canary/7 Q+zz9=plum"
"""Not the same as JSON, in a URL, in base64: each spelling must be hidden."""

PERSONAL = "my_token"


def make_shared(name: str = "api_key", value: str = CANARY, **fields: Any) -> Secret:
    secret = Secret(name=name, **fields)
    secret.enter(value)
    secret.full_clean()
    secret.save()
    return secret


def make_personal(name: str = "my_token", **values: str) -> Secret:
    """`values` are what users entered, by their names."""
    secret = Secret.objects.create(name=name, kind=Secret.Kind.PERSONAL, description="See https://example.com/tokens")
    for username, value in values.items():
        enter(secret, User.objects.get(username=username), value)
    return secret


def enter(secret: Secret, user: Any, value: str) -> None:
    row = PersonalSecret.objects.filter(secret=secret, user=user).first() or PersonalSecret(secret=secret, user=user)
    row.enter(value)
    row.save()
    factories.allow_destinations()


def make_api_tool(user: Any, url: str, name: str = "ask_api", secret: str = PERSONAL, **settings: Any) -> Tool:
    authorization = {"Authorization": {"secret": secret, "prefix": "Bearer "}}
    tool = factories.make_tool(
        name,
        title="Ask the API",
        runner="http_api",
        settings={"url": f"{url}/ask", "query": {"q": "q"}, "static_headers": authorization, **settings},
        input_schema={"type": "object", "properties": {"q": {"type": "string"}}},
        clean=True,
    )
    for one in user if isinstance(user, list) else [user]:
        factories.grant(one, tool)
    factories.allow_destinations()
    return tool


def stored(*names: str, user: Any = None) -> dict[str, str]:
    """The values as they are stored, which nothing sends anywhere."""
    return dict(resolve.resolve_now(dict.fromkeys(names, ()), user.pk if user is not None else None))


def dump_stored() -> str:
    """All that the audit log and the admin's own log hold."""
    rows = [list(model.objects.values()) for model in (Call, Action, LogEntry)]
    return json.dumps(rows, default=str)


# --- at rest ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "A", "a-b", "a b", "a" * 65, "é", "a/b", "a\n"])
def test_a_name_that_settings_could_not_refer_to_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        Secret(name=name).clean_fields()


def test_a_value_that_belongs_to_another_row_or_key_is_not_taken(settings: Any) -> None:
    stored = encryption.encrypt(CANARY, "personal my_token of user 1")
    assert CANARY not in stored and encryption.decrypt(stored, "personal my_token of user 1") == CANARY
    for owner in ("personal my_token of user 2", "personal other of user 1", "shared my_token"):
        with pytest.raises(encryption.DecryptionError):
            encryption.decrypt(stored, owner)
    other = "A" if stored[20] != "A" else "B"
    for spoilt in ("", "x", stored[:-1], stored[:20] + other + stored[21:]):
        with pytest.raises(encryption.DecryptionError):
            encryption.decrypt(spoilt, "personal my_token of user 1")
    first = settings.ENCRYPTION_KEYS
    settings.ENCRYPTION_KEYS = [env.fernet_key()]
    with pytest.raises(encryption.DecryptionError):
        encryption.decrypt(stored, "personal my_token of user 1")
    settings.ENCRYPTION_KEYS = [env.fernet_key(), *first]
    assert encryption.decrypt(stored, "personal my_token of user 1") == CANARY


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([], "catalog.E003"),
        (["short"], "catalog.E003"),
        (["s" * 50], "catalog.E003"),
        (["k" * 43 + "="], "catalog.E004"),
    ],
)
def test_missing_and_unfit_keys_are_reported_with_what_to_do(keys: list[str], expected: str, settings: Any) -> None:
    settings.ENCRYPTION_KEYS = keys
    if expected == "catalog.E004":
        settings.RECORD_KEY = keys[0]
    found = [message for message in checks.run_checks() if message.id == expected]
    assert len(found) == 1 and found[0].hint
    assert not any(key and key in str(found[0]) for key in keys)


def test_a_key_of_its_own_is_made_in_development(settings: Any, tmp_path: Any) -> None:
    assert [(settings.DATA_DIR / "encryption-key").read_text()] == settings.ENCRYPTION_KEYS
    assert settings.SECRET_KEY not in settings.ENCRYPTION_KEYS
    made = env.generated_secret(tmp_path / "key", env.fernet_key)
    Fernet(made)
    assert env.generated_secret(tmp_path / "key", env.fernet_key) == made
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0


# --- a new key -------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_rotation_is_refused_when_a_value_cannot_be_read_and_loses_nothing(alice: Any, settings: Any) -> None:
    old = settings.ENCRYPTION_KEYS
    make_shared("first_key")
    settings.ENCRYPTION_KEYS = [env.fernet_key()]
    make_personal("lost_key", alice=CANARY)
    settings.ENCRYPTION_KEYS = [env.fernet_key(), *old]
    before = [*Secret.objects.values(), *PersonalSecret.objects.values()]
    with pytest.raises(CommandError, match="The secret lost_key of alice cannot be decrypted"):
        call_command("rotatesecrets")
    assert [*Secret.objects.values(), *PersonalSecret.objects.values()] == before
    settings.ENCRYPTION_KEYS = []
    with pytest.raises(CommandError, match="TOOLHUB_ENCRYPTION_KEYS"):
        call_command("rotatesecrets")


@pytest.mark.django_db
def test_rotation_moves_everything_to_the_first_key(alice: Any, bob: Any, settings: Any) -> None:
    make_shared()
    make_personal(alice="value of alice", bob="value of bob")
    new = env.fernet_key()
    settings.ENCRYPTION_KEYS = [new, *settings.ENCRYPTION_KEYS]
    said = io.StringIO()
    call_command("rotatesecrets", stdout=said)
    assert {"  1 shared secrets", "  2 personal secrets"} <= set(said.getvalue().splitlines())
    settings.ENCRYPTION_KEYS = [new]
    assert stored("api_key", "my_token", user=alice) == {"api_key": CANARY, "my_token": "value of alice"}
    assert stored("my_token", user=bob) == {"my_token": "value of bob"}
    done = Action.objects.latest("id")
    assert done.verb == "re-encrypted" and json.loads(done.after) == {"values": 3}


# --- in a call -------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
async def test_a_missing_secret_is_a_clear_logged_error_until_it_exists(alice: Any, api: Api, settings: Any) -> None:
    await run_in_database(make_api_tool, alice, api.url, secret="my_token")
    unknown = await call(alice, "ask_api", {"q": "x"})
    assert unknown.is_error and "my_token is required, and nobody has entered it yet. Ask your" in text(unknown)
    secret = await run_in_database(make_personal)
    missing = await call(alice, "ask_api", {"q": "x"})
    assert missing.is_error and f"Enter it at {settings.PUBLIC_URL}/secrets/ and try again" in text(missing)
    assert api.seen == []
    rows = await logged_calls()
    assert {(row.outcome, row.error_class) for row in rows} == {(outcomes.TOOL_ERROR, "MissingSecret")}
    assert [row.id for row in rows] == [unknown.call_id, missing.call_id] and rows[0].rule and rows[0].definition
    await run_in_database(enter, secret, alice, "now it is there")
    assert not (await call(alice, "ask_api")).is_error
    await run_in_database(lambda: PersonalSecret.objects.all().delete())
    assert (await call(alice, "ask_api")).is_error
    assert [request["headers"]["authorization"] for request in api.seen] == ["Bearer now it is there"]

    def spoil() -> None:
        PersonalSecret.objects.create(secret=secret, user=alice, value="gAAAAnonsense")

    await run_in_database(spoil)
    spoilt = await call(alice, "ask_api")
    assert spoilt.is_error and "can no longer be read. Enter it again at" in text(spoilt)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", ["shared", "personal"])
async def test_a_secret_is_hidden_in_answers_audit_log_and_logs(
    alice: Any, api: Api, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    value = f"{CANARY}-{kind}"
    if kind == "shared":
        await run_in_database(make_shared, "my_token", value)
    else:
        await run_in_database(make_personal, alice=value)
    await run_in_database(make_api_tool, alice, api.url, response="auto", retries=0)
    spelled = [
        value,
        json.dumps(value),
        quote(value, safe=""),
        value.encode().hex(),
        base64.b64encode(f"user:{value}".encode()).decode(),
        base64.urlsafe_b64encode(value.encode()).decode(),
    ]
    forms = {
        "text/plain": " and ".join(spelled),
        "application/json": json.dumps({"echo": spelled, value: 1, "deep": [{"a": json.dumps({"b": value})}]}),
        "text/html": f"<p>{value}</p>",
        "application/zip": f"PK{value}",
    }
    said = ""
    for media_type, answer in forms.items():
        for status in (200, 400):
            api.answers["/ask"] = (status, media_type, answer.encode())
            result = await call(alice, "ask_api", {"q": f"is it {value}?"})
            assert result.is_error == (status == 400 or media_type == "application/zip"), media_type
            assert result.structured is ABSENT
            said += json.dumps(result.content)
    assert redactor.MASK in said and "withheld" in said
    assert {request["headers"]["authorization"] for request in api.seen} == {f"Bearer {value}"}
    kept = json.dumps([row async for row in Call.objects.values()], default=str)
    line = logging.makeLogRecord({"msg": f"the tool said {value}", "args": ()})
    redactor.LogFilter().filter(line)
    everywhere = {"answers": said, "record": kept, "logs": line.getMessage() + caplog.text}
    for where, found in everywhere.items():
        for spelling in spelled:
            assert spelling.rstrip("=") not in found, (where, spelling)
        assert "canary" not in found, where


@pytest.mark.django_db(transaction=True)
async def test_values_are_read_once_per_revision_and_follow_every_change(
    alice: Any, bob: Any, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    load = resolve._load

    def counted(read: Any, user_id: int) -> None:
        reads.append(user_id)
        load(read, user_id)

    monkeypatch.setattr(resolve, "_load", counted)

    def prepare() -> Secret:
        factories.grant(alice, factories.make_tool("calculate_sum"))
        make_api_tool([alice, bob], api.url)
        return make_personal(alice="first of alice", bob="first of bob")

    secret = await run_in_database(prepare)
    sum_of = await call(alice, "calculate_sum", {"a": 1, "b": 2})
    assert not sum_of.is_error and reads == []
    await asyncio.gather(*(call(user, "ask_api") for user in (alice, bob) for _ in range(10)))
    assert sorted(reads) == [alice.pk, bob.pk]

    def elsewhere() -> None:
        """As another process does it: no signal reaches this one."""
        value = encryption.encrypt("second of alice", f"personal my_token of user {alice.pk}")
        PersonalSecret._base_manager.filter(secret=secret, user=alice).update(value=value)

    before = snapshot.current().revision
    await run_in_database(elsewhere)
    assert snapshot.current().revision > before
    api.seen.clear()
    for user in (alice, bob):
        await call(user, "ask_api")
    assert [request["headers"]["authorization"] for request in api.seen] == [
        "Bearer second of alice",
        "Bearer first of bob",
    ]
    assert len(reads) == 4
    # A change in this very process counts before the snapshot has even heard of it.
    await sync_to_async(enter)(secret, alice, "third of alice")
    assert await resolve.resolve({"my_token": ()}, caller(alice)) == {"my_token": "third of alice"}


@pytest.mark.django_db(transaction=True)
async def test_two_users_who_call_at_once_each_send_their_own_secret(alice: Any, bob: Any, api: Api) -> None:
    def prepare() -> None:
        make_shared("api_key", "the key of everybody")
        make_personal(alice="the token of alice", bob="the token of bob")
        fixed: dict[str, Any] = {"static_query": {"key": {"secret": "api_key"}}}
        make_api_tool([alice, bob], api.url, response="text", max_concurrent=20, wait_seconds=60, **fixed)

    await run_in_database(prepare)
    users = {"alice": alice, "bob": bob}
    results = await asyncio.gather(
        *(call(users[name], "ask_api", {"q": f"{name} {number}"}) for number in range(50) for name in users)
    )
    assert not any(result.is_error for result in results)
    ledger = {
        (dict(request["query"])["q"], request["headers"]["authorization"], dict(request["query"])["key"])
        for request in api.seen
    }
    assert len(api.seen) == 100 and ledger == {
        (f"{name} {number}", f"Bearer the token of {name}", "the key of everybody")
        for name in users
        for number in range(50)
    }
    assert not any("the token of" in json.dumps(result.content) for result in results)


# --- the examples that need one --------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
async def test_the_example_tools_speak_the_paths_of_their_apis_with_the_callers_own_token(alice: Any, api: Api) -> None:
    def prepare() -> None:
        catalogue.load()
        catalogue.load()
        for tool in Tool.objects.filter(toolsets__name="Web API examples"):
            host = tool.settings["url"].split("/")[2]
            tool.settings["url"] = tool.settings["url"].replace(f"https://{host}", api.url)
            tool.save()
        factories.grant(alice, factories.make_toolset("Web API examples"))

    await run_in_database(prepare)
    for name, arguments in (
        ("github_create_issue", {"owner": "a", "repo": "b", "title": "t"}),
        ("search_github", {"query": "q"}),
        ("web_search", {"query": "q"}),
        ("list_repos", {}),
    ):
        assert (await call(alice, name, arguments)).is_error
    assert api.seen == []

    def set_up() -> None:
        enter(Secret.objects.get(name="github_token"), alice, "ghp-of-alice")
        key = Secret.objects.get(name="web_search_key")
        key.enter("key of the hub")
        key.save()

    await run_in_database(set_up)
    api.answers = {
        "/repos/django/channels/issues": (
            201,
            "application/json",
            b'{"number": 7, "html_url": "u", "user": {"id": 1}}',
        ),
        "/search/issues": (
            200,
            "application/json",
            b'{"total_count": 1, "items": [{"number": 3, "title": "T", "html_url": "u", "score": 1.0}]}',
        ),
        "/user/repos": (200, "application/json", b'[{"full_name": "a/b", "html_url": "u", "id": 1}]'),
        "/res/v1/web/search": (200, "application/json", b'{"web": {"results": [{"title": "T", "url": "U", "x": 1}]}}'),
    }
    made = {"owner": "django", "repo": "channels", "title": "Häh?", "labels": ["bug"]}
    assert json.loads(text(await call(alice, "github_create_issue", made))) == {"number": 7, "html_url": "u"}
    found = await call(alice, "search_github", {"query": "repo:django/channels is:open a&b", "count": 5})
    assert json.loads(text(found)) == [{"number": 3, "title": "T", "html_url": "u"}]
    results = await call(alice, "web_search", {"query": "weather in Bern", "freshness": "pd"})
    assert json.loads(text(results)) == [{"title": "T", "url": "U"}]
    assert json.loads(text(await call(alice, "list_repos", {"count": 5}))) == [{"full_name": "a/b", "html_url": "u"}]
    issue, search, web, repos = api.seen
    assert repos["headers"]["authorization"] == "Bearer ghp-of-alice" and ("sort", "updated") in repos["query"]
    assert (issue["method"], json.loads(issue["body"])) == ("POST", {"title": "Häh?", "labels": ["bug"]})
    assert issue["headers"]["authorization"] == search["headers"]["authorization"] == "Bearer ghp-of-alice"
    assert ("q", "repo:django/channels is:open a&b") in search["query"] and ("per_page", "5") in search["query"]
    assert web["headers"]["x-subscription-token"] == "key of the hub" and ("freshness", "pd") in web["query"]
    for refused in ({"owner": "..", "repo": "b", "title": "t"}, {"owner": "a/b", "repo": "c", "title": "t"}):
        with pytest.raises(InvalidArguments):
            await call(alice, "github_create_issue", refused)
    assert len(api.seen) == 4
