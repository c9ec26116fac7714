"""An auditor's way from a call to the grant behind it, and a case file that another machine verifies."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.browser import access_seed, axe
from tests.browser.conftest import Window, call_as_client
from tests.real_servers import ROOT, Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
TOOL, NOTE = "wash_pet", "Ticket 12: asked by Carol"


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    with Hub(seed=access_seed.seed) as hub:
        yield hub


def has_no_problem(mine: Window) -> None:
    assert mine.too_wide() == ""
    assert axe.find_violations(mine.page) == []


def verify(bundle: Path, keys: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """As on another machine: with the public key, and without the data of this one."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TOOLHUB_")}
    return subprocess.run(
        [sys.executable, "manage.py", "verifycalls", "--bundle", str(bundle), "--keys", str(keys)],
        cwd=ROOT,
        env={**plain, "DJANGO_SETTINGS_MODULE": "toolhub.settings", "TOOLHUB_DATA_DIR": str(folder)},
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_from_a_call_to_who_gave_the_access_and_to_a_case_file_that_is_verified_elsewhere(
    hub: Hub, window: Windows, tmp_path: Path
) -> None:
    root = window(accept_downloads=True)
    tool = hub.seeded["tools"][TOOL]
    root.sign_in("root", f"/admin/login/?next=/admin/access/give/?what=tool:{tool}%26place=tool:{tool}")
    page = root.page
    page.fill("[data-picker=who] [data-search]", "alice")
    page.click("[data-picker=who] [data-found] label:has(bdi:text-is('user alice'))")
    page.fill("#note", NOTE)
    page.click("#give-access button.primary")
    page.wait_for_selector(f"#give-preview .th-note.warn:has-text('{TOOL}')")
    page.click("text=Apply changes")
    page.wait_for_selector(f"#grants li:has-text('{NOTE}')")
    token = hub.seeded["tokens"]["alice"]
    assert '"3"' in call_as_client(hub, token, TOOL, {"a": 1, "b": 2}, "auditing-client", "1")

    auditor = window()
    auditor.sign_in("auditor", "/admin/login/?next=/admin/audit/call/")
    page = auditor.page
    page.click(f"tr:has-text('{TOOL}') a >> nth=0")
    page.wait_for_selector(f"text={NOTE}")
    has_no_problem(auditor)
    page.click("a[href*='/admin/catalog/grant/'][href*='/change/'] >> visible=true >> nth=0")
    page.wait_for_url("**/admin/catalog/grant/*/**")
    page.wait_for_selector(f"text={NOTE}")
    assert page.locator("button[name=_save], input[name=_save]").count() == 0, "an auditor changes nothing"
    has_no_problem(auditor)

    page = root.open("/admin/audit/call/?user=alice")
    page.click("summary >> text=Export")
    page.click("a:text-is('Case file')")
    page.click("#case-file button")
    assert page.locator("#id_reason:invalid").count() == 1, "a reason is required"
    has_no_problem(root)
    page.fill("#id_reason", "Ticket 13")
    with page.expect_download() as download:
        page.click("#case-file button")
    bundle, keys = tmp_path / "case.zip", tmp_path / "KEYS"
    download.value.save_as(bundle)
    keys.write_text(page.inner_text("#public-key").strip() + "\n")
    with zipfile.ZipFile(bundle) as archive:
        text = "".join(archive.read(name).decode(errors="replace") for name in archive.namelist())
    assert NOTE in text and "Ticket 13" in text and "auditing-client" in text
    assert token not in text
    done = verify(bundle, keys, tmp_path / "elsewhere")
    assert done.returncode == 0, done.stdout + done.stderr
    spoiled = tmp_path / "spoiled.zip"
    content = bytearray(bundle.read_bytes())
    content[len(content) // 2] ^= 1
    spoiled.write_bytes(content)
    assert verify(spoiled, keys, tmp_path / "elsewhere").returncode == 1
    page = auditor.open("/admin/audit/action/")
    assert page.locator("tr:has-text('case file'):has-text('root')").count() == 1, "making it is logged"
