"""The signed-in person's pages: what they refuse, that they show nobody else's things, and then what they show."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.db import connections
from django.test import Client
from django.utils import timezone

from audit.models import Call
from catalog.views import tools as tool_views
from tests import factories
from toolhub.access import connect, views
from toolhub.access.models import AccessToken, digest_of
from toolhub.access.token_errors import PLACEHOLDER

if TYPE_CHECKING:
    from django.contrib.auth.models import User

Browser = Callable[..., Client]
PAGES = ("/tools/", "/calls/", "/tokens/", "/connect/", "/connect/cursor/", "/password/")
TOKEN = re.compile(r"thp_[A-Za-z0-9_-]{43}")
HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def log_call(user: User, **fields: Any) -> Call:
    values: dict[str, Any] = {
        "id": uuid.UUID(int=(int(time.time() * 1000) << 80) | (7 << 76) | (2 << 62) | uuid.uuid4().int >> 68),
        "user": user,
        "username": user.username,
        "credential_id": "token:1",
        "credential": "laptop",
        "client_name": "claude-code",
        "client_version": "2.1",
        "transport": "http",
        "revision": "2026-07-28",
        "address": "192.0.2.7",
        "method": "tools/call",
        "name": "calculate_sum",
        "definition": "",
        "rule": "Grant 4: allow tool calculate_sum to user alice",
        "request_id": "1",
        "arguments": '{"a": 1}',
        "outcome": "ok",
        "error_class": "",
        "detail": "",
        "result": "",
        "result_bytes": 0,
        "result_sha256": "",
        "started_at": timezone.now(),
        "writer": 1,
        "link": 1,
        "body_state": "",
    }
    return Call.objects.create(**values | fields)


# --- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES, "/calls/01990000-0000-7000-8000-000000000001/"])
def test_a_stranger_is_sent_to_sign_in(db: None, browser: Browser, path: str) -> None:
    assert browser().get(path)["Location"] == f"/sign-in/?next={path}"


@pytest.mark.parametrize(
    "path",
    [
        "/tokens/",
        "/tokens/1/rename/",
        "/tokens/1/rotate/",
        "/tokens/1/revoke/",
        "/connect/cursor/",
        "/password/",
        "/sign-out/",
        "/sign-in/",
    ],
)
def test_a_form_without_its_csrf_token_is_refused(alice: User, address: str, path: str) -> None:
    client = Client(enforce_csrf_checks=True, REMOTE_ADDR=address)
    client.force_login(alice)
    answer = client.post(path, {"name": "x", "days": "90"})
    assert answer.status_code == 403
    assert "This page expired. Reload and try again." in answer.content.decode()
    assert not AccessToken.objects.exists()


@pytest.mark.parametrize("path", ["/tools/", "/calls/", "/calls/01990000-0000-7000-8000-000000000001/"])
def test_pages_that_only_show_refuse_a_post(alice: User, browser: Browser, path: str) -> None:
    assert browser(alice).post(path).status_code == 405


def test_revoking_needs_a_post(alice: User, browser: Browser) -> None:
    token, _ = AccessToken.objects.issue(alice, "laptop")
    assert browser(alice).get(f"/tokens/{token.pk}/revoke/").status_code == 405
    token.refresh_from_db()
    assert token.revoked is None


def test_somebody_elses_token_is_as_absent_as_none(alice: User, bob: User, browser: Browser) -> None:
    token, _ = AccessToken.objects.issue(bob, "bobs laptop")
    hers = browser(alice)
    answers = [hers.post(f"/tokens/{number}/revoke/") for number in (token.pk, 999_999)]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    token.refresh_from_db()
    assert token.revoked is None
    assert "bobs laptop" not in hers.get("/tokens/").content.decode()


def test_somebody_elses_call_is_as_absent_as_none(alice: User, bob: User, browser: Browser) -> None:
    call = log_call(bob, name="bobs_tool")
    hers = browser(alice)
    answers = [hers.get(f"/calls/{key}/") for key in (call.pk, uuid.uuid4())]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    for query in ("", "?tool=bobs_tool", "?q=bobs_tool", f"?q={call.pk}", "?user=bob", f"?user_id={bob.pk}"):
        assert "No call" in hers.get(f"/calls/{query}").content.decode()


@pytest.mark.parametrize("query", ["cursor=x", "cursor=before-x", "cursor=after-", "cursor=%00"])
def test_a_made_up_cursor_is_not_found(alice: User, browser: Browser, query: str) -> None:
    assert browser(alice).get(f"/calls/?{query}").status_code == 404


@pytest.mark.parametrize(
    "query", ["since=yesterday", "until=9999-99-99", "outcome=great", "q=%00", "tool=%ff", "page=x"]
)
def test_filters_that_mean_nothing_break_nothing(alice: User, browser: Browser, query: str) -> None:
    log_call(alice)
    client = browser(alice)
    assert client.get(f"/calls/?{query}").status_code == 200
    assert client.get(f"/tools/?{query}").status_code == 200


@pytest.mark.parametrize(
    "sent", [{"name": "", "days": "90"}, {"name": "x" * 101, "days": "90"}, {"name": "x", "days": "0"}, {"name": "x"}]
)
def test_an_invalid_token_form_creates_no_token_and_names_the_field(
    alice: User, browser: Browser, sent: dict[str, str]
) -> None:
    page = browser(alice).post("/tokens/", sent).content.decode()
    assert 'class="wrong"' in page
    assert not AccessToken.objects.exists()


def test_a_token_cannot_be_restricted_to_a_toolset_without_a_grant(alice: User, browser: Browser) -> None:
    toolset = factories.make_toolset("Secret plans")
    factories.make_tool("plan", toolset=toolset)
    factories.load()
    client = browser(alice)
    assert "Secret plans" not in client.get("/tokens/").content.decode()
    client.post("/tokens/", {"name": "x", "days": "90", "toolsets": [str(toolset.pk)]})
    assert not AccessToken.objects.filter(toolsets=toolset).exists()


def test_the_number_of_tokens_per_user_is_bounded(
    alice: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_TOKENS", 1)
    client = browser(alice)
    for path in ("/tokens/", "/tokens/", "/connect/cursor/"):
        client.post(path, {"name": "x", "days": "90"})
    assert AccessToken.objects.count() == 1


def test_many_tokens_are_on_pages_and_the_ones_that_work_come_first(
    alice: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "TOKENS_PER_PAGE", 2)
    tokens = [AccessToken.objects.issue(alice, f"token {number}")[0] for number in range(5)]
    tokens[4].revoke()
    client = browser(alice)

    def listed(number: int) -> list[str]:
        return re.findall(r"<h3>(.*?)</h3>", client.get("/tokens/", {"page": number}).content.decode())

    assert [listed(number) for number in (1, 2, 3)] == [["token 3", "token 2"], ["token 1", "token 0"], ["token 4"]]
    last = client.get("/tokens/", {"page": 3}).content.decode()
    assert "You have no active token" not in last
    assert '<details class="ended" open>' in last
    assert "Page 3 of 3" in last
    assert [listed(number) for number in (0, 99)] == [["token 4"], ["token 4"]], "an address that was never offered"
    # A name that is refused is shown with its token, whichever page that is on.
    refused = client.post(f"/tokens/{tokens[1].pk}/rename/", {"name": ""}).content.decode()
    assert f'id="name-{tokens[1].pk}-error"' in refused
    assert "Page 2 of 3" in refused


def test_a_token_on_another_page_is_named_without_a_link(
    alice: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, _text = AccessToken.objects.issue(alice, "old")
    client = browser(alice)
    client.post(f"/tokens/{before.pk}/rotate/", {"keep": "1"})
    link = f'<a href="#token-{before.pk}">'
    assert link in client.get("/tokens/").content.decode()
    monkeypatch.setattr(views, "TOKENS_PER_PAGE", 1)
    page = client.get("/tokens/").content.decode()
    assert "Replaces" in page
    assert link not in page


@pytest.mark.django_db(transaction=True)
def test_four_forms_at_the_same_time_make_no_token_beyond_the_bound(
    alice: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_TOKENS", 2)
    clients = [browser(alice) for _ in range(4)]
    barrier = threading.Barrier(4)

    def send(client: Client) -> str:
        barrier.wait(60)
        try:
            return client.post("/tokens/", {"name": "x", "days": "90"}).content.decode()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as threads:
        pages = list(threads.map(send, clients))
    assert AccessToken.objects.count() == 2
    assert sum("the maximum of 2 active tokens" in page for page in pages) == 2


def test_an_unknown_client_and_an_unknown_page_are_not_found(alice: User, browser: Browser) -> None:
    client = browser(alice)
    for path in ("/connect/netscape/", "/nothing/", "/tokens/x/revoke/", "/calls/x/"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert "Page not found" in answer.content.decode()


@pytest.mark.parametrize("path", [*PAGES, "/sign-in/", "/nothing/"])
def test_every_page_has_the_strict_policy_and_no_inline_script_or_style(
    alice: User, browser: Browser, path: str
) -> None:
    answer = browser(None if path == "/sign-in/" else alice).get(path)
    policy = answer["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert policy.endswith("style-src 'self'")
    assert "default-src 'none'" in policy
    page = answer.content.decode()
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", page)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))


# --- tokens and connecting -----------------------------------------------------------------------------------------


def test_a_new_token_is_shown_once_and_works(alice: User, browser: Browser) -> None:
    client = browser(alice)
    answer = client.post("/tokens/", {"name": "laptop", "days": "30"})
    shown = set(TOKEN.findall(answer.content.decode()))
    assert len(shown) == 1
    assert "no-store" in answer["Cache-Control"]
    token = AccessToken.objects.get()
    assert token.digest == digest_of(shown.pop())
    assert token.user == alice
    assert not token.restricted
    assert (token.expires - token.created).days == 30
    again = client.get("/tokens/").content.decode()
    assert not TOKEN.search(again)
    assert f"{token.prefix}…" in again


def test_a_token_can_be_restricted_to_toolsets_with_granted_tools(alice: User, browser: Browser) -> None:
    toolset = factories.make_toolset("Numbers")
    factories.grant(alice, factories.make_tool(toolset=toolset))
    factories.load()
    client = browser(alice)
    assert "Numbers" in client.get("/tokens/").content.decode()
    client.post("/tokens/", {"name": "x", "days": "90", "toolsets": [str(toolset.pk)]})
    token = AccessToken.objects.get()
    assert token.restricted
    assert list(token.toolsets.values_list("pk", flat=True)) == [toolset.pk]


def test_a_revoked_token_stays_revoked(alice: User, browser: Browser) -> None:
    token, _ = AccessToken.objects.issue(alice, "laptop")
    client = browser(alice)
    assert "was revoked" in client.post(f"/tokens/{token.pk}/revoke/", follow=True).content.decode()
    token.refresh_from_db()
    first = token.revoked
    assert first is not None
    client.post(f"/tokens/{token.pk}/revoke/")
    token.refresh_from_db()
    assert token.revoked == first


def test_an_expired_token_says_so_and_has_no_actions(alice: User, browser: Browser) -> None:
    token, _ = AccessToken.objects.issue(alice, "laptop")
    AccessToken.objects.filter(pk=token.pk).update(expires=timezone.now() - timedelta(days=1))
    page = browser(alice).get("/tokens/").content.decode()
    assert "expired" in page
    assert "Revoke token" not in page


def test_the_connect_page_warns_users_without_grants(alice: User, bob: User, browser: Browser) -> None:
    factories.grant(alice, factories.make_tool())
    factories.load()
    said = "so a client would find none"
    assert said in browser(bob).get("/connect/").content.decode()
    assert said in browser(bob).post("/connect/cursor/").content.decode()
    assert said not in browser(alice).get("/connect/").content.decode()


@pytest.mark.parametrize("client_", connect.CLIENTS, ids=lambda client: client.key)
def test_each_client_has_its_page_and_a_token_is_filled_in_once(
    alice: User, browser: Browser, client_: connect.Client
) -> None:
    client = browser(alice)
    path = f"/connect/{client_.key}/"
    before = client.get(path).content.decode()
    assert (PLACEHOLDER in before) == bool(client_.snippets)
    assert ("Without a browser: use a token" in before) == bool(client_.snippets and client_.sign_in)
    assert not AccessToken.objects.exists()
    answer = client.post(path)
    if not client_.snippets:
        assert not AccessToken.objects.exists()
        return
    page = answer.content.decode()
    (text,) = set(TOKEN.findall(page))
    assert AccessToken.objects.get().digest == digest_of(text)
    assert PLACEHOLDER not in page
    assert "no-store" in answer["Cache-Control"]
    assert not TOKEN.search(client.get(path).content.decode())


# --- tools and calls -----------------------------------------------------------------------------------------------


def test_the_tools_page_lists_exactly_what_is_granted(alice: User, bob: User, charlie: User, browser: Browser) -> None:
    factories.grant(alice, factories.make_tool("hers"))
    factories.grant(bob, factories.make_tool("his"))
    factories.grant(None, factories.make_tool("everybodys"))
    factories.deny(charlie, factories.make_tool("denied"), *[])
    seen = {
        user.username: set(
            re.findall(r"\b(hers|his|everybodys|denied):", browser(user).get("/tools/").content.decode())
        )
        for user in (alice, bob, charlie)
    }
    assert seen == {"alice": {"hers", "everybodys"}, "bob": {"his", "everybodys"}, "charlie": {"everybodys"}}


def test_being_an_administrator_grants_nothing(root: User, browser: Browser) -> None:
    factories.make_tool("hidden")
    page = browser(root).get("/tools/").content.decode()
    assert "No tools yet" in page
    assert "/admin/" in page


def test_only_staff_is_led_to_the_admin(alice: User, browser: Browser) -> None:
    assert "/admin/" not in browser(alice).get("/tools/").content.decode()


def test_a_tool_shows_its_parameters_annotations_and_remaining_calls(alice: User, browser: Browser) -> None:
    tool = factories.make_tool(
        "write_file",
        title="Write a file",
        read_only=False,
        destructive=True,
        idempotent=True,
        open_world=False,
        input_schema={
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "Where to write.", "maxLength": 80},
                "mode": {"enum": ["replace", "append"], "default": "replace", "type": "string"},
            },
            "required": ["path"],
        },
    )
    factories.grant(alice, tool)
    factories.limit("7/h", tool)
    page = browser(alice).get("/tools/").content.decode()
    for text in (
        "Write a file",
        "Where to write.",
        "required",
        "length at most 80",
        "append",
        "&quot;replace&quot;",
        "makes changes",
        "may delete or overwrite data",
        "safe to repeat",
        "7 of 7 left",
    ):
        assert text in page
    assert "outside systems</span>" not in page


def test_many_tools_come_in_pages_that_the_server_searches(
    alice: User, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_views, "MAX_PAGE_TOOLS", 3)
    toolset = factories.make_toolset("Many")
    for number in range(100, 105):
        factories.make_tool(f"tool_{number:03}", toolset=toolset)
    factories.grant(alice, toolset)
    client = browser(alice)
    first, second = (client.get(f"/tools/?page={number}").content.decode() for number in (1, 2))
    assert "Page 1 of 2" in first
    assert "tool_104" not in first
    assert "tool_104" in second
    found = client.get("/tools/?q=TOOL_104").content.decode()
    assert "tool_104" in found
    assert "tool_103" not in found
    assert (
        "Nothing matches. Change the search or the filter."
        in client.get("/tools/?q=tool_104&kind=reads").content.decode()
    )


@pytest.mark.django_db
def test_nothing_on_the_page_of_a_call_is_invisible(alice: User, browser: Browser) -> None:
    odd = {
        "transport": "h\u202ettp",
        "revision": "2025\u200b",
        "address": "192\u2066.0.2.1",
        "client_name": "cl\u200baude",
    }
    text = browser(alice).get(f"/calls/{log_call(alice, **odd).pk}/").content.decode()
    assert not set("\u202e\u200b\u2066") & set(text)
    assert all(said in text for said in ("h⟨U+202E", "2025⟨U+200B", "192⟨U+2066", "cl⟨U+200B ZERO WIDTH SPACE⟩aude"))


def test_calls_are_listed_newest_first_filtered_and_paged(alice: User, browser: Browser) -> None:
    now = int(time.time() * 1000)
    for number in range(60):
        key = uuid.UUID(int=((now - number) << 80) | (7 << 76) | (2 << 62) | number)
        log_call(alice, id=key, name=f"tool_{number:02}", outcome="timeout" if number == 59 else "ok")
    client = browser(alice)
    page = client.get("/calls/").content.decode()
    assert re.findall(r"tool_\d\d", page)[:2] == ["tool_00", "tool_01"]
    (older,) = re.findall(r'href="\?(cursor=before[^"]+)"', page)
    assert "tool_59" in client.get(f"/calls/?{older}").content.decode()
    filtered = client.get("/calls/?outcome=timeout").content.decode()
    assert set(re.findall(r"tool_\d\d", filtered)) == {"tool_59"}
    assert set(re.findall(r"tool_\d\d", client.get("/calls/?tool=tool_07").content.decode())) == {"tool_07"}


def test_a_denied_call_reads_like_an_unknown_tool_to_its_user(alice: User, browser: Browser) -> None:
    refused = log_call(alice, outcome="refused", detail="Grant 9: deny tool plan to user alice")
    unknown = log_call(alice, outcome="unknown_tool", detail="no such tool")
    client = browser(alice)
    assert "Denied" not in client.get("/calls/").content.decode()
    pages = [client.get(f"/calls/{call.pk}/").content.decode() for call in (refused, unknown)]
    for page in pages:
        assert "Unknown tool" in page
        assert "Grant" not in page


def test_stored_texts_are_shown_as_text(alice: User, browser: Browser) -> None:
    tool = factories.make_tool("nasty", title=HOSTILE, description=HOSTILE)
    factories.grant(alice, tool)
    AccessToken.objects.issue(alice, HOSTILE)
    call = log_call(
        alice, name=HOSTILE, client_name=HOSTILE, credential=HOSTILE, arguments=HOSTILE, result=HOSTILE, detail=HOSTILE
    )
    client = browser(alice)
    for path in ("/tools/", "/tokens/", "/calls/", f"/calls/{call.pk}/", "/calls/?q=%22%3E%3Cscript%3Ealert(1)"):
        page = client.get(path).content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)" in client.get(f"/calls/{call.pk}/").content.decode()


@pytest.mark.django_db(transaction=True)
def test_a_page_costs_a_fixed_number_of_queries(
    alice: User, browser: Browser, django_assert_max_num_queries: Any
) -> None:
    toolset = factories.make_toolset("Many")
    for number in range(20):
        factories.make_tool(f"tool_{number}", toolset=toolset)
        AccessToken.objects.issue(alice, f"token {number}", toolsets=[toolset])
        log_call(alice)
    factories.grant(alice, toolset)
    factories.load()
    client = browser(alice)
    for path, most in (("/tools/", 7), ("/calls/", 5), ("/tokens/", 7), ("/connect/", 5)):
        with django_assert_max_num_queries(most):
            client.get(path)


def test_a_browser_that_opens_mcp_gets_directions() -> None:
    from toolhub.access.views import mcp_help

    page = mcp_help().decode()
    assert "/connect/" in page
    assert "/mcp" in page
    assert "<script" not in page
    assert "This address is for AI clients" in page


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh-hans"),
        ("fr, zh;q=0.5", "zh-hans"),
        ("tlh, en-GB", "en"),
        ("*", "en"),
        ("\x00;q=x,,", "en"),
        ("a" * 100_000, "en"),
    ],
)
def test_a_browser_that_opens_mcp_gets_directions_in_its_language(accepted: str, language: str) -> None:
    from toolhub.access.views import mcp_help

    assert f'<html lang="{language}"'.encode() in mcp_help(accepted)


def test_error_pages_need_nothing_but_the_request(db: None) -> None:
    from django.test import RequestFactory
    from django.views.defaults import bad_request, permission_denied, server_error

    request = RequestFactory().get("/")
    assert "Something went wrong" in server_error(request).content.decode()
    assert "Invalid request" in bad_request(request, Exception()).content.decode()
    assert "You don't have permission to do this" in permission_denied(request, Exception()).content.decode()
