"""Tools beside each other: those that a model confuses, and those that one tool could replace."""

from __future__ import annotations

from typing import Any

from catalog.advice import beside
from catalog.models import Tool

ORDERS = "List the orders of one customer. Use it when somebody asks what they bought."


def tool(name: str, description: str = "", required: tuple[str, ...] = (), **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name=name, description=description, input_schema=schema)


def pairs(*rows: Tool) -> list[tuple[str, str, str]]:
    return [(pair.one, pair.other, pair.suggestion.code) for pair in beside.find_pairs(rows)]


def test_indistinguishable_tools_are_named_and_the_others_are_not() -> None:
    rows = [
        tool("get_order", ORDERS),
        tool("get_orders", "Something else altogether, for another purpose entirely."),
        tool("list_purchases", ORDERS + " Please."),
        tool("delete_file", "Delete one file of the workspace for good. Ask the person first."),
    ]
    assert pairs(*rows) == [
        ("get_order", "get_orders", "similar_name"),
        ("get_order", "list_purchases", "similar_description"),
    ]
    found = beside.describe_similar(tool("get_orders", ORDERS), [("list_purchases", ORDERS + " Please.")])
    assert list(map(str, found)) == [
        "The description is almost the same as that of list_purchases. Say when to use which tool."
    ]


def test_chinese_descriptions_are_compared_although_they_have_no_spaces() -> None:
    one = tool("get_stock", "查询一个商品在某仓库的库存数量。当用户询问是否有货时使用。")
    other = tool("read_inventory", "查询一个商品在某仓库的库存数量。当用户询问是否有货时请使用。")
    third = tool("get_price", "查询一个商品的含税价格。当用户询问多少钱时使用。")
    assert pairs(one, other, third) == [("get_stock", "read_inventory", "similar_description")]


def test_create_and_update_with_the_clients_own_key_could_be_one_tool() -> None:
    text = {"type": "string"}
    create = tool("create_page", "Make a page.", ("title",), title=text, body=text)
    update = tool("update_page", "Replace the text of a page.", ("title", "body"), title=text, body=text)
    assert pairs(create, update) == [("create_page", "update_page", "upsert_fits")]
    # The server numbers these, so that creating cannot name the one to change.
    open_ticket = tool("create_ticket", "Open a ticket.", ("summary",), summary=text, team=text)
    edit_ticket = tool("update_ticket", "Change a ticket.", ("id",), id=text, summary=text, team=text)
    assert pairs(open_ticket, edit_ticket) == []
    # Another thing, and arguments that have little in common.
    assert pairs(create, tool("update_user", "Change a user.", ("title",), title=text, body=text)) == []
    few = tool("update_page", "Move a page.", ("title",), title=text, parent=text, position=text)
    assert pairs(create, few) == []
