"""Translations as they are compiled, and the texts in use as `makemessages` finds them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from struct import unpack_from

from tests.conftest import missing

ROOT = Path(__file__).resolve().parent.parent
LOCALES = ROOT / "toolhub" / "locale"
LANGUAGES = sorted(folder.name for folder in LOCALES.iterdir() if (folder / "LC_MESSAGES").is_dir())
DOMAINS = ("django", "djangojs")
SOURCES = ("toolhub", "catalog", "audit", "templates")
IGNORED = shutil.ignore_patterns("__pycache__", "locale", "migrations")


@dataclass(frozen=True, slots=True)
class Message:
    context: str
    singular: str
    plural: str
    translations: tuple[str, ...] = ()

    @property
    def source(self) -> tuple[str, str, str]:
        return self.context, self.singular, self.plural


def read(compiled: bytes) -> set[Message]:
    """Every message of a .mo file. It holds no fuzzy and no untranslated one."""
    _magic, _revision, count, originals, translations = unpack_from("<5I", compiled)

    def text(place: int) -> str:
        length, start = unpack_from("<2I", compiled, place)
        return compiled[start : start + length].decode()

    found = set()
    for number in range(count):
        context, _, source = text(originals + 8 * number).rpartition("\x04")
        singular, _, plural = source.partition("\0")
        if singular:
            found.add(Message(context, singular, plural, tuple(text(translations + 8 * number).split("\0"))))
    return found


def get_path(language: str, domain: str) -> Path:
    return LOCALES / language / "LC_MESSAGES" / f"{domain}.po"


def translated(language: str, domain: str) -> set[Message]:
    return read(get_path(language, domain).with_suffix(".mo").read_bytes())


def compile_catalogue(po: Path) -> set[Message]:
    """What `compilemessages` makes of a .po file."""
    return read(_gettext("msgfmt", "--check-format", "-o", "-", str(po)))


def in_use(place: Path, domain: str, *sources: Path) -> set[tuple[str, str, str]]:
    """(context, singular, plural) of every text in copies of these files and folders below `place`."""
    (place / "locale").mkdir(parents=True)
    for source in sources:
        if source.is_dir():
            shutil.copytree(source, place / source.name, ignore=IGNORED)
        else:
            shutil.copy(source, place)
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    command = ("-m", "django", "makemessages", "-l", "zh_Hans", "--keep-pot", "-d", domain)
    said = _gettext(sys.executable, *command, place=place, environment=environment).decode()
    assert "warning" not in said, said
    template = place / "locale" / f"{domain}.pot"
    _gettext("msgen", "-o", f"{template}.po", str(template))
    return {message.source for message in compile_catalogue(Path(f"{template}.po"))}


def _gettext(*command: str, place: Path = ROOT, environment: dict[str, str] | None = None) -> bytes:
    if shutil.which("msgfmt") is None:
        missing("gettext", "it is not installed")
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
