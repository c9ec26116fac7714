"""States of pages that an address alone does not show: errors, open menus, answers, long names, empty lists.

`fill` runs inside a hub by `Hub.call`, and makes the demo installation as well. A state opens a page as its person and
leaves it in that state, for pictures and for axe.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from tests.browser import demo, seed

LONG = "Quarterly revenue by region, product line and sales channel with forecast"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(b"verifier" * 6).digest()).decode().rstrip("=")
PAGE = "main, #content, dialog[open]"


@dataclass(frozen=True)
class State:
    """A page in a state: its name in file names, whose window, its address, and what is done there."""

    name: str
    whose: str
    path: str
    act: Callable[[Any], None] = lambda page: None


def build_picture(width: int = 96, height: int = 64) -> bytes:
    """Return a PNG with a gradient."""
    lines = b"".join(
        b"\0" + bytes(value for x in range(width) for value in (x * 255 // width, y * 255 // height, 150))
        for y in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def build_sound(samples: int = 800) -> bytes:
    """Return a tenth of a second of silence as a WAV."""
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + samples, b"WAVE", b"fmt ", 16, 1, 1, 8000, 8000, 1, 8, b"data", samples
    )
    return head + b"\x80" * samples


def fill() -> dict[str, Any]:
    """The demo installation, and what the states need: changes to review, requests, results, long names."""
    from datetime import timedelta

    from django.contrib.auth.models import Permission, User
    from django.utils import timezone

    from catalog.models import AccessRequest, CallReport, Tool, Toolset
    from tests import factories
    from tests.audit import rows
    from tests.browser import review_seed
    from toolhub.people.models import Invitation

    found = demo.fill()
    alice, charlie = User.objects.get(username="alice"), User.objects.get(username="charlie")
    clerk = User.objects.create_user("clerk", password=seed.PASSWORD, is_staff=True)
    clerk.user_permissions.add(Permission.objects.get(codename="view_tool"))
    for name in ("after_200_spaces", "homoglyph", "parameter", "annotations"):
        before, after, _text = review_seed.ATTACKS[name]
        pk = review_seed._quarantine(name, {**review_seed.DEFINITION, **before}, after)
        found.setdefault("changed", str(pk))
    report = factories.make_toolset(
        LONG[:100], requestable=True, request_text="Say which report you need, and until when."
    )
    for number, (name, destructive) in enumerate((("read", False), ("delete", True), ("export", False))):
        long = f"{name}_{'_'.join(LONG.lower().replace(',', '').split())}"[:100]
        factories.make_tool(
            long, toolset=report, title=f"{LONG} ({name})", read_only=not destructive, position=900 + number
        )
    for person, reason in (
        (charlie, "The board meets on Thursday. I need the numbers of the north region until then."),
        (alice, LONG * 3),
    ):
        AccessRequest.objects.create(person=person, kind="toolset", toolset=report, name=report.name, reason=reason)
    sales = factories.make_toolset("Sales", requestable=True)
    properties = {
        "region": {"type": "string", "enum": ["emea", "apac", "amer"], "title": "Sales region"},
        "amount": {"type": "number", "title": "Amount in EUR"},
        "dry_run": {"type": "boolean"},
        "customers": {"type": "array", "items": {"type": "string", "title": LONG}},
    }
    schema = {"type": "object", "properties": properties, "required": ["region"]}
    for_tool = AccessRequest.objects.create(
        person=charlie,
        kind="tool",
        toolset=sales,
        tool=factories.make_tool("report_sales", toolset=sales, read_only=True, input_schema=schema, position=990),
        name="report_sales",
        reason="The report of my region.",
        conditions=[
            {"path": "/region", "op": "one_of", "values": ["emea", "apac"]},
            {"path": "/amount", "op": "range", "maximum": 1500, "optional": True},
        ],
    )
    AccessRequest.objects.create(
        person=charlie,
        kind="toolset",
        toolset=Toolset.objects.get(name="Census"),
        name="Census",
        reason="For the yearly count.",
        state="declined",
        answer="The census ended in May.",
        decided_at=timezone.now(),
        decided_by="root",
    )
    now = timezone.now()
    picture = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(build_picture()).decode()}
    sound = {"type": "audio", "mimeType": "audio/wav", "data": base64.b64encode(build_sound()).decode()}
    table = [
        {"region": place, "orders": number * 31, "total": number * 1250.5, "note": LONG}
        for number, place in enumerate(("north", "south", "东部", "west"), 1)
    ]
    content = {
        "content": [{"type": "text", "text": json.dumps(table, ensure_ascii=False)}, picture, sound],
        "structuredContent": {"rows": table},
    }
    result = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    error = {
        "content": [{"type": "text", "text": "The report server answered 503. Try again in a minute."}],
        "isError": True,
    }
    results, failed = rows.save(
        rows.build_call(
            901,
            user=alice,
            name="run_sql_query",
            started_at=now,
            ended_at=now + timedelta(milliseconds=320),
            result=result,
            result_bytes=len(result),
            result_sha256=hashlib.sha256(result.encode()).hexdigest(),
            arguments='{"region": "north"}',
        ),
        rows.build_call(
            902,
            user=alice,
            name=Tool.objects.get(title=f"{LONG} (export)").name,
            started_at=now,
            ended_at=now + timedelta(seconds=9),
            outcome="tool_error",
            result=json.dumps(error),
            detail="The report server answered 503.",
            client_name=LONG,
            credential=LONG[:100],
        ),
    )
    CallReport.objects.create(
        person=alice, call_id=failed.pk, name=failed.name, outcome="tool_error", comment="It worked yesterday."
    )
    invitation = Invitation.objects.first()
    client, _tokens = factories.connect_app(charlie, "Desktop assistant")
    query = {
        "response_type": "code",
        "client_id": client.client.client_id,
        "redirect_uri": "http://127.0.0.1/callback",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "state": "state",
    }
    return found | {
        "results": str(results.pk),
        "failed": str(failed.pk),
        "long_toolset": str(report.pk),
        "values_toolset": str(sales.pk),
        "values_request": str(for_tool.pk),
        "link": factories.link_of(invitation),
        "consent": f"/oauth/authorize?{urlencode(query)}",
    }


def submit(page: Any, **fields: str) -> None:
    """Fill in fields by id and send their form, past the browser's own checks."""
    for name, value in fields.items():
        page.fill(f"#id_{name}", value)
    chosen = f"#id_{next(iter(fields))}"
    page.eval_on_selector(chosen, "field => { field.form.noValidate = true }")
    with page.expect_navigation():
        page.eval_on_selector(chosen, "field => field.form.requestSubmit()")


def send_wrong_values(page: Any) -> None:
    open_all(page)
    page.check("#condition-1-is_0")
    page.fill("#condition-2-most", "1.500,00")
    submit(page, reason=" ")


def wait_for_rows(page: Any) -> None:
    page.wait_for_selector("[data-for=conditions][aria-busy=false]")


def approve_wrong_values(page: Any) -> None:
    wait_for_rows(page)
    page.click("[data-for=conditions] button:has-text('JSON')")
    page.fill("#conditions", "[")
    page.click("#decide button[value=approve]")
    page.wait_for_selector("#conditions-error")
    wait_for_rows(page)


def save(page: Any) -> None:
    page.click("button[name=_save]")
    page.wait_for_selector(".errornote, ul.errorlist")


def expire(page: Any) -> None:
    page.evaluate("for (const field of document.getElementsByName('csrfmiddlewaretoken')) field.value = 'old'")
    submit(page, name="laptop")
    page.wait_for_selector("p.code")


def open_search(page: Any) -> None:
    page.keyboard.press("Control+k")
    page.wait_for_selector("#th-search[open]")
    page.keyboard.type("cal")
    page.wait_for_selector("#th-search [role=option]")


def open_sidebar(page: Any) -> None:
    if page.viewport_size["width"] < 1280:
        page.get_by_role("button", name="Show or hide the sidebar").or_(
            page.get_by_role("button", name="显示或隐藏侧边栏")
        ).locator("visible=true").click()
    page.wait_for_selector("#nav-sidebar-apps >> visible=true")


def open_account_menu(page: Any) -> None:
    open_sidebar(page)
    page.locator("button[aria-controls=account-menu]").click()
    page.wait_for_selector("#account-menu >> visible=true")


def open_filters(page: Any) -> None:
    page.click("button[data-filters]")
    page.wait_for_function("document.getElementById('changelist-filter').contains(document.activeElement)")


def save_gone(page: Any) -> None:
    """Save a change of a rule that somebody deletes meanwhile."""
    page.locator("#id_replaces").evaluate("field => { field.value = 999999999 }")
    save(page)


def open_all(page: Any) -> None:
    page.evaluate("for (const part of document.querySelectorAll('main details')) part.open = true")


def open_first(selector: str) -> Callable[[Any], None]:
    return lambda page: page.locator(selector).first.click()


def try_tool(page: Any) -> None:
    page.locator("form button.primary").first.click()
    page.wait_for_selector("[aria-invalid=true], .th-error:not(:empty), #outcome h2")


def open_next(page: Any) -> None:
    page.click("#waiting-title ~ article:has-text('bob') a.button")


def replay(page: Any) -> None:
    page.click("#replay [data-start]")
    page.wait_for_selector("#replay [data-end]")


def choose_tab(number: int) -> Callable[[Any], None]:
    return lambda page: page.locator(".tool-tabs [role=tab]").nth(number).click()


STATES: tuple[State, ...] = (
    State("sign-in-wrong", "", "/sign-in/", lambda page: submit(page, username="alice", password="wrong")),
    State("invitation", "", "{link}"),
    State(
        "invitation-wrong",
        "",
        "{link}",
        lambda page: submit(page, username="alice", password1="short", password2="other"),
    ),
    State("invitation-dead", "", "/invitation/no-such-link/"),
    State("not-found", "alice", "/no-such-page/"),
    State("expired-form", "alice", "/tokens/", expire),
    State("token-made", "alice", "/tokens/", lambda page: submit(page, name="A laptop")),
    State("token-wrong", "alice", "/tokens/", lambda page: submit(page, name="\u200b")),
    State("token-revoke-open", "alice", "/tokens/", open_first("details.confirm summary")),
    State("menu-open", "alice", "/tools/", open_first("details.menu > summary")),
    State("tools-all-open", "alice", "/tools/", open_all),
    State("calls-none", "alice", "/calls/?q=nothing-has-this-text"),
    State("call-failed", "alice", "/calls/{failed}/"),
    State("call-results", "alice", "/calls/{results}/", open_all),
    State("request-wrong", "alice", "/requests/toolset/{long_toolset}/", lambda page: submit(page, reason=" ")),
    State("request-values", "alice", "/requests/toolset/{values_toolset}/?tool=report_sales", open_all),
    State("request-values-wrong", "alice", "/requests/toolset/{values_toolset}/?tool=report_sales", send_wrong_values),
    State("requests-values", "charlie", "/requests/"),
    State("approval", "alice", "/approvals/", open_next),
    State(
        "password-wrong",
        "alice",
        "/password/",
        lambda page: submit(page, old_password="wrong", new_password1="short", new_password2="other"),
    ),
    State("consent", "alice", "{consent}"),
    State("device-wrong", "alice", "/device/", lambda page: submit(page, code="WRONG-CODE")),
    State("connect-all-open", "alice", "/connect/cursor/", open_all),
    *(
        State(f"empty-{name}", "charlie", f"/{name}/")
        for name in ("tools", "calls", "tokens", "secrets", "requests", "connect", "approvals")
    ),
    State("forbidden", "clerk", "/admin/jobs/"),
    State("admin-search-open", "root", "/admin/catalog/tool/", open_search),
    State("admin-sidebar-open", "root", "/admin/catalog/tool/", open_sidebar),
    State("admin-account-menu-open", "root", "/admin/catalog/tool/", open_account_menu),
    State("admin-filters-open", "root", "/admin/catalog/tool/", open_filters),
    State("admin-call-filters-open", "root", "/admin/audit/call/", open_filters),
    State("admin-search-page", "root", "/admin/search/?q=cal"),
    State("admin-list-none", "root", "/admin/catalog/tool/?q=nothing-has-this-text"),
    State("admin-calls-none", "root", "/admin/audit/call/?q=nothing-has-this-text"),
    State("admin-tool-wrong", "root", "/admin/catalog/tool/add/", save),
    State("admin-grant-change-tried", "root", "/admin/catalog/grant/add/?replaces={catalog_grant}"),
    State("admin-grant-in-trial", "root", "/admin/catalog/grant/{trial_grant}/change/"),
    State("admin-grant-replaced-gone", "root", "/admin/catalog/grant/add/?replaces={catalog_grant}", save_gone),
    State("admin-tool-parameters", "root", "/admin/catalog/tool/{tool}/change/", choose_tab(1)),
    State("admin-tool-access", "root", "/admin/catalog/tool/{tool}/change/", choose_tab(3)),
    State("admin-tool-changed", "root", "/admin/catalog/tool/{changed}/change/"),
    State("admin-grant-wrong", "root", "/admin/catalog/grant/add/", save),
    State("admin-replay", "root", "/admin/catalog/grant/add/?effect=deny&tool={tool}&everyone=1#replay", replay),
    State("admin-replay-wrong", "root", "/admin/catalog/limit/add/", replay),
    State("admin-user-wrong", "root", "/admin/auth/user/add/", save),
    State("admin-provider-wrong", "root", "/admin/identity/provider/add/", save),
    State("admin-review-queue", "root", "/admin/review/"),
    State("admin-review-change", "root", "/admin/catalog/tool/{changed}/review/"),
    State("admin-requests-filled", "root", "/admin/requests/"),
    State("admin-request-values", "root", "/admin/requests/{values_request}/", wait_for_rows),
    State("admin-request-values-wrong", "root", "/admin/requests/{values_request}/", approve_wrong_values),
    State(
        "admin-case-file-wrong",
        "root",
        "/admin/audit/call/case-file/?user__id__exact={user}",
        lambda page: submit(page, reason=" "),
    ),
    State("admin-call-failed", "root", "/admin/audit/call/{failed}/change/"),
    State("admin-call-results", "root", "/admin/audit/call/{results}/change/"),
    State("admin-view-as-alice", "root", "/admin/view-as/?user=alice"),
    State("admin-try-wrong", "root", "/admin/catalog/tool/{tool}/try/", try_tool),
    State("admin-long-toolset", "root", "/admin/access/toolset/{long_toolset}/"),
    State("admin-give-preview", "root", "/admin/access/give/?who=user:{user}&what=toolset:{long_toolset}"),
)


def open_state(window: Any, state: State, seeded: dict[str, str]) -> None:
    """Open the page and bring it into its state."""
    page = window.open(state.path.format(**seeded))
    state.act(page)
    page.wait_for_load_state()
    demo.stop_motion(page)


def people() -> list[str]:
    """Whose windows the states need."""
    return list(dict.fromkeys(state.whose for state in STATES))
