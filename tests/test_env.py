from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from toolhub import env

FILE = Path("/srv/toolhub/toolhub.sqlite3")


@pytest.mark.parametrize(
    "reader, value",
    [
        (lambda name: env.boolean(name, False), "maybe"),
        (lambda name: env.integer(name, 1), "many"),
        (lambda name: env.integer(name, 1, minimum=1), "0"),
        (lambda name: env.integer(name, 1, maximum=10), "11"),
        (lambda name: env.integer(name, 1), "1.5"),
        (env.url, "tools.example.com"),
        (env.url, "ftp://tools.example.com"),
        (env.url, "https://"),
        (env.url, "https://tools.example.com/?a=1"),
        (env.url, "https://tools.example.com:port"),
        (lambda name: env.database(name, FILE), "mysql://localhost/toolhub"),
        (lambda name: env.database(name, FILE), "postgresql://localhost"),
        (lambda name: env.database(name, FILE), "postgresql://localhost:port/toolhub"),
        (lambda name: env.database(name, FILE), "sqlite://host/file"),
        (lambda name: env.database(name, FILE), "sqlite:///"),
        (env.redis, "http://localhost:6379"),
        (env.flags, "new_crm"),
        (env.flags, "new_crm=maybe"),
        (env.flags, "new_crm=101%"),
        (env.flags, "new_crm=-1%"),
        (env.flags, "new_crm=2.5%"),
        (env.flags, "new_crm=25"),
        (env.flags, "new crm=on"),
        (env.flags, "=on"),
        (env.flags, "new_crm=on, new_crm=off"),
    ],
)
def test_a_bad_value_is_refused_and_its_variable_named(monkeypatch, reader, value):
    monkeypatch.setenv("TOOLHUB_TEST_VALUE", value)
    with pytest.raises(ImproperlyConfigured, match="TOOLHUB_TEST_VALUE"):
        reader("TOOLHUB_TEST_VALUE")


def test_a_secret_and_its_file_at_once_are_refused(monkeypatch, tmp_path):
    file = tmp_path / "key"
    file.write_text("from the file")
    monkeypatch.setenv("TOOLHUB_TEST_KEY", "from the variable")
    monkeypatch.setenv("TOOLHUB_TEST_KEY_FILE", str(file))
    with pytest.raises(ImproperlyConfigured, match="TOOLHUB_TEST_KEY_FILE"):
        env.secret("TOOLHUB_TEST_KEY")


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_a_secret_file_that_is_missing_empty_or_not_text_is_refused(monkeypatch, tmp_path, content):
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("TOOLHUB_TEST_KEY_FILE", str(file))
    with pytest.raises(ImproperlyConfigured, match="TOOLHUB_TEST_KEY_FILE"):
        env.secret("TOOLHUB_TEST_KEY")


def test_a_secret_is_read_from_the_file_without_its_line_end(monkeypatch, tmp_path):
    (tmp_path / "key").write_text("  a secret\n")
    monkeypatch.setenv("TOOLHUB_TEST_KEY_FILE", str(tmp_path / "key"))
    assert env.secret("TOOLHUB_TEST_KEY") == "a secret"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("", {}),
        (" , ", {}),
        ("new_crm=on", {"new_crm": 100}),
        ("new_crm = Yes, old.crm=off,beta-2=25 %, none=0%,all=100%", {
            "new_crm": 100, "old.crm": 0, "beta-2": 25, "none": 0, "all": 100,
        }),
    ],
)  # fmt: skip
def test_flags_are_read_with_their_percentages(monkeypatch, value, read):
    monkeypatch.setenv("TOOLHUB_FLAGS", value)
    assert env.flags("TOOLHUB_FLAGS") == read


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("", ("", 25, "", "", False, False)),
        ("smtp://mail.example.com", ("mail.example.com", 25, "", "", False, False)),
        ("smtp+tls://ann%40a.com:p%3Aw@mail.example.com", ("mail.example.com", 587, "ann@a.com", "p:w", True, False)),
        ("smtps://u:p@mail.example.com:4465/", ("mail.example.com", 4465, "u", "p", False, True)),
    ],
)
def test_a_mail_server_is_read_from_its_address(value, read):
    assert env.mail_server("TOOLHUB_SMTP_URL", value) == read


@pytest.mark.parametrize(
    "value", ["mail.example.com", "http://u:hunter2@h", "smtp://", "smtp://u:hunter2@h:99999", "smtp://u:hunter2@h/x"]
)
def test_an_address_that_is_no_mail_server_is_refused_without_its_password(value):
    with pytest.raises(ImproperlyConfigured, match="TOOLHUB_SMTP_URL must look like") as refused:
        env.mail_server("TOOLHUB_SMTP_URL", value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("", ""),
        ("https://help.example.com/ask?team=data", "https://help.example.com/ask?team=data"),
        ("HTTPS://help.example.com", "https://help.example.com"),
        ("http://help.internal:8080/", "http://help.internal:8080/"),
        ("mailto:help@example.com?subject=toolhub", "mailto:help@example.com?subject=toolhub"),
        ("help+hub@example.com", "mailto:help+hub@example.com"),
    ],
)
def test_a_contact_address_is_a_web_or_a_mail_address(monkeypatch, value, read):
    monkeypatch.setenv("TOOLHUB_CONTACT_URL", value)
    assert env.contact_address("TOOLHUB_CONTACT_URL") == read


@pytest.mark.parametrize(
    "value",
    [
        "javascript:alert(1)",
        "JavaScript:alert(1)//a@b",
        "data:text/html,<b>",
        "help.example.com",
        "https://",
        "https://help.example.com:99999/",
        "https://[",
        "mailto:",
        "mailto:nobody",
        "a b@example.com",
        "https://a.example/ x",
        "a@example.com\nBcc: b@example.com",
        "tel:112",
    ],
)
def test_another_contact_address_is_refused_with_the_name_of_the_setting(monkeypatch, value):
    monkeypatch.setenv("TOOLHUB_CONTACT_URL", value)
    with pytest.raises(ImproperlyConfigured, match="TOOLHUB_CONTACT_URL must be an address such as https"):
        env.contact_address("TOOLHUB_CONTACT_URL")


@pytest.mark.parametrize("value", ["x" * 101, "Dana\nAsk nobody", "Da\u2028na", "Da\x1bna", "\u202edana"])
def test_a_text_of_one_line_is_refused_when_it_is_longer_or_has_controls(monkeypatch, value):
    monkeypatch.setenv("TOOLHUB_CONTACT_NAME", value)
    with pytest.raises(ImproperlyConfigured, match="TOOLHUB_CONTACT_NAME must be one line of at most 100 characters"):
        env.line("TOOLHUB_CONTACT_NAME", 100)
    monkeypatch.setenv("TOOLHUB_CONTACT_NAME", "Dana «Data» <Müller>")
    assert env.line("TOOLHUB_CONTACT_NAME", 100) == "Dana «Data» <Müller>"


def test_empty_counts_as_not_set(monkeypatch):
    monkeypatch.setenv("TOOLHUB_TEST_VALUE", "  ")
    assert env.boolean("TOOLHUB_TEST_VALUE", True) is True
    assert env.integer("TOOLHUB_TEST_VALUE", 7) == 7
    assert env.words("TOOLHUB_TEST_VALUE", ("a",)) == ["a"]
    assert env.url("TOOLHUB_TEST_VALUE", "http://localhost:8000/") == "http://localhost:8000"


def test_both_databases_are_set_up_for_durable_commits(monkeypatch):
    light = env.database("TOOLHUB_TEST_DATABASE", FILE)
    assert light["NAME"] == str(FILE)
    assert "synchronous=FULL" in str(light["OPTIONS"]) and "journal_mode=WAL" in str(light["OPTIONS"])
    assert "IMMEDIATE" in str(light["OPTIONS"])
    monkeypatch.setenv("TOOLHUB_TEST_DATABASE", "postgresql://us%40er:p%2Fw@db.example:6432/tool%20hub?sslmode=require")
    heavy = env.database("TOOLHUB_TEST_DATABASE", FILE)
    assert (heavy["USER"], heavy["PASSWORD"], heavy["HOST"], heavy["PORT"], heavy["NAME"]) == (
        "us@er",
        "p/w",
        "db.example",
        "6432",
        "tool hub",
    )
    assert "synchronous_commit=on" in str(heavy["OPTIONS"]) and "require" in str(heavy["OPTIONS"])


MAKE_KEY = """
import sys
from pathlib import Path

from toolhub import env

print(env.generated_secret(Path(sys.argv[1])))
"""


def test_processes_that_start_together_agree_on_one_generated_key(tmp_path):
    root = Path(__file__).resolve().parent.parent
    path = tmp_path / "deep" / "key"
    starts = [
        subprocess.Popen([sys.executable, "-c", MAKE_KEY, str(path)], cwd=root, stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    keys = {start.communicate(timeout=180)[0].strip() for start in starts}
    assert len(keys) == 1
    assert len(keys.pop()) >= 50
    assert path.stat().st_mode & 0o077 == 0
    assert [file.name for file in path.parent.iterdir()] == ["key"]


def test_outside_development_a_missing_key_stops_the_start(tmp_path):
    root = Path(__file__).resolve().parent.parent
    environment = {"PATH": "/usr/bin:/bin", "TOOLHUB_ENVIRONMENT": "production", "TOOLHUB_DATA_DIR": str(tmp_path)}
    command = [sys.executable, "manage.py", "check"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert "TOOLHUB_SECRET_KEY" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["", "https://chat.example.com/services/T0?key=1", "http://10.0.0.7:8065/hooks/x"])
def test_a_webhook_is_any_web_address(value: str) -> None:
    assert env.webhook("TOOLHUB_APPROVAL_WEBHOOK_URL", value) == value


@pytest.mark.parametrize(
    "value", ["chat", "ftp://hunter2", "https://", "https://a b/hunter2", "https://ä/hunter2", "https://a:x/hunter2"]
)
def test_a_wrong_webhook_is_refused_without_its_text(value: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="TOOLHUB_APPROVAL_WEBHOOK_URL must be an address") as refused:
        env.webhook("TOOLHUB_APPROVAL_WEBHOOK_URL", value)
    assert "hunter2" not in str(refused.value)
