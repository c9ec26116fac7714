from __future__ import annotations

import os
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.core import checks

ROOT = Path(__file__).resolve().parent.parent
GOOD = {
    "SECRET_KEY": "s" * 50,
    "RECORD_KEY": "r" * 50,
    "DEVELOPMENT": False,
    "DEBUG": False,
    "ALLOWED_HOSTS": ["tools.example.com", ".tools.example.com"],
    "PUBLIC_URL": "https://tools.example.com",
    "ALLOWED_ORIGINS": ["https://chat.example.com", "http://localhost:6274"],
    "ALLOW_PRIVATE_NETWORKS": ["10.1.0.0/16", "10.2.3.4/32:8080"],
    "TRUSTED_PROXIES": [ip_network("127.0.0.1"), ip_network("2001:db8::/32"), ip_network("fd00::/8")],
}


def list_check_ids(settings, **changes):
    for name, value in {**GOOD, **changes}.items():
        setattr(settings, name, value)
    found = checks.run_checks(include_deployment_checks=True)
    return {message.id for message in found if (message.id or "").startswith("toolhub.")}


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"SECRET_KEY": "short"}, "toolhub.E001"),
        ({"RECORD_KEY": ""}, "toolhub.E002"),
        ({"RECORD_KEY": "short"}, "toolhub.E002"),
        ({"RECORD_KEY": "s" * 50}, "toolhub.E003"),
        ({"RECORD_OLD_KEYS": ["short"]}, "toolhub.E007"),
        ({"RECORD_OLD_KEYS": ["r" * 50]}, "toolhub.E007"),
        ({"RECORD_OLD_KEYS": ["o" * 50, "ed25519:abc"]}, "toolhub.E007"),
        ({"ALLOW_PRIVATE_NETWORKS": ["10.0.0.0/99"]}, "toolhub.E005"),
        ({"ALLOW_PRIVATE_NETWORKS": ["intranet"]}, "toolhub.E005"),
        ({"ALLOWED_ORIGINS": ["*"]}, "toolhub.E006"),
        ({"ALLOWED_ORIGINS": ["https://chat.example.com/path"]}, "toolhub.E006"),
        ({"PUBLIC_URL": "http://tools.example.com"}, "toolhub.W001"),
        ({"DEVELOPMENT": True}, "toolhub.W002"),
        ({"TRUSTED_PROXIES": [ip_network("0.0.0.0/0")]}, "toolhub.E008"),
        ({"TRUSTED_PROXIES": [ip_network("127.0.0.1"), ip_network("128.0.0.0/1")]}, "toolhub.E008"),
        ({"TRUSTED_PROXIES": [ip_network("::/0")]}, "toolhub.E008"),
        ({"SECURE_PROXY_SSL_HEADER": ("HTTP_X_FORWARDED_PROTO", "https")}, "toolhub.E009"),
        ({"USE_X_FORWARDED_HOST": True}, "toolhub.E009"),
        ({"TRUSTED_PROXIES": []}, "toolhub.W004"),
        ({"DEBUG": True}, "toolhub.E011"),
        ({"ALLOWED_HOSTS": ["tools.example.com", "*"]}, "toolhub.E012"),
        ({"ALLOWED_HOSTS": ["."]}, "toolhub.E012"),
    ],
)
def test_a_dangerous_setting_is_reported(settings, changes, expected):
    assert expected in list_check_ids(settings, **changes)


def test_a_data_folder_that_cannot_be_written_is_reported(settings, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    assert "toolhub.E004" in list_check_ids(settings, DATA_DIR=tmp_path / "file" / "data")


def test_the_setting_that_trusted_every_proxy_is_reported(settings, monkeypatch):
    monkeypatch.setenv("TOOLHUB_BEHIND_PROXY", "no")
    assert "toolhub.E010" in list_check_ids(settings)


def test_a_sound_installation_gets_no_warnings(settings):
    assert list_check_ids(settings) == set()


def test_every_warning_says_what_to_do(settings):
    bad = {"SECRET_KEY": "x", "RECORD_KEY": "", "ALLOWED_ORIGINS": ["*"], "DEVELOPMENT": True}
    for name, value in {**GOOD, **bad}.items():
        setattr(settings, name, value)
    found = [m for m in checks.run_checks(include_deployment_checks=True) if (m.id or "").startswith("toolhub.")]
    assert len(found) >= 4
    assert all(message.hint for message in found)


def serve(tmp_path, **variables):
    """Start `serve` with these variables on a port that does not exist: what it prints before it would listen."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TOOLHUB_")}
    environment |= {
        "TOOLHUB_DATA_DIR": str(tmp_path),
        "TOOLHUB_ENVIRONMENT": "production",
        "TOOLHUB_SECRET_KEY": "s" * 50,
        "TOOLHUB_RECORD_KEY": "r" * 50,
        "TOOLHUB_ENCRYPTION_KEYS": Fernet.generate_key().decode(),
        "TOOLHUB_PUBLIC_URL": "https://tools.example.com",
        "TOOLHUB_TRUSTED_PROXIES": "127.0.0.1",
        "DJANGO_SETTINGS_MODULE": "toolhub.settings",
    }
    command = [sys.executable, "manage.py", "serve", "--port", "99999"]
    done = subprocess.run(command, env=environment | variables, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode
    return done.stderr


@pytest.mark.parametrize(
    "variables, expected",
    [
        ({"TOOLHUB_DEBUG": "yes"}, "toolhub.E011"),
        ({"TOOLHUB_ALLOWED_HOSTS": "*"}, "toolhub.E012"),
        ({"TOOLHUB_PUBLIC_URL": "http://tools.example.com"}, "toolhub.W001"),
    ],
)
def test_serve_says_what_is_dangerous_in_production(tmp_path, variables, expected):
    printed = serve(tmp_path, **variables)
    assert expected in printed and "HINT:" in printed
    # An error keeps it from going on to the tables; with a warning it does.
    assert ("migrate" in printed) == expected.startswith("toolhub.W")


def test_serve_says_nothing_of_a_sound_installation_or_a_machine_of_ones_own(tmp_path):
    assert "toolhub." not in serve(tmp_path)
    own = {"TOOLHUB_ENVIRONMENT": "development", "TOOLHUB_DEBUG": "yes", "TOOLHUB_ALLOWED_HOSTS": "*"}
    assert "toolhub." not in serve(tmp_path, **own, TOOLHUB_PUBLIC_URL="http://localhost:8000")
