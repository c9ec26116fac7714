"""Secrets do not reach the audit log: by schema, by name, by value, in every type and spelling."""

from __future__ import annotations

import base64
import json
import logging
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from audit import checks
from audit.redaction import redactor, rules
from audit.redaction.names import SecretNames
from audit.redaction.rules import Redaction, redaction
from audit.redaction.schema_fields import SecretFields
from tests.bounded import bounded
from toolhub.parts import parts

SECRET = 'canary-"Sécrët"-4711/x+y'


def redact(value, schema=None, mode=redactor.REDACTED, **options):
    return redactor.redactor(schema, mode).text(value, **options)


@pytest.fixture
def configured(settings):
    settings.REDACT_VALUES = [SECRET]
    return SECRET


@pytest.mark.parametrize("mark", [{"writeOnly": True}, {"format": "password"}, {"x-secret": True}, {"x-secret": "yes"}])
@pytest.mark.parametrize(
    "value", ["s3cr3t-value", 815_4711, 1.25, True, None, ["s3cr3t-value"], {"a": {"b": "s3cr3t-value"}}]
)
def test_a_field_that_the_schema_marks_is_hidden_whatever_its_type(mark, value):
    text = redact({"field": value, "other": 1}, {"type": "object", "properties": {"field": mark}})
    hidden = json.loads(text)["field"]
    assert hidden.keys() == {"$redacted", "length"}
    assert "s3cr3t-value" not in text and "8154711" not in text
    assert json.loads(text)["other"] == 1


@pytest.mark.parametrize(
    "schema, value",
    [
        ({"properties": {"a": {"properties": {"b": {"writeOnly": True}}}}}, {"a": {"b": "hide-me"}}),
        ({"properties": {"a": {"items": {"writeOnly": True}}}}, {"a": ["hide-me", "hide-me"]}),
        ({"properties": {"a": {"prefixItems": [{}, {"writeOnly": True}]}}}, {"a": ["x", "hide-me"]}),
        ({"properties": {"a": {"prefixItems": [{}], "items": {"writeOnly": True}}}}, {"a": ["x", "hide-me"]}),
        ({"properties": {"a": {"items": [{}, {"writeOnly": True}]}}}, {"a": ["x", "hide-me"]}),
        ({"properties": {"a": {"contains": {"writeOnly": True}}}}, {"a": ["hide-me"]}),
        ({"additionalProperties": {"writeOnly": True}}, {"anything": "hide-me"}),
        ({"patternProperties": {"^x_": {"writeOnly": True}}}, {"x_1": "hide-me"}),
        ({"patternProperties": {"(?=x)": {"writeOnly": True}}}, {"a pattern that cannot be read hides": "hide-me"}),
        ({"properties": {"a": {"$ref": "#/$defs/S"}}, "$defs": {"S": {"format": "password"}}}, {"a": "hide-me"}),
        ({"properties": {"a": {"$ref": "#s"}}, "$defs": {"S": {"$anchor": "s", "x-secret": True}}}, {"a": "hide-me"}),
        ({"$ref": "#/$defs/T", "$defs": {"T": {"properties": {"a": {"writeOnly": True}}}}}, {"a": "hide-me"}),
        ({"properties": {"a": {"$ref": "elsewhere.json"}}, "x": {"writeOnly": True}}, {"a": "hide-me"}),
        ({"allOf": [{"properties": {"a": {"writeOnly": True}}}]}, {"a": "hide-me"}),
        ({"anyOf": [{}, {"properties": {"a": {"writeOnly": True}}}]}, {"a": "hide-me"}),
        ({"oneOf": [{"properties": {"a": {"writeOnly": True}}}, {}]}, {"a": "hide-me"}),
        ({"if": {}, "then": {"properties": {"a": {"writeOnly": True}}}}, {"a": "hide-me"}),
        ({"if": {}, "else": {"properties": {"a": {"writeOnly": True}}}}, {"a": "hide-me"}),
        ({"dependentSchemas": {"b": {"properties": {"a": {"writeOnly": True}}}}}, {"a": "hide-me"}),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, {"writeOnly": True}]}}}, {"a": "hide-me"}),
    ],
)
def test_marks_are_found_wherever_a_schema_can_put_them(schema, value):
    assert "hide-me" not in redact(value, schema)


def test_a_schema_that_refers_to_itself_ends_and_hides_at_every_depth():
    schema = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {"properties": {"next": {"$ref": "#/$defs/node"}, "pass_phrase": {"writeOnly": True}, "n": {}}},
            "loop": {"$ref": "#/$defs/loop"},
        },
    }
    text = redact({"next": {"next": {"pass_phrase": "hide-me", "n": 1}}}, schema)
    assert "hide-me" not in text and '"n":1' in text
    assert SecretFields({"$ref": "#", "writeOnly": True}).start


def test_a_secret_that_stands_in_another_field_too_is_hidden_there():
    schema = {"properties": {"key": {"writeOnly": True}}}
    found: list[str] = []
    text = redact({"key": "hide-me-4711", "url": "https://x/?k=hide-me-4711"}, schema, found=found)
    assert "hide-me-4711" not in text
    assert found == ["hide-me-4711"]
    result = redactor.result_redactor(None).text(
        {"content": [{"type": "text", "text": "used hide-me-4711"}]}, extra=found
    )
    assert "hide-me-4711" not in result
    assert "hide-me-4711" not in redactor.redact_text("cannot log in with hide-me-4711", extra=found)


def test_the_output_schema_speaks_of_the_structured_content_and_hides_its_copy_in_the_text():
    schema = {"properties": {"pin_code_of_door": {"$ref": "#/$defs/p"}}, "$defs": {"p": {"format": "password"}}}
    structured = {"pin_code_of_door": "hide-me-4711", "floor": 3}
    result = {"content": [{"type": "text", "text": json.dumps(structured)}], "structuredContent": structured}
    text = redactor.result_redactor(schema).text(result)
    assert "hide-me-4711" not in text
    assert json.loads(text)["structuredContent"]["floor"] == 3


@pytest.mark.parametrize(
    "name",
    [
        "password", "PASSWORD", "user_password", "userPassword", "db-passwd", "X-Api-Key", "apiKey", "APIKEY",
        "api key",        "client_secret", "clientSecret", "access_token", "accessToken",
        "refresh-token", "Authorization", "Set-Cookie",
        "aws_secret_access_key", "private_key", "password2", "password_confirmation", "PasswordHash", "pwd", "otp",
        "credentials", "passphrase", "smtp.password",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["hide-me", 4711_4711, ["hide-me"], {"deep": "hide-me"}, None])
def test_names_that_hold_secrets_are_hidden_in_every_spelling(name, value):
    text = redact({"headers": [{name: value}]})
    assert "hide-me" not in text and "47114711" not in text
    assert json.loads(text)["headers"][0][name].keys() == {"$redacted", "length"}


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "total_tokens", "nextPageToken", "progressToken", "bypass", "compass", "author", "secretary", "key",
     "keyword", "path", "monkey", "spin", "tokenizer", "passed", "passenger", "has_password", "description"],
)  # fmt: skip
def test_names_that_only_resemble_secrets_are_kept(name):
    assert json.loads(redact({name: "kept"})) == {name: "kept"}


def test_an_operator_adds_names_and_takes_defaults_away(settings):
    settings.REDACT_NAMES = ["customer number", "x_internal_*", "-token"]
    kept = json.loads(redact({"customerNumber": "a", "my_customer_number": "b", "X-Internal-Id": "c", "token": "d"}))
    assert kept["token"] == "d"
    assert [type(kept[name]) for name in ("customerNumber", "my_customer_number", "X-Internal-Id")] == [dict] * 3


def test_json_inside_a_string_is_searched():
    inner = json.dumps({"user": "u", "password": "hide-me", "again": json.dumps({"api_key": "hide-me"})})
    text = redact({"body": inner, "content": [{"text": "  " + inner}]})
    assert "hide-me" not in text
    assert json.loads(json.loads(text)["body"])["user"] == "u"
    nested = "hide-me"
    for _ in range(9):
        nested = json.dumps({"password": nested})
    assert "hide-me" not in redact([nested])


def spellings(secret: str = SECRET):
    raw = secret.encode()
    return {
        "whole": secret,
        "inside": f"before {secret} after",
        "json": json.dumps({"a": secret}),
        "json, not ascii": json.dumps({"a": secret}, ensure_ascii=False),
        "json in json": json.dumps(json.dumps({"a": secret})),
        "url": "https://x/?k=" + quote(secret, safe=""),
        "url, small hexadecimals": "https://x/?k=" + re.sub("%..", lambda m: m[0].lower(), quote(secret, safe="")),
        "base64": base64.b64encode(raw).decode(),
        "base64 after 1": base64.b64encode(b"u:" + raw + b"!").decode(),
        "base64 after 2": base64.b64encode(b"ux:" + raw).decode(),
        "base64 for urls": base64.urlsafe_b64encode(b"user:" + raw).decode(),
        "hexadecimal": raw.hex(),
        "upper hexadecimal": raw.hex().upper(),
        "repr": repr({"a": secret}),
        "html": secret.replace('"', "&quot;"),
    }


def reveals_secret(text: str) -> bool:
    raw = SECRET.encode()
    core = base64.b64encode(raw).decode()[4:-6]
    return any(
        sign in text.lower()
        for sign in ("crët", "cr\\u00ebt", "cr%c3%abt", "4711", raw.hex()[10:30], core.lower(), "cr\\\\u00ebt")
    )


@pytest.mark.parametrize("spelling", list(spellings()))
@pytest.mark.parametrize("mode", [redactor.REDACTED, redactor.WHOLE])
def test_a_configured_value_is_hidden_in_every_spelling(configured, spelling, mode):
    value = spellings()[spelling]
    for place in ({"note": value}, {"list": [[value]]}, {value: 1}, value):
        assert not reveals_secret(redact(place, mode=mode)), place
    assert not reveals_secret(redactor.redact_text(f"failed: {value}"))


@pytest.mark.parametrize("spelling", list(spellings()))
def test_a_long_value_is_hidden_in_every_spelling_too(settings, spelling):
    settings.REDACT_VALUES = [SECRET * 50]
    value = spellings(SECRET * 50)[spelling]
    for place in ({"note": value}, {"list": [[value]]}, {value: 1}, value):
        assert not reveals_secret(redact(place)), place
    assert not reveals_secret(redactor.redact_text(f"failed: {value}"))


def many_values(count: int = 60) -> list[str]:
    return [f"value-{number:04d}" for number in range(count)]


@pytest.mark.parametrize(
    "values",
    [many_values(), ['"é' * 95 + str(number) for number in range(12)], ["y" * 12_000 + "1", "y" * 12_000 + "2"]],
    ids=["many", "many characters", "many characters of long ones"],
)
def test_where_the_hidden_values_are_too_many_to_search_for_everything_is_hidden(values):
    found: list[str] = []
    text = redact({"password": values, "note": f"also {values[-1]}", "n": [1] * 100}, found=found)
    assert set(json.loads(text)) == {"$redacted", "length"} and set(found) == set(values)
    result = redact({"content": [{"type": "text", "text": f"it was {values[3 % len(values)]}"}]}, extra=found)
    assert set(json.loads(result)) == {"$redacted", "length"}
    error = redactor.redact_text(f"it failed with {values[0]}", found)
    assert values[0][:12] not in error and "failed" not in error


def test_as_many_hidden_values_as_a_person_sends_leave_the_rest_readable():
    key = "-----BEGIN PRIVATE KEY-----\n" + "k3y/" * 800
    found: list[str] = []
    text = redact({"host": "db1", "private_key": key, "passwords": many_values(40), "n": key}, found=found)
    assert json.loads(text)["host"] == "db1" and "k3y/" not in text and "value-00" not in text
    assert "k3y/" not in redact({"text": f"stored {key}"}, extra=found)


def test_a_number_that_is_a_configured_value_is_hidden(settings):
    settings.REDACT_VALUES = ["815471112"]
    text = redact({"a": 815471112, "b": [815471112.0, -815471112], "c": 815})
    assert "815471112" not in text
    assert json.loads(text)["c"] == 815


@pytest.fixture
def fresh_redaction():
    """What a test adds is not hidden from the next one."""
    before = parts.get(Redaction)
    parts.put(Redaction())
    yield
    parts.put(before)


def test_registered_secret_values_of_other_parts_are_hidden(fresh_redaction):
    assert "upstream-pass-1" in redact({"a": "upstream-pass-1"})
    redaction().add_values(["upstream-pass-1"])
    assert "upstream-pass-1" not in redact({"a": "upstream-pass-1"})


def test_an_access_token_of_this_hub_is_hidden_without_any_setting():
    token = "thp_" + "Ab3_-" * 8 + "xyz"
    for mode in (redactor.WHOLE, redactor.REDACTED):
        assert token not in redact({"a": f"Bearer {token}", token: 1}, mode=mode)
    assert token not in redactor.redact_text(f"bad token {token}")


def test_digests_only_keeps_nothing_but_a_digest_and_the_length():
    kept = json.loads(redact({"a": "public"}, mode=redactor.DIGESTS))
    assert kept.keys() == {"$redacted", "length"} and kept["length"] == len('{"a":"public"}')
    assert kept == json.loads(redact({"a": "public"}, mode=redactor.DIGESTS))


def test_whole_keeps_values_marked_only_by_names_and_schemas():
    text = redact({"password": "kept"}, {"properties": {"password": {"writeOnly": True}}}, redactor.WHOLE)
    assert json.loads(text) == {"password": "kept"}


def test_equal_secrets_have_equal_digests_and_another_key_gives_others(settings):
    first, second = (json.loads(redact({"password": value}))["password"] for value in ("one-secret", "one-secret"))
    assert first == second
    settings.RECORD_KEY = "another key of the record"
    assert json.loads(redact({"password": "one-secret"}))["password"] != first


def test_values_that_cannot_be_searched_are_not_stored():
    deep: object = "hide-me"
    for _ in range(100_000):
        deep = [deep]
    assert "hide-me" not in redact({"a": deep})
    assert "hide-me" not in redact({1: "hide-me", "a": 2})


def test_the_stored_text_is_ascii_without_zero_bytes_and_lone_surrogates(configured):
    text = redact({"a": "\x00 \ud800 é \U0001f600", "b": f"\ud800{SECRET}\udfff"})
    assert text.isascii() and "\x00" not in text and not reveals_secret(text)
    assert json.loads(text)["a"] == "\x00 \ud800 é \U0001f600"


def test_what_stands_beside_a_well_formed_marker_is_searched():
    marker = {"$redacted": "hmac-sha256:0123456789abcdef", "length": 5}
    assert redact({"password": marker}) == json.dumps({"password": marker}, separators=(",", ":"))
    for beside in ({"password": "my-real-secret"}, {"more": [{"api_key": "my-real-secret"}]}):
        assert "my-real-secret" not in redact({"plain": {**marker, **beside}})
        assert "my-real-secret" not in redact({"password": {**marker, **beside}})


def test_a_client_cannot_pass_a_secret_off_as_hidden():
    text = redact({"password": {"$redacted": "my-real-secret", "length": 3}})
    assert "my-real-secret" not in text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


@hypothesis_settings(bounded, max_examples=150)
@given(json_values)
def test_values_without_a_secret_are_stored_exactly(value):
    names = SecretNames()

    def clean(item):
        if isinstance(item, dict):
            return {name: clean(inner) for name, inner in item.items() if not names(name)}
        return [clean(inner) for inner in item] if isinstance(item, list) else item

    kept = clean(value)
    assert json.loads(redact(kept)) == kept
    assert redact(kept) == redactor.canonical(kept)


@hypothesis_settings(bounded, max_examples=100)
@given(json_values, st.lists(st.sampled_from(["a", "b", 0]), max_size=4))
def test_a_secret_anywhere_in_any_value_is_hidden(value, way):
    canary = "zq-canary-zq"
    hidden: object = {"password": [value, canary], "rest": value}
    for step in way:
        hidden = [value, hidden] if step == 0 else {step: hidden, "x": value}
    assert canary not in redact(hidden)


def test_the_first_part_of_a_secret_is_hidden_from_sentences_that_cut_it():
    secret = "hide-me-" * 20
    text = redactor.redact_text(
        f'argument "key" is "{secret[:60]}"... of 160 characters, {secret[:15]}', extra=[secret]
    )
    assert "hide-me" not in text and "of 160 characters" in text


@pytest.mark.parametrize("secret", ["hmac-sha256:zzzz", "redacted hmac-sha256:z", "[redacted hmac-sha256:0000"])
def test_a_secret_that_looks_like_its_mark_is_hidden_once(secret):
    text = redactor.redact_text(f"{secret} and {secret[:13]}", [secret])
    assert secret not in text and len(text) < 400


def test_the_bound_of_what_is_searched_counts_all_spellings():
    emoji = [f"{number}" + "\U0001f600" * 180 for number in range(10)]
    assert rules.are_too_many(emoji) and not rules.are_too_many(many_values(40))


def test_a_long_number_that_is_a_secret_is_hidden_elsewhere_too():
    number = int("7" * 250)
    assert "7" * 30 not in redact({"password": number, "copy": number, "list": [number]})


@pytest.mark.parametrize(
    "line",
    [
        "GET https://user:hide-me-1@host/path",
        "Authorization: Bearer hide-me-1.abc",
        "authorization: basic aGlkZS1tZS0xOmFiYw==hide-me-1",
        "GET /x?a=1&access_token=hide-me-1&b=2",
        "postgresql://toolhub:hide-me-1@db:5432/toolhub",
    ],
)
def test_error_texts_lose_values_in_secret_places(line):
    assert "hide-me-1" not in redactor.redact_text(line)


def test_a_long_hostile_text_is_masked_in_linear_time():
    for text in ("a" * 300_000 + "=", "a://" * 50_000, "bearer " * 50_000, "?a=" * 80_000):
        assert redactor.redact_text(text)


def test_log_lines_and_tracebacks_lose_secrets(configured):
    lines: list[str] = []

    class Keeps(logging.Handler):
        def emit(self, record):
            lines.append(self.format(record))

    handler = Keeps()
    handler.addFilter(redactor.LogFilter())
    logger = logging.getLogger("test.redaction")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    logger.debug("calling with %s and %r", SECRET, {"a": SECRET})
    try:
        raise ValueError(f"cannot use {SECRET}")
    except ValueError:
        logger.exception("failed with thp_%s", "x" * 43)
    logger.removeHandler(handler)
    assert len(lines) == 2
    assert not any(reveals_secret(line) for line in lines)
    assert "x" * 43 not in lines[1] and "Traceback" in lines[1]


def test_the_console_of_the_settings_uses_the_filter(settings):
    assert settings.LOGGING["handlers"]["console"]["filters"][-1] == "secrets"


def test_values_too_short_to_hide_are_reported_by_a_system_check(settings):
    settings.REDACT_VALUES = ["abc", "long enough"]
    settings.KEEP_BODIES_DAYS, settings.KEEP_CALLS_DAYS = 90, 30
    assert [message.id for message in (*checks.check_secret_lengths(), *checks.check_retention())] == [
        "audit.W001",
        "audit.W002",
    ]
    assert "abc" not in str(checks.check_secret_lengths())
    settings.REDACT_VALUES, settings.KEEP_CALLS_DAYS = ["long enough"], 0
    assert not checks.check_secret_lengths() and not checks.check_retention()
