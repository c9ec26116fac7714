"""An import of people: a preview of every row, and then all of them or none."""

from __future__ import annotations

import base64
import csv
import html
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from audit.models import Action
from tests import factories
from tests.people.conftest import Send, find_link, make_staff
from toolhub.people import import_file, import_plan
from toolhub.people.models import Invitation, OutgoingMail

pytestmark = pytest.mark.django_db
Open = Callable[..., Client]
IMPORT = "/admin/people/invitation/import/"
HEADER = "username,email,first_name,last_name,groups\n"
HIDDEN = re.compile(r'<input type="hidden" name="(content|days|sure)" value="([^"]*)"')
BADGE = re.compile(r'<td class="one-line">(\d+)</td><td><span class="th-badge \w*">([\w ]+)</span>')
PROBLEM = re.compile(r'<p class="th-error">(?:<code>(\w+)</code>: )?(.*?)</p>')


@pytest.fixture
def importer() -> User:
    return make_staff("importer", "add_user", "change_user", "view_invitation")


def upload(client: Client, content: str | bytes, days: int = 7) -> str:
    """The page that follows the choice of a file."""
    data = content.encode() if isinstance(content, str) else content
    answer = client.post(IMPORT, {"file": SimpleUploadedFile("people.csv", data, "text/csv"), "days": days})
    assert answer.status_code == 200
    return answer.content.decode()


def confirm(client: Client, review: str) -> str:
    """The page that follows Import."""
    assert ">Import</button>" in review, review
    answer = client.post(IMPORT, dict(HIDDEN.findall(review)))
    assert answer.status_code == 200 and "no-store" in answer["Cache-Control"]
    return answer.content.decode()


def find_states(review: str) -> list[tuple[int, str]]:
    return [(int(line), text) for line, text in BADGE.findall(review)]


def find_problems(review: str) -> list[tuple[str, str]]:
    return [(column, html.unescape(text)) for column, text in PROBLEM.findall(review)]


def read_download(page: str) -> list[list[str]]:
    found = re.search(r'download="invitations\.csv" href="data:text/csv;charset=utf-8;base64,([^"]+)"', page)
    assert found is not None
    content = base64.b64decode(found[1]).decode("utf-8-sig")
    return list(csv.reader(io.StringIO(content, newline="")))


def test_nothing_is_written_before_the_preview_is_confirmed_and_then_everything(
    importer: User, alice: User, bob: User, open_browser: Open, send: Send
) -> None:
    analysts, support = factories.make_group("analysts", [bob]), factories.make_group("support")
    client = open_browser(importer)
    review = upload(
        client,
        HEADER + "nia,nia@example.com,Nia,Newman,analysts; support\n"
        "alice,new@example.com,Alicia,,support\n"
        "\n"
        'zoe,,Zoë,"van der Berg, MD",\n'
        "bob,,,,analysts\n",
    )
    assert find_states(review) == [(2, "invite"), (3, "add to groups"), (5, "invite"), (6, "no change")]
    assert "<strong>2</strong> people will be invited" in review and "1</strong> account gets more groups" in review
    assert review.count("stays as it is in the account") == 2, "the address and the first name of alice"
    assert not Invitation.objects.exists() and not alice.groups.exists() and not OutgoingMail.objects.exists()
    page = confirm(client, review)
    assert "1 account got more groups" in page
    links = dict(
        re.findall(r"<bdi>([^<]+)</bdi></td><td><code class=\"select-all\" id=\"link-\d+\">(\S+)</code>", page)
    )
    assert set(links) == {"nia@example.com", "zoe"}
    assert page.count("is being sent") == 1 and page.count(">hand over yourself<") == 1
    alice.refresh_from_db()
    assert [*alice.groups.all()] == [support] and (alice.email, alice.first_name) == ("", "")
    nia, zoe = (Invitation.objects.get(username=name) for name in ("nia", "zoe"))
    assert set(nia.groups.all()) == {analysts, support} and nia.inviter == importer
    assert (zoe.first_name, zoe.last_name, zoe.email) == ("Zoë", "van der Berg, MD", "")
    (message,) = send()
    assert links["nia@example.com"].endswith(find_link(message.body))
    assert not User.objects.filter(username="nia").exists(), "nobody has a password that somebody else typed"
    table = read_download(page)
    assert table[0][:2] == ["username", "email"] and [row[4] for row in table[1:]] == list(links.values())
    logged = Action.objects.filter(kind="people").get()
    assert (logged.actor, logged.verb, logged.after) == ("importer", "imported", '{"changed":1,"invited":2}')


def test_an_imported_person_accepts_with_the_proposed_name(importer: User, open_browser: Open) -> None:
    client = open_browser(importer)
    confirm(client, upload(client, HEADER + "nia,nia@example.com,Nia,Newman,\n"))
    newcomer = open_browser()
    newcomer.get(factories.link_of(Invitation.objects.get()))
    page = newcomer.get("/invitation/").content.decode()
    assert 'value="nia"' in page and 'value="Newman"' in page


@pytest.mark.parametrize(
    ("row", "column", "says"),
    [
        (",a@example.com,,,", "username", "Enter a username."),
        ("with blank,,,,", "username", "Enter a valid username."),
        ("x" * 151 + ",,,,", "username", "at most 150 characters"),
        ("ALICE,,,,", "username", "There is an account “alice”."),
        ("new,not-an-address,,,", "email", "Enter a valid email address."),
        ("new,bob@EXAMPLE.com,,,", "email", "There is an account with this address."),
        ("new,invited@example.com,,,", "email", "This address has a pending invitation."),
        ("new,,%s,," % ("n" * 151), "first_name", "Use at most 150 characters."),
        ("new,,a\x07b,,", "first_name", "Remove the control characters."),
        ("new,,,%s," % ("n" * 151), "last_name", "Use at most 150 characters."),
        ("new,,,,analyst", "groups", "There is no group “analyst”. Did you mean “analysts”?"),
        ("new,,,,Analysts", "groups", "Did you mean “analysts”?"),
        ("new,,,,marketing", "groups", "There is no group “marketing”. Create it first, or remove it here."),
        ("new,,,,strong", "groups", "You cannot change who is in strong"),
        ("alice,,,,strong", "groups", "You cannot change who is in strong"),
        ("root,,,,analysts", "username", "The account root holds permissions that you do not have."),
        ("new,,,,analysts,support", "", "The row has more cells than the header."),
    ],
)
def test_each_error_names_its_column_and_nothing_can_be_imported(
    importer: User, alice: User, bob: User, root: User, open_browser: Open, row: str, column: str, says: str
) -> None:
    User.objects.filter(pk=bob.pk).update(email="bob@example.com")
    factories.make_group("analysts")
    factories.make_group("strong").permissions.add(Permission.objects.get(codename="delete_user"))
    factories.invite(root, "invited@example.com")
    client = open_browser(importer)
    review = upload(client, f"{HEADER}fine,fine@example.com,,,analysts\n{row}\n")
    assert find_states(review) == [(2, "invite"), (3, "fix")]
    ((where, problem),) = find_problems(review)
    assert where == column and says in problem
    assert ">Import</button>" not in review and "Fix the rows below" in review
    client.post(IMPORT, dict(HIDDEN.findall(review)))
    assert Invitation.objects.count() == 1 and Group.objects.filter(name="marketing").count() == 0


def test_what_occurs_twice_in_the_file_is_an_error_in_every_row(importer: User, open_browser: Open) -> None:
    text = HEADER + "nia,one@example.com,,,\nNIA,two@example.com,,,\nzoe,ONE@example.com,,,\n"
    problems = find_problems(upload(open_browser(importer), text))
    assert [column for column, _text in problems] == ["username", "email", "username", "email"]
    assert all("more than once" in text for _column, text in problems)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "The file is empty."),
        (b"\n \n", "The file is empty. It needs a header: username,email,first_name,last_name,groups."),
        (HEADER.encode(), "The file has a header and no rows."),
        (b"username;email\nnia;a@b.example\n", "Separate the columns by commas"),
        (b"name,email\nnia,\n", "The header has unknown columns: “name”."),
        (b"username,password\nnia,x\n", "The header has unknown columns: “password”."),
        (b"username,is_superuser\nnia,1\n", "The header has unknown columns: “is_superuser”."),
        (b"email\na@b.example\n", "The header needs the column “username”."),
        (b"username,username\na,b\n", "The header names a column twice."),
        (b"username\nnia\nZo\xeb\n", "Line 3 is not UTF-8."),
        ("username\nnia\n".encode("utf-16"), "Line 1 is not UTF-8."),
        (b'username,email\nnia,"a\n', "is not valid CSV"),
        (b"username\nni\0a\n", "NUL characters"),
        (b"username\n" + b"x" * 1_000_000, "larger than 1 MB"),
        (b"username\n" + b"".join(b"p%d\n" % number for number in range(1_001)), "more than 1,000 rows"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(
    importer: User, open_browser: Open, content: bytes, says: str
) -> None:
    page = html.unescape(upload(open_browser(importer), content))
    assert says in page and 'role="alert"' in page and "th-badge" not in page


@pytest.mark.parametrize("days", ["0", "61", "x", ""])
def test_days_that_are_out_of_bounds_are_refused(importer: User, open_browser: Open, days: str) -> None:
    answer = open_browser(importer).post(
        IMPORT, {"file": SimpleUploadedFile("people.csv", b"username\nnia\n"), "days": days}
    )
    assert "enter a number of days from 1 to 60" in answer.content.decode()


def test_a_byte_order_mark_other_line_ends_and_columns_in_another_order_are_fine(
    importer: User, open_browser: Open
) -> None:
    factories.make_group("analysts")
    review = upload(
        open_browser(importer), "\ufeffGroups, Email ,USERNAME\r\nanalysts,nia@example.com,nia\r\n".encode()
    )
    assert find_states(review) == [(2, "invite")] and "nia@example.com" in review


def test_a_cell_with_a_line_break_keeps_the_lines_of_the_others_right(importer: User, open_browser: Open) -> None:
    review = upload(open_browser(importer), HEADER + 'nia,,"Nia\nMaria",,\nzoe,,,,\n')
    assert find_states(review) == [(2, "fix"), (4, "invite")]
    assert find_problems(review) == [("first_name", "Remove the control characters.")]


# --- a preview that is stale, and half-trusted importers -------------------------------------------------------------


def make_account(_importer: User) -> None:
    User.objects.create_user("nia")


def take_address(_importer: User) -> None:
    User.objects.create_user("other", email="nia@example.com")


def delete_group(_importer: User) -> None:
    Group.objects.get(name="analysts").delete()


def grant_to_group(_importer: User) -> None:
    factories.grant(Group.objects.get(name="analysts"), factories.make_tool("powerful"))


@pytest.mark.parametrize("change", [make_account, take_address, delete_group, grant_to_group])
def test_a_stale_preview_is_refused_and_shown_again(
    importer: User, open_browser: Open, change: Callable[[User], None]
) -> None:
    factories.make_group("analysts")
    client = open_browser(importer)
    review = upload(client, HEADER + "nia,nia@example.com,,,analysts\nzoe,,,,\n")
    change(importer)
    page = confirm(client, review)
    assert "have changed since the preview, so nothing was saved" in page
    assert not Invitation.objects.exists() and "/invitation/" not in page.replace("/people/invitation/", "")


@pytest.mark.parametrize("name", ["content", "sure", "days"])
def test_a_confirmation_that_does_not_fit_the_preview_does_nothing(
    importer: User, open_browser: Open, name: str
) -> None:
    client = open_browser(importer)
    form = dict(HIDDEN.findall(upload(client, HEADER + "nia,nia@example.com,,,\n")))
    other = base64.b64encode((HEADER + "eve,eve@example.com,,,\n").encode()).decode()
    form[name] = {"content": other, "sure": "0" * 64, "days": "60"}[name]
    assert "have changed since the preview" in client.post(IMPORT, form).content.decode()
    assert not Invitation.objects.exists()
    form["content"] = "no base64"
    assert "Choose a file." in client.post(IMPORT, form).content.decode()


def test_all_or_nothing_also_when_the_last_row_fails(
    importer: User, alice: User, open_browser: Open, monkeypatch: pytest.MonkeyPatch, send: Send
) -> None:
    from toolhub.people import invitations

    factories.make_group("support")
    client = open_browser(importer)
    review = upload(client, HEADER + "alice,,,,support\none,one@example.com,,,\ntwo,,,,\n")
    made = invitations.invite

    def fail(inviter: User, person: Any, **options: Any) -> Any:
        if person.username == "two":
            raise invitations.Refused("no")
        return made(inviter, person, **options)

    monkeypatch.setattr(invitations, "invite", fail)
    before = Action.objects.count()
    assert "nothing was saved" in confirm(client, review)
    assert not Invitation.objects.exists() and not alice.groups.exists() and send() == []
    assert Action.objects.count() == before


def test_who_may_add_users_and_not_change_them_adds_nobody_to_a_group(
    alice: User, bob: User, open_browser: Open
) -> None:
    factories.make_group("support", [bob])
    client = open_browser(make_staff("adder", "add_user"))
    review = upload(client, HEADER + "alice,,,,support\nbob,,,,support\nnia,,,,support\n")
    assert find_states(review) == [(2, "fix"), (3, "no change"), (4, "invite")]
    assert find_problems(review) == [
        ("groups", "You need the permission “Can change user” to add accounts that exist to groups.")
    ]


def test_a_file_with_nothing_to_do_says_so(importer: User, alice: User, open_browser: Open) -> None:
    review = upload(open_browser(importer), HEADER + "alice,,,,\n")
    assert "There is nothing to import" in review and ">Import</button>" not in review


# --- what spreadsheets and pages make of it --------------------------------------------------------------------------


def test_formulas_are_texts_in_the_download(importer: User, open_browser: Open) -> None:
    client = open_browser(importer)
    names = ["=1+1", "+1", "-1", "@SUM(A1)", '=HYPERLINK("https://evil.example")']
    rows = "".join(f'@p{place},-p{place}@example.com,"{name.replace(chr(34), chr(34) * 2)}",fine,\n'
                   for place, name in enumerate(names))  # fmt: skip
    table = read_download(confirm(client, upload(client, HEADER + rows)))
    assert [row[2] for row in table[1:]] == [f"'{name}" for name in names]
    assert all(row[0].startswith("'@p") and row[1].startswith("'-p") and row[3] == "fine" for row in table[1:])


def test_texts_of_the_file_are_never_markup(importer: User, open_browser: Open) -> None:
    client = open_browser(importer)
    evil = "<script>alert(1)</script>"
    review = upload(client, f'{HEADER}nia,,"{evil}","<img src=x>",{evil}\n{evil},,,,\n')
    assert evil not in review and "&lt;script&gt;" in review and "<img src" not in review
    page = upload(client, f"username,{evil}\nnia,\n")
    assert evil not in page and "unknown columns" in page


def test_a_thousand_rows_are_planned_in_a_few_queries(importer: User, django_assert_max_num_queries: Any) -> None:
    factories.make_group("analysts")
    lines = "".join(f"p{number},p{number}@example.com,P,{number},analysts\n" for number in range(1_000))
    rows = import_file.parse((HEADER + lines).encode())
    assert len(rows) == 1_000
    with django_assert_max_num_queries(25):
        plan = import_plan.build(importer, rows, 7)
    assert plan.can_run and plan.counts == {"new": 1_000}


def test_the_list_of_users_leads_to_invitations_and_the_import(importer: User, root: User, open_browser: Open) -> None:
    page = open_browser(root).get("/admin/auth/user/").content.decode()
    for path in ("/admin/people/invitation/add/", IMPORT, "/admin/people/invitation/"):
        assert f'href="{path}"' in page
    reader = make_staff("reader", "view_user")
    assert IMPORT not in open_browser(reader).get("/admin/auth/user/").content.decode()
