"""Sentences that are put together have blanks between them in English and none in Chinese."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils.translation import override

from toolhub import contact
from toolhub.chinese import close_blanks


@pytest.mark.parametrize(
    ("written", "closed"),
    [
        ("已取消。 请重试。", "已取消。请重试。"),
        ("已取消。 <a href='/'>查看</a>", "已取消。<a href='/'>查看</a>"),
        ("请联系 您的管理员 填写。", "请联系您的管理员填写。"),
        ("请联系 <a href='/x y/'>张三</a> 填写。", "请联系<a href='/x y/'>张三</a>填写。"),
        ("请联系 IT 部门 填写。", "请联系 IT 部门填写。"),
        ("删除 工具 calculate_sum", "删除工具 calculate_sum"),
        ("保留： 已更改, 有授权, calculate_sum, 其他", "保留：已更改、有授权、calculate_sum、其他"),
        (
            "参数： <code>path</code> <b>必填</b>, <code>to</code>",
            "参数：<code>path</code> <b>必填</b>、<code>to</code>",
        ),
        ("用户：alice, bob", "用户：alice, bob"),
        ("<b>调用:</b> <i>全部</i>", "<b>调用：</b><i>全部</i>"),
        ("用户组: 1", "用户组：1"),
        ("时间 (UTC)", "时间（UTC）"),
        ("delete_file (破坏性, 已隔离)", "delete_file（破坏性、已隔离）"),
        ("census (thp_bR5k…)", "census (thp_bR5k…)"),
        ("One. Two.", "One. Two."),
    ],
)
def test_chinese_has_no_blank_between_sentences_and_characters(written: str, closed: str) -> None:
    with override("zh-hans"):
        assert close_blanks(written) == closed
    with override("en"):
        assert close_blanks(written) == written


def test_pages_and_errors_ask_for_the_administrator_without_a_blank() -> None:
    page = Client().get("/no-such-page/", headers={"accept-language": "zh-hans"}).content.decode()
    assert "请联系您的管理员" in page
    assert "。 " not in page
    with override("zh-hans"):
        assert contact.fill("请联系 %(contact)s。").__html__() == "请联系您的管理员。"
