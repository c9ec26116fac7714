"""Whatever a provider sends, the answer is JSON and never an error of this server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.scim.idp import GROUP, PATCH, SCIM, USER, Idp

pytestmark = pytest.mark.django_db
ABSENT = "2819c223-7f76-453a-919d-413861904646"
texts = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            *("", " ", "\0", "a\0b", "\n", "\u202e", "True", "False", "null", ABSENT, "ada@corp.example", "x" * 300),
            *(
                "ada",
                "SUB-ADA",
                "sub-ada",
                "Analysts",
                "analysts",
                "ſ",
                "İ",
                "\U0010ffff",
                "{}",
                "[]",
                "'",
                "%",
                "$ref",
            ),
        ]
    ),
)
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.sampled_from(["value", "type", "primary", "display", "givenName", "VALUE"]), texts),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
names = st.sampled_from(
    [
        *("userName", "externalId", "active", "displayName", "name", "emails", "password", "id", "meta", "schemas"),
        *("members", "groups", "title", "nothing", "ACTIVE", "urn:ietf:params:scim:schemas:core:2.0:User"),
    ]
)
paths = st.one_of(
    texts,
    names,
    st.builds("{}.{}".format, names, st.sampled_from(["value", "givenName", "familyName", "x", ""])),
    st.builds(
        '{}[{} {} "{}"]{}'.format,
        names,
        st.sampled_from(["value", "type", "primary", ""]),
        st.sampled_from(["eq", "EQ", "co", "and"]),
        st.one_of(texts, st.just(ABSENT), st.sampled_from(["work", "ID"])),
        st.sampled_from(["", ".value", ".display", "]", "."]),
    ),
    st.builds("urn:ietf:params:scim:schemas:core:2.0:{}:{}".format, st.sampled_from(["User", "Group", "x"]), names),
    values,
)
operations = st.fixed_dictionaries(
    {},
    optional={
        "op": st.one_of(st.sampled_from(["add", "Add", "replace", "Replace", "remove", "REMOVE"]), values),
        "path": paths,
        "value": values,
    },
)
patches = st.one_of(
    values,
    st.fixed_dictionaries(
        {"Operations": st.one_of(st.lists(operations, max_size=4), values)},
        optional={"schemas": st.one_of(st.just([PATCH]), values)},
    ),
)
wholes = st.one_of(
    values,
    st.dictionaries(names, values, max_size=8),
    st.builds(
        lambda name, id, more: {**more, "userName": name, "externalId": id, "displayName": name},
        texts,
        texts,
        st.dictionaries(names, values, max_size=4),
    ),
)
many = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def filled(idp: Idp, settings: Any) -> tuple[Idp, dict[str, str]]:
    settings.PROVISIONING_RATE = "1000000/m"
    ada = idp.make_user()
    return idp, {"Users": ada["id"], "Groups": idp.make_group("Analysts", ada, externalId="g-1")["id"]}


def check(answer: Any) -> None:
    assert answer.status_code < 500, answer.content
    if answer.status_code == 204:
        assert answer.content == b""
        return
    assert answer["Content-Type"] == SCIM
    body = answer.json()
    assert body["schemas"], body
    if answer.status_code >= 400:
        assert body["status"] == str(answer.status_code)
    else:
        # What was stored can be read, too.
        json.dumps(body).encode()


@many
@given(kind=st.sampled_from(["Users", "Groups"]), body=patches)
def test_a_patch_of_anything_is_answered(filled: tuple[Idp, dict[str, str]], kind: str, body: Any) -> None:
    idp, ids = filled
    check(idp.send("PATCH", f"{kind}/{ids[kind]}", json.dumps(body)))
    check(idp.get(f"{kind}/{ids[kind]}"))


@many
@given(kind=st.sampled_from(["Users", "Groups"]), method=st.sampled_from(["POST", "PUT"]), body=wholes)
def test_a_resource_of_anything_is_answered(
    filled: tuple[Idp, dict[str, str]], kind: str, method: str, body: Any
) -> None:
    idp, ids = filled
    if isinstance(body, dict):
        body = {"schemas": [USER if kind == "Users" else GROUP], **body}
    check(idp.send(method, kind if method == "POST" else f"{kind}/{ids[kind]}", json.dumps(body)))
    check(idp.get(kind))


@many
@given(kind=st.sampled_from(["Users", "Groups"]), body=st.binary(max_size=60))
def test_bytes_of_any_kind_are_answered(filled: tuple[Idp, dict[str, str]], kind: str, body: bytes) -> None:
    idp, ids = filled
    check(idp.send("PATCH", f"{kind}/{ids[kind]}", body, content_type=SCIM))


filters = st.one_of(
    texts,
    st.builds(
        '{} {} "{}"{}'.format,
        st.sampled_from(["userName", "externalId", "id", "displayName", "x", "urn:a:userName"]),
        st.sampled_from(["eq", "co", "Eq"]),
        texts,
        st.sampled_from(["", " and", ' and id eq "x"', ")"]),
    ),
)


@many
@given(
    path=st.one_of(
        st.sampled_from(["Users", "Groups"]), st.builds("Users/{}".format, st.text("abc.%-/~", max_size=40))
    ),
    parameters=st.fixed_dictionaries(
        {},
        optional={
            "filter": filters,
            "startIndex": st.one_of(st.integers().map(str), texts),
            "count": st.one_of(st.integers().map(str), texts),
            "attributes": texts,
            "excludedAttributes": texts,
            "sortBy": texts,
        },
    ),
)
def test_any_question_is_answered(filled: tuple[Idp, dict[str, str]], path: str, parameters: dict[str, str]) -> None:
    idp, _ids = filled
    check(idp.get(path, **parameters))


@pytest.mark.parametrize("charset", ["utf-16", "nothing", "x" * 500])
def test_a_charset_that_is_none_is_answered(filled: tuple[Idp, dict[str, str]], charset: str) -> None:
    idp, ids = filled
    for method in ("GET", "PATCH", "PUT"):
        answer = idp.send(method, f"Users/{ids['Users']}?attributes=id", {}, content_type=f"{SCIM}; charset={charset}")
        check(answer)
