"""Pictures of every page: `python -m tests.browser.shots DIR [--only TEXT ...] [--states]`.

Seeds a demo installation on a port of its own, opens every page that the census knows, then every state of
`tests/browser/states.py` (errors, open menus, answers, empty lists), in light and dark, at 1280 and 390 pixels, in
English and Chinese, and writes DIR/<language>/<width>-<shade>/<page>.png. --language, --width and --shade take one of
them. Needs Chromium, as the browser tests do. What a page complains about on its console, and pages wider than the
window, are printed at the end.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.browser import demo, states
from tests.browser.conftest import CHROMIUM, Window
from tests.real_servers import Hub

LANGUAGES = {"en": "en", "zh-hans": "zh-CN"}
WIDTHS = (1280, 390)
SHADES = ("light", "dark")


class Choice(NamedTuple):
    """Which pictures: languages, widths in pixels, shades, parts of addresses and of states' names, and of which."""

    languages: tuple[str, ...]
    widths: tuple[int, ...]
    shades: tuple[str, ...]
    only: tuple[str, ...]
    addresses: bool
    states: bool

    def has(self, name: str) -> bool:
        return not self.only or any(part in name for part in self.only)


def format_file_name(address: str) -> str:
    """A file name that says which page it is: what stands for an id is left out."""
    return re.sub(r"[^a-z-]+", "-", re.sub(r"{\w+}", "one", address.lower())).strip("-") or "home"


def take(hub: Hub, browser: Any, folder: Path, choice: Choice) -> list[str]:
    """Every chosen picture; what there is to complain about."""
    complaints: list[str] = []
    for language in choice.languages:
        for width in choice.widths:
            place = folder / language / str(width)
            for whose in states.people():
                complaints += take_of(hub, browser, place, whose, language, width, choice)
            sys.stdout.write(f"{language}, {width} pixels: done\n")
            sys.stdout.flush()
    return [complaint for complaint in complaints if complaint]


def take_of(
    hub: Hub, browser: Any, place: Path, whose: str, language: str, width: int, choice: Choice
) -> Iterator[str]:
    """The pictures of one person's pages."""
    pages = [
        address for person, address in demo.addresses() if choice.addresses and person == whose and choice.has(address)
    ]
    found = [state for state in states.STATES if choice.states and state.whose == whose and choice.has(state.name)]
    if not pages and not found:
        return
    context = browser.new_context(
        viewport={"width": width, "height": 900}, locale=LANGUAGES[language], reduced_motion="reduce"
    )
    window = Window(context.new_page(), hub.url)
    if whose:
        window.sign_in(whose, "/admin/login/" if whose in {"root", "clerk"} else "/sign-in/")
    for address in pages:
        if demo.is_page(window, address.format(**hub.seeded)):
            demo.stop_motion(window.page)
            yield picture(window, place, format_file_name(address), choice.shades)
    for state in found:
        states.open_state(window, state, hub.seeded)
        yield picture(window, place, f"state-{state.name}", choice.shades)
    yield from window.complaints
    context.close()


def picture(window: Window, place: Path, name: str, shades: tuple[str, ...]) -> str:
    """Write the page in each shade; return what is wrong with its width."""
    for shade in shades:
        demo.set_theme(window.page, dark=shade == "dark")
        folder = place.with_name(f"{place.name}-{shade}")
        folder.mkdir(parents=True, exist_ok=True)
        window.page.screenshot(path=folder / f"{name}.png", full_page=True)
    return window.too_wide()


def main() -> None:
    import django
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument(
        "--only", action="append", default=[], metavar="TEXT", help="addresses that contain this; may be repeated"
    )
    parser.add_argument("--states", action="store_true", help="only the states, not the addresses")
    parser.add_argument("--addresses", action="store_true", help="only the addresses, not the states")
    parser.add_argument("--language", choices=LANGUAGES)
    parser.add_argument("--width", type=int, choices=WIDTHS)
    parser.add_argument("--shade", choices=SHADES)
    options = parser.parse_args()
    choice = Choice(
        (options.language,) if options.language else tuple(LANGUAGES),
        (options.width,) if options.width else WIDTHS,
        (options.shade,) if options.shade else SHADES,
        tuple(options.only),
        addresses=not options.states,
        states=not options.addresses,
    )
    django.setup()
    with Hub(seed=states.fill) as hub, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        complaints = take(hub, browser, options.folder, choice)
        browser.close()
    sys.stdout.write("\n".join([*dict.fromkeys(complaints), f"The pictures are in {options.folder}.\n"]))


if __name__ == "__main__":
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    main()
