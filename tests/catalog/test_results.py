"""What a function returns becomes content that is safe to send, measured, checked and kept."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async

from audit import outcomes, recorder
from audit.models import Call
from audit.redaction import redactor
from audit.results import kept
from catalog import threads
from catalog.calls import call_log, call_tool, stored_results
from catalog.errors import UnknownResource
from catalog.functions.content import ABSENT
from catalog.functions.results import BadResult, clean_name, clean_text, produce, size_of
from catalog.functions.sanitise import format_note, sanitise_text
from tests.catalog import tools
from tests.catalog.pipeline import (
    RecordingChannel,
    call,
    caller,
    logged_calls,
    only_logged_call,
    publish,
    run_in_database,
    text,
)
from tests.polling import wait_until_async

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("which", "says"),
    [
        ("nan", "cannot be written as JSON"),
        ("cycle", "cannot be written as JSON"),
        ("object", "cannot be written as JSON"),
        ("bytes", "bytes without a type"),
        ("bad base64", "not valid base64"),
        ("bad mime", "MIME type"),
        ("bad uri", "not a URI"),
        ("other image", "labelled image/png, but the bytes are image/jpeg"),
        ("page", "labelled image/jpeg, but the bytes are not"),
        ("other audio", "but the bytes are image/png"),
    ],
)
async def test_a_result_that_cannot_be_sent_is_an_error_with_the_reason(alice: Any, which: str, says: str) -> None:
    await run_in_database(publish, alice, "call_kinds")
    result = await call(alice, "call_kinds", {"which": which})
    assert result.is_error and says in text(result)
    row = await only_logged_call()
    assert (row.outcome, row.error_class) == (outcomes.TOOL_ERROR, "BadResult")


async def test_every_kind_of_content_arrives_in_the_form_of_the_protocol(alice: Any) -> None:
    await run_in_database(publish, alice, "call_kinds")
    expected: dict[str, Any] = {
        "text": [{"type": "text", "text": "plain"}],
        "none": [],
        "number": [{"type": "text", "text": "42"}],
        "dict": [{"type": "text", "text": '{"b":1,"a":[1,2]}'}],
        "list": [{"type": "text", "text": '["a",1]'}],
        "image": [{"type": "image", "data": base64.b64encode(tools.PNG).decode(), "mimeType": "image/png"}],
        "audio": [{"type": "audio", "data": base64.b64encode(tools.WAV).decode(), "mimeType": "audio/wav"}],
        "resource": [{"type": "resource", "resource": {"uri": "test://a", "mimeType": "text/plain", "text": "inside"}}],
        "blob": [{"type": "resource", "resource": {"uri": "test://b", "blob": "AAE="}}],
        "link": [{"type": "resource_link", "uri": "https://example.com/x", "name": "xy", "size": 3}],
        "mixed": [
            {"type": "text", "text": "first"},
            {"type": "image", "data": base64.b64encode(tools.PNG).decode(), "mimeType": "image/png"},
            {"type": "text", "text": "last"},
        ],
        "structured": [{"type": "text", "text": "for people"}],
        "surrogate": [{"type": "text", "text": "a\ufffdb"}],
        "surrogate inside": [{"type": "text", "text": '{"k":"a\ufffdb"}'}],
    }
    for which, content in expected.items():
        result = await call(alice, "call_kinds", {"which": which})
        assert (result.content, result.is_error) == (content, False), which
        json.dumps(result.content, allow_nan=False).encode()
    structured = await call(alice, "call_kinds", {"which": "tuple"})
    assert structured.structured == {"pair": [1, 2]}
    failed = await call(alice, "call_kinds", {"which": "result"})
    assert failed.is_error and failed.meta == {"n": 1} and text(failed) == "bad news"


async def test_structured_content_is_validated_against_the_output_schema(alice: Any) -> None:
    await run_in_database(publish, alice, "call_weather")
    good = await call(alice, "call_weather", {"sky": "clear"})
    assert good.structured == {"celsius": 21.5, "sky": "clear"} and json.loads(text(good)) == good.structured
    bad = await call(alice, "call_weather", {"sky": "green"})
    assert bad.is_error and "sky" in text(bad) and bad.structured is ABSENT


@pytest.mark.parametrize("value", [[1, 2], [], None, False, 0, 2.5, "", "text"])
@pytest.mark.parametrize("how", ["plain", "structured", "result"])
async def test_structured_content_is_any_json_value_that_the_output_schema_allows(
    alice: Any, value: Any, how: str
) -> None:
    await run_in_database(publish, alice, "call_json")
    result = await call(alice, "call_json", {"value": json.dumps(value), "how": how})
    assert not result.is_error, text(result)
    assert result.structured == value and type(result.structured) is type(value)
    shown = {"plain": json.dumps(value, separators=(",", ":")), "structured": "in words"}
    assert text(result) == shown.get(how, shown["plain"])
    row = await only_logged_call()
    assert json.loads(row.result)["structuredContent"] == value


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"value": '["a"]'}, "does not match its output schema"),
        ({"value": '{"a": 1}'}, "does not match its output schema"),
        ({"value": '"too long"'}, "does not match its output schema"),
        ({"value": "null", "how": "nothing"}, "no structured result, and its output schema promises one"),
    ],
)
async def test_a_value_that_the_output_schema_does_not_allow_is_an_error(
    alice: Any, arguments: dict[str, str], says: str
) -> None:
    await run_in_database(publish, alice, "call_json")
    result = await call(alice, "call_json", arguments)
    assert result.is_error and says in text(result) and result.structured is ABSENT


async def test_a_large_array_is_moved_out_like_an_object(alice: Any) -> None:
    await run_in_database(publish, alice, "call_json", max_result_bytes=500)
    result = await call(alice, "call_json", {"value": json.dumps([10**6] * 500)})
    assert result.is_error and result.structured is ABSENT
    read = await call_tool.read_resource(caller(alice), result.content[1]["uri"], RecordingChannel())
    assert json.loads(read.contents[0]["text"]) == [10**6] * 500


async def test_a_large_result_is_kept_for_its_user_alone_and_linked_to(alice: Any, bob: Any) -> None:
    await run_in_database(publish, alice, "call_large")
    result = await call(alice, "call_large", {"size": 200_000})
    assert not result.is_error
    sentence, link = result.content
    assert "200000 bytes" in sentence["text"] and sentence["text"].count("t" * 400) == 1
    assert link["type"] == "resource_link" and link["size"] == 200_000 and link["uri"] in sentence["text"]
    read = await call_tool.read_resource(caller(alice), link["uri"], RecordingChannel())
    assert read.contents == [{"uri": link["uri"], "mimeType": "text/plain", "text": "t" * 200_000}]
    for user, uri in ((bob, link["uri"]), (alice, f"{stored_results.URI_PREFIX}{uuid4()}"), (alice, link["uri"] + "0")):
        with pytest.raises(UnknownResource):
            await call_tool.read_resource(caller(user), uri, RecordingChannel())


async def test_a_cap_counts_bytes_and_not_characters(alice: Any) -> None:
    await run_in_database(publish, alice, "call_echo", max_result_bytes=2000)
    assert len((await call(alice, "call_echo", {"value": "a" * 1500})).content) == 1
    assert len((await call(alice, "call_echo", {"value": "ä" * 1500})).content) == 2


async def test_a_large_image_is_moved_out_and_the_rest_stays(alice: Any) -> None:
    await run_in_database(publish, alice, "call_large")
    result = await call(alice, "call_large", {"size": 9000, "kind": "image"})
    assert [block["type"] for block in result.content] == ["text", "resource_link", "text"]
    assert result.content[2]["text"] == "small"
    read = await call_tool.read_resource(caller(alice), result.content[1]["uri"], RecordingChannel())
    assert base64.b64decode(read.contents[0]["blob"]) == tools.PNG + b"i" * 8992
    assert read.contents[0]["mimeType"] == "image/png"


async def test_large_structured_content_is_moved_out_and_an_error_where_it_was_promised(alice: Any) -> None:
    await run_in_database(publish, alice, "call_large", "call_large_weather")
    free = await call(alice, "call_large", {"size": 9000, "kind": "structured"})
    assert free.structured is ABSENT and not free.is_error
    uri = free.content[1]["uri"]
    read = await call_tool.read_resource(caller(alice), uri, RecordingChannel())
    assert json.loads(read.contents[0]["text"]) == {"body": "s" * 9000}
    assert read.contents[0]["mimeType"] == "application/json"
    promised = await call(alice, "call_large_weather", {"size": 9000})
    assert promised.is_error and "too large" in text(promised)


async def test_a_large_result_is_cut_off_visibly_when_it_cannot_be_kept(
    alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_in_database(publish, alice, "call_large")

    async def full(*args: Any, **options: Any) -> str:
        raise OSError("disk full")

    monkeypatch.setattr(stored_results, "put", full)
    result = await call(alice, "call_large", {"size": 50_000})
    assert len(result.content) == 1 and "was truncated" in text(result) and len(text(result)) < 2000


async def test_the_audit_log_keeps_the_beginning_of_a_long_result_and_the_digest_of_all_of_it(alice: Any) -> None:
    await run_in_database(publish, alice, "call_echo", max_argument_bytes=1_000_000)
    for size in (100_000, 500_000):
        result = await call(alice, "call_echo", {"value": "v" * size})
        whole = redactor.canonical({"content": result.content})
        row = await Call.objects.aget(id=result.call_id)
        assert row.result == whole[:65_536] and row.result_bytes == len(whole)
        assert row.result_sha256 == hashlib.sha256(whole.encode()).hexdigest()


async def test_a_long_result_is_kept_whole_up_to_the_setting_and_without_its_secrets(alice: Any, settings: Any) -> None:
    settings.KEEP_WHOLE_BODIES_BYTES = 1_000_000
    await run_in_database(publish, alice, "call_echo", max_argument_bytes=4_000_000, max_result_bytes=4_000_000)
    secret = "hunter2-hunter2-hunter2"
    # Behind the part that the call itself has.
    values = [{"a": "v" * size, "password": secret} for size in (100, 100_000, 500_000, 1_000_001)]
    made = [await call(alice, "call_echo", {"value": value}) for value in values]
    await recorder.stop(60)
    rows = [await Call.objects.aget(id=one.call_id) for one in made]
    found = [await sync_to_async(kept.read_result)(row) for row in rows]
    assert [one.state for one in found] == [kept.COMPLETE, kept.WHOLE, kept.WHOLE, kept.CUT]
    for row, one in zip(rows[1:3], found[1:3], strict=True):
        assert hashlib.sha256(one.text.encode()).hexdigest() == row.result_sha256
        assert one.text.startswith(row.result) and secret not in one.text and "hmac-sha256:" in one.text
    settings.KEEP_WHOLE_BODIES_BYTES = 0
    off = await call(alice, "call_echo", {"value": values[1] | {"b": 1}})
    await recorder.stop(60)
    row = await Call.objects.aget(id=off.call_id)
    assert (await sync_to_async(kept.read_result)(row)).state == kept.CUT


async def test_a_call_abandoned_while_a_long_result_is_stored_still_ends(
    alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_in_database(publish, alice, "call_echo", max_argument_bytes=1_000_000)
    writing = asyncio.Event()

    class Stuck:
        async def run(self, *_work: Any) -> None:
            writing.set()
            await asyncio.sleep(1000)

    running = asyncio.ensure_future(call(alice, "call_echo", {"value": "v" * 900}))
    assert not (await running).is_error
    monkeypatch.setattr(threads, "checks", Stuck)
    monkeypatch.setattr(call_log, "MAX_INLINE_CHARACTERS", 100)
    running = asyncio.ensure_future(call(alice, "call_echo", {"value": "v" * 900}))
    await asyncio.wait_for(writing.wait(), 30)
    running.cancel("the client closed the stream")
    with pytest.raises(asyncio.CancelledError):
        await running

    async def ended() -> bool:
        return len(await logged_calls(outcome=outcomes.OK)) == 2

    await wait_until_async(ended)


def test_text_is_cleaned_only_where_it_must_be() -> None:
    assert clean_text("grüße 😀") == "grüße 😀"
    assert clean_text("x\udc80") == "x\ufffd"
    assert clean_name("a\x1b[31m\nb\u2028c") == "a[31mbc"


def test_a_value_is_measured_without_being_written() -> None:
    for value in ({"a": "b"}, [1, 2, "x"], "text", None, {"n": [True, 1.5, {"deep": "ä"}]}):
        exact = len(json.dumps(value, ensure_ascii=False).encode())
        assert exact * 0.5 <= size_of(value, 10_000) <= exact * 2 + 16
    assert size_of(["x" * 100] * 1_000_000, 1000) > 1000


def test_a_result_that_is_not_json_is_refused_whatever_it_hides_in() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadResult):
        produce(deep)


async def test_control_and_invisible_characters_are_removed_or_shown_with_a_note(alice: Any) -> None:
    await run_in_database(publish, alice, "call_kinds")
    expected = {
        "escapes": ("red alert, \\x07bell, end", 4),
        "hidden": ("ab\\u{E006F}\\u{E0062}\\u{E0065}\\u{E0079}c\\u{202E}dcba", 5),
    }
    for which, (shown, changed) in expected.items():
        result = await call(alice, "call_kinds", {"which": which})
        assert [block["text"] for block in result.content] == [shown, format_note(changed)] and not result.is_error
    result = await call(alice, "call_kinds", {"which": "hidden inside"})
    assert result.structured == {"k\\u{202E}": ["", {"deep": "\\u{E0041}"}]}
    assert json.loads(text(result)) == result.structured and result.content[1]["text"] == format_note(3)
    stored_texts = [row.result for row in await logged_calls()]
    assert not any(character in kept for kept in stored_texts for character in "\x1b\u202e\U000e0041")


@pytest.mark.parametrize(
    "kept",
    [
        "plain",
        "two\nlines\tand a tab\r\n",
        "grüße 😀 שלום",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u2764\ufe0f",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    ],
)
def test_text_without_tricks_stays_as_it_is(kept: str) -> None:
    assert sanitise_text(kept) == (kept, 0)


def test_no_control_character_and_no_hidden_text_gets_through() -> None:
    tricks = [
        chr(number) for number in [*range(32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
    ]
    tricks += [chr(number) for number in range(0xE0000, 0xE0080)] + ["\U000e0100\U000e0101", "\U0001f3f4\U000e0067"]
    for trick in tricks:
        if trick in "\t\n\r":
            continue
        shown, changed = sanitise_text(f"a{trick}b")
        assert changed and shown.replace("\U0001f3f4", "").isascii() and shown.isprintable(), ascii(trick)
    assert sanitise_text("\x1b[38;5;196mred\x1b[0m \x9b2Jx \x1b]8;;http://a\x1b\\link")[0] == "red x link"
    hostile = "\x1b]" * 200_000
    assert len(sanitise_text(hostile)[0]) < len(hostile)
