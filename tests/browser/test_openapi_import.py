"""The import of an OpenAPI document in a real browser: a new secret by keyboard, and other choices."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.browser import axe
from tests.browser.conftest import Window
from tests.real_servers import Hub

pytestmark = pytest.mark.chromium
Windows = Callable[..., Window]
VALUE = "a long secret value"
DOCUMENT = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "servers": [{"url": "https://shop.example"}],
    "paths": {"/pets": {"get": {"operationId": "list_pets", "security": [{"api_key": []}]}}},
    "components": {"securitySchemes": {"api_key": {"type": "apiKey", "in": "header", "name": "X-Key"}}},
}


@pytest.mark.parametrize("width", [1280, 390])
def test_a_secret_is_created_on_the_preview_and_the_document_stays_for_other_choices(
    hub: Hub, window: Windows, tmp_path: Path, width: int
) -> None:
    mine = window(viewport={"width": width, "height": 900}, color_scheme="dark" if width == 390 else "light")
    mine.sign_in("root", "/admin/login/?next=/admin/catalog/importeddocument/add/")
    page = mine.page
    file = {"name": f"shop{width}.json", "mimeType": "application/json", "buffer": json.dumps(DOCUMENT).encode()}
    page.set_input_files("#id_file", file)
    page.click("text=Preview")
    new = page.locator(".openapi-new")
    assert new.is_hidden()
    page.fill("#id_prefix", f"w{width}_")
    page.focus("#id_secret_0")
    page.keyboard.type("New")
    new.wait_for()
    assert page.input_value("#id_new_0-name").startswith("shop")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "id_new_0-name"
    page.fill("#id_new_0-name", f"shop_key_{width}")
    page.fill("#id_new_0-value", VALUE)
    # TOOLHUB_TEST_SHOTS names a folder for whoever wants to look at the page.
    folder = Path(os.environ.get("TOOLHUB_TEST_SHOTS", tmp_path))
    page.screenshot(path=folder / f"openapi-preview-{width}.png", full_page=True)
    assert mine.too_wide() == ""
    assert axe.find_violations(page) == []
    page.click("text=Update preview")
    page.wait_for_selector(f"text=The secret shop_key_{width} was created.")
    assert page.input_value("#id_secret_0") == f"shop_key_{width}" and new.is_hidden()
    assert VALUE not in page.content()
    page.check("#operation-1")
    page.click("button[value=import]")
    page.wait_for_url("**/admin/imports/*/")
    mine.open("/admin/catalog/importeddocument/")
    page.click("th a:has-text('Shop') >> nth=-1")
    page.click("text=Change choices")
    page.wait_for_selector("text=This is the document as it was imported")
    assert page.input_value("#id_secret_0") == f"shop_key_{width}"
    page.click("button[value=cancel]")
    page.wait_for_selector("text=Change choices")
