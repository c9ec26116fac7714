from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bounded import bounded
from toolhub.wire.uritemplate import parse


@pytest.mark.parametrize(
    "text",
    [
        "a://{+path}",
        "a://{#frag}",
        "a://{/seg}",
        "a://{?q}",
        "a://{&q}",
        "a://{;p}",
        "a://{.ext}",
        "a://{a,b}",
        "a://{a:3}",
        "a://{a*}",
        "a://{}",
        "a://{a b}",
        "a://{a",
        "a://a}",
        "a://{{a}}",
        "a://{a}{b}",
        "a://{a}/{a}",
        "a://{a-b}",
        "a://{a\n}",
        "a://" + "x" * 2000,
    ],
)
def test_anything_but_plain_variables_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"\.$"):
        parse(text)


@pytest.mark.parametrize(
    "uri",
    [
        "test://template//data",
        "test://template/1/data/",
        "test://template/1/2/data",
        "test://template/1/dat",
        "Test://template/1/data",
        "test://template/1/data?x",
        "test://template/1?/data",
        "test://template/1#/data",
        "test://template/%/data",
        "test://template/%4/data",
        "test://template/%zz/data",
        "test://template/%ff/data",
        "test://template/%00/data",
        "test://template/%0A/data",
        "test://template/a b/data",
        "test://template/a\n/data",
        "test://template/{id}/data",
        "",
        "test://template/",
    ],
)
def test_a_uri_of_another_shape_does_not_match(uri: str) -> None:
    assert parse("test://template/{id}/data").match(uri) is None


def test_variables_are_listed_and_values_decoded() -> None:
    template = parse("test://template/{id}/data")
    assert template.variables == ("id",)
    assert template.match("test://template/123/data") == {"id": "123"}
    assert template.match("test://template/a%2Fb%20%C3%A9%25/data") == {"id": "a/b é%"}
    assert template.match("test://template/data/data") == {"id": "data"}


def test_several_variables_are_separated_by_the_text_between_them() -> None:
    template = parse("db://{host}.{zone}/{table}-{row}.json")
    assert template.variables == ("host", "zone", "table", "row")
    assert template.match("db://a.b/users-7-8.json") == {"host": "a", "zone": "b", "table": "users", "row": "7-8"}
    assert template.match("db://a.b/users.json") is None


def test_a_template_without_variables_matches_itself() -> None:
    assert parse("a://b").match("a://b") == {}
    assert parse("a://b").match("a://bc") is None


def test_a_hostile_uri_costs_no_more_than_its_length() -> None:
    template = parse("a://" + "-".join(f"{{v{i}}}" for i in range(100)) + "!")
    assert template.match("a://" + "-" * 15_000) is None
    assert template.match("a://" + "-" * 15_000 + "!") is not None
    assert template.match("a://" + "-" * 1_000_000) is None


names = st.from_regex(r"[A-Za-z0-9_]{1,8}", fullmatch=True)


@bounded
@given(
    st.lists(names, min_size=1, max_size=4, unique=True),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20),
)
def test_expanded_uris_match_their_template(variables: list[str], value: str) -> None:
    template = parse("a://x/" + "/".join(f"{{{name}}}" for name in variables) + "/end")
    values = dict.fromkeys(variables, value)
    assert template.match(template.expand(values)) == values
