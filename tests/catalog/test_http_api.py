"""The runner of HTTP APIs, against a server that writes down what it was sent."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import socket
import threading
import time
from email import message_from_bytes
from typing import Any
from urllib.parse import parse_qsl

import pytest

from audit import outcomes
from catalog.errors import ToolError
from catalog.functions.results import produce
from catalog.runners import factory, registry
from catalog.runners.http_api import resilience
from catalog.runners.http_api.json_path import parse_path, select
from catalog.slots import Slots
from tests import factories
from tests.catalog.local_api import Api, ask, context
from tests.catalog.local_api import api as api
from tests.catalog.pipeline import call, only_logged_call, run_in_database, text
from tests.polling import wait_until_async
from tests.process import replace_part
from toolhub.egress import NameResolver

# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"url": "http://{host}/x"}, "not in the scheme or host"),
        ({"url": "{scheme}://api.example.com/"}, "not in the scheme or host"),
        ({"url": "http://api.example.com:{port}/"}, "not in the scheme or host"),
        ({"url": "ftp://api.example.com/"}, "only http and https"),
        ({"url": "http://user:pw@api.example.com/"}, "user name or password"),
        ({"url": "http://api.example.com/x?key=1"}, "static_query"),
        ({"url": "http://api.example.com/{a b}"}, "the only braces allowed in the path"),
        ({"url": "http://api.example.com/}{"}, "the only braces allowed in the path"),
        ({"url": "http://api.example.com/", "method": "TRACE"}, "method"),
        ({"url": "http://api.example.com/", "body": "*"}, "requests cannot have a body"),
        (
            {"url": "http://api.example.com/", "headers": {"Authorization": "token"}},
            "cannot be filled from an argument",
        ),
        ({"url": "http://api.example.com/", "headers": {"X Y": "a"}}, "not a valid header or cookie name"),
        ({"url": "http://api.example.com/", "select": "items"}, r"must start with \$"),
        ({"url": "http://api.example.com/", "select": "$[?(@.a)]"}, "is not valid from"),
        ({"url": "http://api.example.com/", "select": "$.a", "response": "text"}, "need a JSON response"),
        ({"url": "http://api.example.com/", "proxy": "x"}, "proxy"),
        ({}, "url: Field required"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        registry.parse_settings("http_api", settings)


@pytest.mark.parametrize("value", ["..", ".", "", "a/b", "a\\b", "%2e%2e/x", "x\ny", None, {"a": 1}])
async def test_a_value_cannot_leave_its_place_in_the_path(api: Api, value: Any) -> None:
    settings = {"url": f"{api.url}/v1/users/{{name}}/notes"}
    if value == "%2e%2e/x":
        value = "..%2f"
        answer = await ask(settings, name=value)
        assert answer["path"] == "/v1/users/..%252f/notes"
        return
    with pytest.raises(ToolError):
        await ask(settings, name=value)
    assert api.seen == []


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:9/",
        "http://10.0.0.1/",
        "http://0.0.0.0:9/",
        "http://localhost:9/",
    ],
)
async def test_a_private_address_that_was_not_listed_is_not_reached(url: str, settings: Any) -> None:
    settings.ALLOW_PRIVATE_NETWORKS = []
    with pytest.raises(ToolError, match="toolhub blocks requests to this address"):
        await ask({"url": url})


async def test_header_values_cannot_hold_another_header(api: Api) -> None:
    with pytest.raises(ToolError, match="HTTP does not allow"):
        await ask({"url": f"{api.url}/", "headers": {"X-Name": "name"}}, name="a\r\nX-Admin: yes")
    assert api.seen == []


@pytest.mark.parametrize("value", [b"[],", b'{"a":1},'])
async def test_an_answer_with_too_many_values_is_not_decoded(api: Api, value: bytes) -> None:
    api.answers["/many"] = (200, "application/json", b"[" + value * 250_000 + b"0]")
    with pytest.raises(ToolError, match="more than 200,000 values"):
        await ask({"url": f"{api.url}/many"})


async def test_an_error_status_is_an_error_with_a_short_clean_excerpt(api: Api) -> None:
    page = b"<html><script>alert(1)</script><b>No such \x1b[31m city</b>" + b" x" * 2000 + b"</html>"
    api.answers["/city"] = (404, "text/html", page)
    with pytest.raises(ToolError) as failed:
        await ask({"url": f"{api.url}/city"})
    said = str(failed.value)
    assert "status 404" in said and "No such" in said and "<" not in said and "alert" not in said and "\x1b" not in said
    assert len(said.partition(" Next step: ")[0]) < 600


async def test_the_type_of_an_answer_is_detected_unless_the_settings_name_one(api: Api) -> None:
    api.answers = {
        "/json": (200, "application/problem+json; charset=utf-8", b'{"a": 1}'),
        "/text": (200, "text/plain", b'{"a": 1}'),
        "/bytes": (200, "application/octet-stream", b"\x00\x01"),
    }
    assert await ask({"url": f"{api.url}/json"}) == {"a": 1}
    assert (await ask({"url": f"{api.url}/text"})).text == '{"a": 1}'
    assert await ask({"url": f"{api.url}/text", "response": "json"}) == {"a": 1}
    assert (await ask({"url": f"{api.url}/bytes"})).blob == b"\x00\x01"


async def test_redirects_bad_json_and_large_answers_are_errors(api: Api) -> None:
    api.answers = {
        "/moved": (302, "text/plain", b""),
        "/page": (200, "text/html", b"<p>hello</p>"),
        "/nan": (200, "application/json", b'{"a": NaN}'),
        "/deep": (200, "application/json", b"[" * 100_000),
        "/large": (200, "text/plain", b"x" * 5000),
    }
    for path, says in (
        ("/moved", "blocks requests to this address"),
        ("/page", "did not answer with JSON"),
        ("/nan", "JSON"),
        ("/deep", "JSON"),
    ):
        with pytest.raises(ToolError, match=says):
            await ask({"url": f"{api.url}{path}", "response": "json"})
    for path in ("/nan", "/deep"):
        with pytest.raises(ToolError, match="did not answer with JSON"):
            await ask({"url": f"{api.url}{path}"})
    with pytest.raises(ToolError, match="larger than 1000 bytes"):
        await ask({"url": f"{api.url}/large", "response": "text", "max_response_bytes": 1000})
    assert [request["path"] for request in api.seen].count("/elsewhere") == 0


async def test_an_api_that_is_not_there_or_too_slow_is_an_error(api: Api, settings: Any) -> None:
    with pytest.raises(ToolError, match="cannot be reached"):
        await ask({"url": "http://127.0.0.1:1/"})
    with pytest.raises(ToolError, match="did not answer within"):
        await ask({"url": f"{api.url}/hold", "timeout": 0.3})


# --- what is sent ----------------------------------------------------------------------------------------------------


async def test_arguments_go_where_the_settings_say(api: Api) -> None:
    answer = await ask(
        {
            "method": "POST",
            "url": f"{api.url}/v1/{{city}}/notes",
            "query": {"q": "search", "tag": "tags", "none": "missing"},
            "headers": {"X-Trace": "trace"},
            "body": {"title": "title", "n": "number"},
            "static_query": {"units": "metric"},
            "static_headers": {"X-Key": "k1"},
            "static_body": {"source": "hub"},
        },
        city="Bern & Köniz",
        search="a&b=c",
        tags=["x", "y"],
        trace="t1",
        title="ü",
        number=3,
        unused="not sent",
    )
    assert answer["method"] == "POST" and answer["path"] == "/v1/Bern%20%26%20K%C3%B6niz/notes"
    assert answer["query"] == [["units", "metric"], ["q", "a&b=c"], ["tag", "x"], ["tag", "y"]]
    assert (answer["headers"]["x-trace"], answer["headers"]["x-key"]) == ("t1", "k1")
    assert json.loads(answer["body"]) == {"title": "ü", "n": 3, "source": "hub"}
    assert "not sent" not in json.dumps(answer)


async def test_a_form_and_everything_else_as_a_body(api: Api) -> None:
    form = await ask(
        {"method": "POST", "url": f"{api.url}/f", "body": {"a": "a", "b": "b"}, "body_format": "form"},
        a="x y&z",
        b=True,
    )
    assert form["headers"]["content-type"] == "application/x-www-form-urlencoded"
    assert parse_qsl(form["body"]) == [("a", "x y&z"), ("b", "true")]
    fixed = {"role": "user"}
    rest = await ask(
        {"method": "PUT", "url": f"{api.url}/{{id}}", "body": "*", "static_body": fixed}, id=7, name="n", role="admin"
    )
    assert rest["path"] == "/7" and json.loads(rest["body"]) == {"name": "n", "role": "user"}


async def test_only_the_selection_is_returned(api: Api) -> None:
    api.answers["/list"] = (200, "application/json", b'{"items":[{"n":1,"odd name":"x"},{"n":2}],"total":2}')
    for path, expected in (
        ("", {"items": [{"n": 1, "odd name": "x"}, {"n": 2}], "total": 2}),
        ("$.total", 2),
        ("$.items[*].n", [1, 2]),
        ("$.items[-1]", {"n": 2}),
        ('$.items[0]["odd name"]', "x"),
        ("$.nothing.at.all", None),
    ):
        assert await ask({"url": f"{api.url}/list", "select": path}) == expected
    plain = produce(await ask({"url": f"{api.url}/list", "response": "text"}))
    assert plain.content[0]["text"].startswith('{"items"')


def test_a_selection_never_fails_on_missing_members() -> None:
    path = parse_path("$.a[3].b[*].c")
    values: list[Any] = [None, 1, "x", [], {}, {"a": []}, {"a": {"3": 1}}, {"a": [0, 0, 0, {"b": 5}]}]
    for value in values:
        assert select(value, path) in (None, [])


# --- through the call pipeline -------------------------------------------------------------------------------------


def _weather(url: str, user: Any) -> None:
    tool = factories.make_tool(
        "city_weather",
        runner="http_api",
        settings={"url": f"{url}/weather/{{city}}", "select": "$.current"},
        input_schema={
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        output_schema={"type": "object", "properties": {"t": {"type": "number"}}, "required": ["t"]},
        clean=True,
    )
    factories.grant(user, tool)


@pytest.mark.django_db(transaction=True)
async def test_an_api_is_a_tool_like_any_other(alice: Any, api: Api) -> None:
    await run_in_database(_weather, api.url, alice)
    api.answers["/weather/bern"] = (200, "application/json", b'{"current":{"t":21.5}}')
    api.answers["/weather/rome"] = (200, "application/json", b'{"current":{"t":"hot"}}')
    api.answers["/weather/hell"] = (503, "text/plain", b"overloaded")
    good = await call(alice, "city_weather", {"city": "bern"})
    assert good.structured == {"t": 21.5} and not good.is_error
    for city, says in (("rome", "output schema"), ("hell", "status 503. overloaded")):
        bad = await call(alice, "city_weather", {"city": city})
        assert bad.is_error and says in text(bad)


@pytest.mark.django_db(transaction=True)
async def test_cancelling_the_call_closes_the_request(alice: Any, api: Api) -> None:
    await run_in_database(_weather, api.url, alice)

    def hold() -> None:
        from catalog.models import Tool

        tool = Tool.objects.get(name="city_weather")
        tool.settings = {"url": f"{api.url}/hold"}
        tool.save()

    await run_in_database(hold)
    running = asyncio.ensure_future(call(alice, "city_weather", {"city": "bern"}))
    await asyncio.wait_for(api.held.wait(), 30)
    running.cancel("notifications/cancelled")
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.wait_for(api.left.wait(), 30)
    row = await only_logged_call()
    assert (row.outcome, row.detail) == (outcomes.CANCELLED, "notifications/cancelled")


# --- settings that do not fit together -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"body_argument": "a", "body": "*", "method": "POST"}, "body_argument is the whole body"),
        ({"body_format": "text", "method": "POST"}, "needs body_argument"),
        ({"body_argument": "a", "body_format": "form", "method": "POST"}, "needs body, not body_argument"),
        ({"files": {"f": {"argument": "a"}}, "method": "POST"}, "body_format multipart"),
        ({"files": {"f": {"argument": "a"}}, "body_format": "multipart"}, "requests cannot have a body"),
        ({"content_type": "x/y", "body_format": "multipart", "body": "*", "method": "POST"}, "multipart"),
        ({"content_type": "x\r\ny"}, "MIME type"),
        ({"cookies": {"a": "a"}, "static_headers": {"Cookie": "b=c"}}, "not in both"),
        ({"cookies": {"a;b": "a"}}, "not a valid header or cookie name"),
        ({"headers": {"X-A": "a"}, "static_headers": {"x-a": "b"}}, "set twice"),
        ({"static_headers": {"Authorization": {"secret": "Bad Name"}}}, "pattern"),
        ({"static_headers": {"Authorization": {"secret": "a", "value": "b"}}}, "static_headers"),
        ({"retries": 6}, "retries"),
        ({"max_concurrent": 0}, "max_concurrent"),
        ({"response": "image", "select": "$.a"}, "need a JSON response"),
    ],
)
def test_settings_that_contradict_each_other_are_named(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        registry.parse_settings("http_api", {"url": "http://api.example.com/", **settings})


@pytest.mark.parametrize("value", ["a b", "a;b=c", "a,b", 'a"b', "a\r\nSet: x", "a\\b", "é"])
async def test_a_cookie_cannot_hold_another_one(api: Api, value: str) -> None:
    with pytest.raises(ToolError, match="cannot be sent as a cookie"):
        await ask({"url": f"{api.url}/", "cookies": {"sort": "sort"}}, sort=value)
    assert api.seen == []


@pytest.mark.parametrize("name", ["", ".", "..", "../etc/passwd", "a/b", "a\\b", "a\x00", "a\r\nb", "x" * 256])
async def test_a_file_name_that_is_a_path_is_refused(api: Api, name: str) -> None:
    settings = {
        "method": "POST",
        "url": f"{api.url}/",
        "body_format": "multipart",
        "files": {"f": {"argument": "data", "filename_argument": "name"}},
    }
    with pytest.raises(ToolError, match="not a valid file name"):
        await ask(settings, data="aGk=", name=name)
    assert api.seen == []


async def test_a_file_that_is_not_base64_is_refused(api: Api) -> None:
    settings = {
        "method": "POST",
        "url": f"{api.url}/",
        "body_format": "multipart",
        "files": {"f": {"argument": "data"}},
    }
    for data in ("not base64!", "a", 5, ["aGk="]):
        with pytest.raises(ToolError, match="data must be base64"):
            await ask(settings, data=data)
    assert api.seen == []


# --- what is sent, in full -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"])
async def test_every_method_is_sent(api: Api, method: str) -> None:
    assert (await ask({"method": method, "url": f"{api.url}/x"}))["method"] == method


async def test_a_head_request_brings_no_body(api: Api) -> None:
    api.answers["/x"] = (204, "application/json", b"")
    said = produce(await ask({"method": "HEAD", "url": f"{api.url}/x"}))
    assert (api.seen[0]["method"], said.content[0]["text"]) == (
        "HEAD",
        "The API answered with status 204 and no content.",
    )


async def test_cookies_lists_and_whole_bodies(api: Api) -> None:
    answer = await ask(
        {
            "url": f"{api.url}/",
            "cookies": {"sort": "sort", "theme": "theme"},
            "static_cookies": {"theme": "dark"},
            "query": {"tag": "tags"},
            "query_lists": "comma",
        },
        sort="up",
        theme="light",
        tags=["x", "y"],
    )
    assert answer["headers"]["cookie"] == "theme=dark; sort=up"
    assert answer["query"] == [["tag", "x,y"]]
    post = {"method": "POST", "url": f"{api.url}/", "body_argument": "body"}
    assert json.loads((await ask(post, body=[1, {"a": None}]))["body"]) == [1, {"a": None}]
    plain = await ask(post | {"body_format": "text", "content_type": "text/csv"}, body="a;b\r\nü")
    assert (plain["body"], plain["headers"]["content-type"]) == ("a;b\r\nü", "text/csv")
    await ask(post | {"body_format": "base64"}, body=base64.b64encode(bytes(range(256))).decode())
    assert api.bodies[-1] == bytes(range(256))
    assert (await ask(post))["body"] == ""


async def test_files_and_fields_go_into_one_multipart_body(api: Api) -> None:
    picture = b"\x89PNG\r\n\x1a\n--" + bytes(range(256))
    await ask(
        {
            "method": "POST",
            "url": f"{api.url}/",
            "body": {'ti"tle\r\n': "title", "tags": "tags"},
            "body_format": "multipart",
            "static_body": {"source": "hub"},
            "files": {
                "picture": {"argument": "data", "filename_argument": "name", "content_type": "image/png"},
                "other": {"argument": "missing"},
            },
        },
        title='x"\r\nContent-Disposition: form-data; name="admin"\r\n\r\nyes',
        tags=["a", "b"],
        data=base64.b64encode(picture).decode(),
        name='sun"set.png',
    )
    sent = api.seen[0]["headers"]["content-type"]
    message: Any = message_from_bytes(f"Content-Type: {sent}\r\n\r\n".encode() + api.bodies[0])
    parts = [
        (part.get_param("name", header="content-disposition"), part.get_filename(), part.get_payload(decode=True))
        for part in message.get_payload()
    ]
    assert parts == [
        ("ti%22tle%0D%0A", None, b'x"\r\nContent-Disposition: form-data; name="admin"\r\n\r\nyes'),
        ("tags", None, b"a"),
        ("tags", None, b"b"),
        ("source", None, b"hub"),
        ("picture", "sun%22set.png", picture),
    ]


async def test_secrets_are_filled_in_when_the_request_is_built(api: Api) -> None:
    run = factory.prepare(
        "http_api",
        {
            "method": "POST",
            "url": f"{api.url}/",
            "static_headers": {"Authorization": {"secret": "token", "prefix": "Bearer "}},
            "static_query": {"key": {"secret": "key"}, "v": "1"},
            "static_cookies": {"session": {"secret": "key"}},
            "static_body": {"auth": [{"user": "hub", "password": {"secret": "token"}}]},
        },
    )
    for number in (1, 2):
        answer = await run({}, context(token=f"t-{number}", key=f"k&{number}"))
        assert answer["headers"]["authorization"] == f"Bearer t-{number}"
        assert answer["query"] == [["key", f"k&{number}"], ["v", "1"]]
        assert answer["headers"]["cookie"] == f"session=k&{number}"
        assert json.loads(answer["body"]) == {"auth": [{"user": "hub", "password": f"t-{number}"}]}
    basic = {"secret": "login", "prefix": "Basic ", "encoding": "base64"}
    run = factory.prepare("http_api", {"url": f"{api.url}/", "static_headers": {"Authorization": basic}})
    answer = await run({}, context(login="me:pass word"))
    assert base64.b64decode(answer["headers"]["authorization"].removeprefix("Basic ")) == b"me:pass word"
    with pytest.raises(ToolError, match="HTTP does not allow") as refused:
        await factory.prepare("http_api", {"url": f"{api.url}/", "static_headers": {"X-Key": {"secret": "login"}}})(
            {}, context(login="two\r\nlines")
        )
    assert "two" not in str(refused.value)


# --- what comes back -------------------------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
WAV = b"RIFF\x24\0\0\0WAVEfmt "


async def test_images_and_audio_are_detected_by_their_bytes(api: Api) -> None:
    api.answers = {
        "/page.png": (200, "image/png", b"<html>no picture</html>"),
        "/jpeg.png": (200, "image/png", b"\xff\xd8\xff\xe0" + b"\0" * 20),
        "/sound.png": (200, "image/png", WAV),
        "/svg": (200, "image/svg+xml", b"<svg onload=alert(1)>"),
        "/error.png": (500, "image/png", PNG),
        "/a.png": (200, "image/png", PNG),
        "/b.png": (200, "application/octet-stream", PNG),
        "/a.wav": (200, "audio/x-wav", WAV),
        "/empty": (204, "image/png", b""),
    }
    for path, says in (
        ("/page.png", "did not answer with an image"),
        ("/jpeg.png", "its bytes are image/jpeg"),
        ("/sound.png", "did not answer with an image"),
        ("/svg", "did not answer with an image"),
        ("/error.png", "status 500"),
        ("/empty", "and no content"),
        ("/a.wav", "did not answer with an image"),
    ):
        with pytest.raises(ToolError, match=says):
            await ask({"url": f"{api.url}{path}", "response": "image", "retries": 0})
    for path, response, kind in (
        ("/a.png", "image", {"type": "image", "mimeType": "image/png"}),
        ("/b.png", "image", {"type": "image", "mimeType": "image/png"}),
        ("/a.png", "auto", {"type": "image", "mimeType": "image/png"}),
        ("/a.wav", "audio", {"type": "audio", "mimeType": "audio/wav"}),
        ("/a.wav", "auto", {"type": "audio", "mimeType": "audio/wav"}),
    ):
        block = produce(await ask({"url": f"{api.url}{path}", "response": response})).content[0]
        assert base64.b64decode(block.pop("data")) == (PNG if "png" in path else WAV)
        assert block == kind


async def test_other_bytes_are_kept_as_a_resource_and_auto_goes_by_the_type(api: Api) -> None:
    api.answers = {
        "/f.zip": (200, "application/zip", b"PK\x03\x04\xff"),
        "/fake.png": (200, "image/png", b"\x00\x01"),
        "/t": (200, "text/csv", b"a;b"),
        "/j": (200, "application/problem+json; charset=utf-8", b'{"a": 1}'),
        "/s.svg": (200, "image/svg+xml", b"<svg/>"),
    }
    asked = {"url": f"{api.url}/f.zip", "static_query": {"key": "v"}, "response": "binary"}
    block = produce(await ask(asked)).content[0]
    assert block["resource"] == {
        "uri": f"{api.url}/f.zip",
        "mimeType": "application/zip",
        "blob": base64.b64encode(b"PK\x03\x04\xff").decode(),
    }
    for path, found in (("/f.zip", "resource"), ("/fake.png", "resource"), ("/t", "text"), ("/s.svg", "text")):
        assert produce(await ask({"url": f"{api.url}{path}", "response": "auto"})).content[0]["type"] == found
    assert await ask({"url": f"{api.url}/j", "response": "auto", "select": "$.a"}) == 1


# --- a host that has trouble -----------------------------------------------------------------------------------------


async def test_only_idempotent_requests_are_tried_again(api: Api) -> None:
    api.answers["/down"] = (503, "text/plain", b"overloaded")
    for method, attempts in (("POST", 1), ("PATCH", 1), ("GET", 3), ("PUT", 3), ("DELETE", 3), ("HEAD", 3)):
        api.seen.clear()
        with pytest.raises(ToolError, match="status 503"):
            await ask({"method": method, "url": f"{api.url}/down", "break_after": 0})
        assert (method, len(api.seen)) == (method, attempts)
    api.seen.clear()
    api.answers["/wrong"] = (500, "text/plain", b"no")
    with pytest.raises(ToolError, match="status 500"):
        await ask({"url": f"{api.url}/wrong"})
    assert len(api.seen) == 1


async def test_a_broken_connection_is_tried_again_within_the_deadline_only(api: Api) -> None:
    api.troubles["/flaky"] = 2
    assert (await ask({"url": f"{api.url}/flaky"}))["path"] == "/flaky"
    assert len(api.seen) == 3
    api.troubles["/flaky"] = 1
    with pytest.raises(ToolError, match="closed the connection"):
        await ask({"method": "POST", "url": f"{api.url}/flaky"})
    api.troubles["/flaky"] = 1
    run = factory.prepare("http_api", {"url": f"{api.url}/flaky"})
    hurried = context()
    hurried._clock = Clock(time.monotonic() + 0.05)
    with pytest.raises(ToolError, match="closed the connection"):
        await run({}, hurried)


class Clock:
    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def pause(self) -> None: ...

    def resume(self) -> None: ...


def test_pauses_grow_differ_and_follow_the_requests_of_the_host() -> None:
    for attempt, longest in ((0, 0.2), (1, 0.4), (2, 0.8), (4, 3.2), (9, 5.0)):
        found = {resilience.pause_seconds(attempt) for _ in range(50)}
        assert len(found) > 1 and min(found) >= longest / 2 and max(found) <= longest
    assert resilience.pause_seconds(0, "7") == 7.0
    assert resilience.pause_seconds(0, "Wed, 21 Oct 2026 07:28:00 GMT") <= 0.2


async def test_a_host_that_keeps_failing_is_left_alone_and_then_tried_by_one_call(api: Api) -> None:
    api.answers["/down"] = (503, "text/plain", b"no")
    settings = {"url": f"{api.url}/down", "retries": 0, "break_after": 3, "break_seconds": 3600}
    for _ in range(3):
        with pytest.raises(ToolError, match="status 503"):
            await ask(settings)
    for path in ("/down", "/up"):
        with pytest.raises(ToolError, match=r"127.0.0.1 failed 3 times in a row.* Try again in 3\d\d\d s"):
            await ask(settings | {"url": f"{api.url}{path}"})
    assert len(api.seen) == 3
    guard = resilience.breaker(api.url)
    assert guard.is_open
    guard.opened_until = time.monotonic()
    probe = asyncio.ensure_future(ask(settings | {"url": f"{api.url}/hold", "timeout": 30}))
    await asyncio.wait_for(api.held.wait(), 30)
    with pytest.raises(ToolError, match="Another call is testing it"):
        await ask(settings | {"url": f"{api.url}/up"})
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert (await ask(settings | {"url": f"{api.url}/up"}))["path"] == "/up"
    assert guard.failures == 0


async def test_an_api_error_of_its_own_opens_nothing(api: Api) -> None:
    api.answers |= {"/missing": (404, "text/plain", b""), "/wrong": (500, "text/plain", b"")}
    for _ in range(5):
        for path in ("/missing", "/wrong"):
            with pytest.raises(ToolError, match="status"):
                await ask({"url": f"{api.url}{path}", "break_after": 1})
    assert (await ask({"url": f"{api.url}/up", "break_after": 1}))["path"] == "/up"


async def test_calls_beyond_the_cap_wait_and_then_fail_because_the_tool_is_busy(api: Api) -> None:
    run = factory.prepare("http_api", {"url": f"{api.url}/hold", "max_concurrent": 1, "wait_seconds": 0.2})
    first = asyncio.ensure_future(run({}, context()))
    await asyncio.wait_for(api.held.wait(), 30)
    with pytest.raises(ToolError, match="1 calls of it are already running"):
        await run({}, context())
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    slots = Slots(1, lambda: ToolError("busy"))
    assert slots.take() and not slots.take()
    waiting, leaving = asyncio.ensure_future(slots.wait(60)), asyncio.ensure_future(slots.wait(60))
    await asyncio.sleep(0)
    leaving.cancel()
    slots.give()
    await asyncio.wait_for(waiting, 30)
    assert not slots.take()
    slots.give()
    assert slots.take()


async def test_one_user_cannot_take_every_place_of_a_tool(api: Api) -> None:
    run = factory.prepare("http_api", {"url": f"{api.url}/hold", "max_concurrent": 4, "wait_seconds": 0})
    alice, bob = context(), context()
    bob.caller = dataclasses.replace(
        bob.caller, credential=dataclasses.replace(bob.caller.credential, user_id=bob.user_id + 1)
    )
    running = [asyncio.ensure_future(run({}, alice)) for _ in range(3)]
    await asyncio.wait_for(api.held.wait(), 30)
    with pytest.raises(ToolError, match="busy with your calls"):
        await run({}, alice)
    others = asyncio.ensure_future(run({}, bob))
    await asyncio.sleep(0)
    with pytest.raises(ToolError, match="4 calls of it are already running"):
        await run({}, bob)
    for one in [*running, others]:
        one.cancel()
    await asyncio.gather(*running, others, return_exceptions=True)


# --- names that nobody answers for -----------------------------------------------------------------------------------


async def test_a_host_whose_dns_hangs_keeps_no_other_host_waiting(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    release, real = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        if host == "hanging.test":
            release.wait(60)
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return real("127.0.0.1" if host == "quick.test" else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    resolver = replace_part(monkeypatch, NameResolver())
    port = api.url.rpartition(":")[2]
    patient = {"timeout": 60, "retries": 0, "max_concurrent": 100}
    slow = [asyncio.create_task(ask({"url": "http://hanging.test/", **patient})) for _ in range(64)]
    await wait_until_async(lambda: resolver.running == 1)
    try:
        answer = await asyncio.wait_for(ask({"url": f"http://quick.test:{port}/x", "timeout": 60}), 20)
        assert answer["path"] == "/x"
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 20) == "free", "nor anything else"
    finally:
        release.set()
    for outcome in await asyncio.gather(*slow, return_exceptions=True):
        assert str(outcome).startswith("The request failed: hanging.test cannot be found.")
