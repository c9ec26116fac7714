from __future__ import annotations

import socket

import pytest

from tests.management.test_quickstart import manage


def test_more_than_one_worker_needs_postgresql_and_redis(tmp_path):
    done = manage("serve", "--workers", "2", TOOLHUB_DATA_DIR=str(tmp_path))
    assert done.returncode != 0
    assert "PostgreSQL" in done.stderr and "Redis" in done.stderr and "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def migrated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("migrated")
    assert manage("migrate", "--verbosity", "0", TOOLHUB_DATA_DIR=str(folder)).returncode == 0
    return str(folder)


@pytest.mark.parametrize("arguments", [("--workers", "0"), ("--port", "70000"), ("--host", "192.0.2.1")])
def test_settings_that_cannot_be_served_are_rejected_with_a_sentence(migrated, arguments):
    done = manage("serve", *arguments, TOOLHUB_DATA_DIR=migrated)
    assert done.returncode != 0
    assert arguments[0] in done.stderr or arguments[1] in done.stderr
    assert "Traceback" not in done.stderr


def test_a_database_without_its_tables_is_not_served(tmp_path):
    done = manage("serve", "--port", "0", TOOLHUB_DATA_DIR=str(tmp_path))
    assert done.returncode != 0
    assert "migrate" in done.stderr and "Traceback" not in done.stderr


def test_a_port_in_use_is_refused_with_a_sentence(migrated):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = manage("serve", "--port", port, TOOLHUB_DATA_DIR=migrated)
    assert done.returncode != 0
    assert port in done.stderr and "Traceback" not in done.stderr
