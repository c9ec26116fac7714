"""Pictures of every page: `python -m tests.browser.shots DIR [--only TEXT]`.

Seeds a demo installation on a port of its own, opens every page that the census knows, in light and dark, at 1280 and
390 pixels, in English and Chinese, and writes DIR/<language>/<width>-<shade>/<page>.png. Needs Chromium, as the browser
tests do. What a page complains about on its console, and pages wider than the window, are printed at the end.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from tests.browser import demo
from tests.browser.conftest import CHROMIUM, Window
from tests.real_servers import Hub

LANGUAGES = (("en", "en"), ("zh-hans", "zh-CN"))
WIDTHS = (1280, 390)


def format_file_name(address: str) -> str:
    """A file name that says which page it is: what stands for an id is left out."""
    return re.sub(r"[^a-z-]+", "-", re.sub(r"{\w+}", "one", address.lower())).strip("-") or "home"


def take(hub: Hub, browser: Any, folder: Path, only: str) -> list[str]:
    """Every picture; what there is to complain about."""
    complaints: list[str] = []
    for language, locale in LANGUAGES:
        for width in WIDTHS:
            for whose in ("", "alice", "root"):
                context = browser.new_context(
                    viewport={"width": width, "height": 900}, locale=locale, reduced_motion="reduce"
                )
                window = Window(context.new_page(), hub.url)
                if whose:
                    window.sign_in(whose, "/admin/login/" if whose == "root" else "/sign-in/")
                for person, address in demo.addresses():
                    if person != whose or only not in address:
                        continue
                    if not demo.is_page(window, address.format(**hub.seeded)):
                        continue
                    demo.stop_motion(window.page)
                    complaints.append(window.too_wide())
                    for dark in (False, True):
                        demo.set_theme(window.page, dark=dark)
                        place = folder / language / f"{width}-{'dark' if dark else 'light'}"
                        place.mkdir(parents=True, exist_ok=True)
                        window.page.screenshot(path=place / f"{format_file_name(address)}.png", full_page=True)
                complaints += window.complaints
                context.close()
            sys.stdout.write(f"{language}, {width} pixels: done\n")
            sys.stdout.flush()
    return [complaint for complaint in complaints if complaint]


def main() -> None:
    import django
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="TEXT", help="only addresses that contain this")
    options = parser.parse_args()
    django.setup()
    with Hub(seed=demo.fill) as hub, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        complaints = take(hub, browser, options.folder, options.only)
        browser.close()
    sys.stdout.write("\n".join([*dict.fromkeys(complaints), f"The pictures are in {options.folder}.\n"]))


if __name__ == "__main__":
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    main()
