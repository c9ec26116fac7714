from __future__ import annotations

from ipaddress import ip_network

import pytest
from django.core import checks

GOOD = {
    "SECRET_KEY": "s" * 50,
    "RECORD_KEY": "r" * 50,
    "DEVELOPMENT": False,
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
