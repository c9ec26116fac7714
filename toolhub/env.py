"""Settings from the environment; every error names the variable and the expected value."""

from __future__ import annotations

import base64
import os
import re
import secrets
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from toolhub.client_address import Network, parse_network

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})
WEB_SCHEMES = frozenset(
    {"about", "blob", "data", "file", "filesystem", "ftp", "http", "https", "javascript", "mailto", "tel", "vbscript"}
    | {"view-source", "ws", "wss"}
)
KEYLESS = "TOOLHUB_KEYLESS"
"""Set by toolhub for processes that run its code and get none of its keys."""


def text(name: str, default: str = "") -> str:
    """Return the variable without surrounding whitespace; treat empty as not set."""
    return os.environ.get(name, "").strip() or default


def secret(name: str) -> str:
    """Return the variable, or the content of the file that NAME_FILE names; reject both at once."""
    value, path = text(name), text(f"{name}_FILE")
    if value and path:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set: keep one.")
    if not path:
        return value
    try:
        content = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{name}_FILE: cannot read {path}: {error}") from error
    if not content:
        raise ImproperlyConfigured(f"{name}_FILE: {path} is empty.")
    return content


def locate_secret(name: str, generated: Path) -> tuple[str, str]:
    """Return where the value of a secret is kept: a kind and a path.

    The kind is "variable" (path ""), "file" (the path that NAME_FILE has), "generated" (the path of the file that
    `generated_secret` keeps), or "" when there is none.
    """
    if path := text(f"{name}_FILE"):
        return "file", str(Path(path).absolute())
    if text(name):
        return "variable", ""
    return ("generated", str(generated)) if generated.is_file() else ("", "")


def boolean(name: str, default: bool) -> bool:
    value = text(name).lower()
    if not value:
        return default
    if value in TRUE:
        return True
    if value in FALSE:
        return False
    raise ImproperlyConfigured(f"{name} must be one of 1, true, yes, on, 0, false, no, off; it is {value!r}.")


def choice(name: str, options: tuple[str, ...]) -> str:
    """Return one of the options; the first one is the default."""
    value = text(name, options[0]).lower()
    if value not in options:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(options)}; it is {value!r}.")
    return value


def integer(name: str, default: int, *, minimum: int = 0, maximum: int = 10**12) -> int:
    value = text(name)
    if not value:
        return default
    try:
        number = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number; it is {value!r}.") from None
    if not minimum <= number <= maximum:
        raise ImproperlyConfigured(f"{name} must be between {minimum} and {maximum}; it is {number}.")
    return number


def rate(name: str, default: str) -> str:
    """Return a rate above zero: a number per period, such as 60/m or 100/10s."""
    value = text(name, default)
    number, _, period = value.partition("/")
    length = period[:-1] or "1"
    numbers = number.isdecimal() and length.isdecimal() and int(number) and int(length)
    if not (numbers and period[-1:] in {"s", "m", "h", "d"}):
        raise ImproperlyConfigured(f"{name} must be a rate such as 60/m or 100/10s (s, m, h or d); it is {value!r}.")
    return value


def mail_server(name: str, value: str) -> tuple[str, int, str, str, bool, bool]:
    """Return (host, port, user, password, STARTTLS, TLS from the start) of smtp://, smtp+tls:// or smtps://.

    An empty value is no server. Raises ImproperlyConfigured without repeating the value, which has a password.
    """
    if not value:
        return "", 25, "", "", False, False
    parts = urlsplit(value)
    ports = {"smtp": 25, "smtp+tls": 587, "smtps": 465}
    try:
        port = parts.port or ports.get(parts.scheme, 0)
    except ValueError:
        port = 0
    if parts.scheme not in ports or not parts.hostname or not port or parts.path.strip("/") or parts.query:
        raise ImproperlyConfigured(
            f"{name} must look like smtp+tls://user:password@host:587 (or smtps:// for TLS from the start)."
        )
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return parts.hostname, port, user, password, parts.scheme == "smtp+tls", parts.scheme == "smtps"


def webhook(name: str, value: str) -> str:
    """Return an https or http address with whatever path and query; its text is a secret, so that no error names it."""
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.fragment
        _ = parts.port
    except ValueError:
        valid = False
    if not valid or not value.isascii() or not value.isprintable() or " " in value:
        raise ImproperlyConfigured(f"{name} must be an address that starts with https:// or http://.")
    return value


def line(name: str, maximum: int) -> str:
    """Return a text of one line and at most `maximum` characters."""
    value = text(name)
    if len(value) > maximum or not value.isprintable():
        raise ImproperlyConfigured(f"{name} must be one line of at most {maximum} characters; it is {value[:200]!r}.")
    return value


def contact_address(name: str) -> str:
    """Return an https, http or mailto address for people; a bare mail address becomes a mailto address."""
    value = text(name)
    if not value:
        return ""
    if re.fullmatch(r"[^\s@:/?#]+@[^\s@:/?#]+", value):
        value = f"mailto:{value}"
    try:
        parts = urlsplit(value)
        _ = parts.port
        web = parts.scheme in {"http", "https"} and bool(parts.hostname)
        valid = web or (parts.scheme == "mailto" and bool(re.fullmatch(r"[^\s@]+@[^\s@]+", parts.path)))
    except ValueError:
        valid = False
    if not valid or not value.isprintable() or " " in value:
        raise ImproperlyConfigured(
            f"{name} must be an address such as https://help.example.com, mailto:help@example.com or "
            f"help@example.com; it is {value[:200]!r}."
        )
    return f"{parts.scheme}{value[len(parts.scheme) :]}"


def words(name: str, default: tuple[str, ...] = ()) -> list[str]:
    """Return a comma-separated list."""
    return [word.strip() for word in text(name).split(",") if word.strip()] or list(default)


def schemes(name: str, default: tuple[str, ...]) -> list[str]:
    """Return a comma-separated list of URL schemes of applications, in lower case."""
    found = [word.lower() for word in words(name, default)]
    for scheme in found:
        if not re.fullmatch(r"[a-z][a-z0-9+.-]*", scheme) or scheme in WEB_SCHEMES:
            raise ImproperlyConfigured(
                f"{name} must list schemes of applications, such as cursor or vscode, separated by commas, and none "
                f"that a browser opens itself; it has {scheme!r}."
            )
    return found


def networks(name: str) -> list[Network]:
    """Return a comma-separated list of networks, such as 10.0.0.0/8, or single addresses."""
    found = []
    for word in words(name):
        try:
            found.append(parse_network(word))
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name} must list networks such as 10.0.0.0/8 or addresses such as 127.0.0.1: {error}."
            ) from None
    return found


def flags(name: str) -> dict[str, int]:
    """Return a comma-separated list of flags, such as new_crm=on or beta=25%, as names with percentages."""
    found = {}
    for word in words(name):
        flag, _, value = word.partition("=")
        value = value.strip().lower()
        number = re.fullmatch(r"([0-9]{1,3})\s*%", value)
        percentage = int(number[1]) if number else 100 if value in TRUE else 0 if value in FALSE else None
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", flag.strip()) or percentage is None or percentage > 100:
            raise ImproperlyConfigured(
                f"{name} must list flags such as new_crm=on, old_crm=off or beta=25%, separated by commas; it has "
                f"{word!r}."
            )
        if flag.strip() in found:
            raise ImproperlyConfigured(f"{name} must list each flag once; it has {flag.strip()!r} twice.")
        found[flag.strip()] = percentage
    return found


def variables(name: str, names: list[str]) -> list[str]:
    """Return the names of environment variables; reject those of toolhub itself."""
    for one in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", one) or one.startswith("TOOLHUB_"):
            raise ImproperlyConfigured(
                f"{name} must list names of environment variables, separated by commas, but none of toolhub's own; "
                f"it has {one!r}."
            )
    return names


def certificates(name: str) -> str:
    """Return the path of a file with PEM certificates, "" when not set."""
    path = text(name)
    if path:
        try:
            ssl.create_default_context(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise ImproperlyConfigured(f"{name}: {path} has no certificates in PEM format: {error}") from error
    return path


def url(name: str, default: str = "") -> str:
    """Return an http or https address without a trailing slash, a query or a fragment."""
    value = text(name, default)
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query and not parts.fragment
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        raise ImproperlyConfigured(f"{name} must look like https://tools.example.com; it is {value!r}.")
    return value.rstrip("/")


def issuer(name: str) -> str:
    """Return the address of an OpenID Connect provider, or "": https, or http to this machine, without a query."""
    value = text(name).removesuffix("/")
    if not value:
        return ""
    try:
        parts = urlsplit(value)
        host = parts.hostname or ""
    except ValueError:
        parts, host = urlsplit(""), ""
    local = parts.scheme == "http" and host in {"localhost", "127.0.0.1", "::1"}
    if not host or parts.query or parts.fragment or parts.username or not (parts.scheme == "https" or local):
        raise ImproperlyConfigured(f"{name} must be an https address without a query, not {value!r}.")
    return value


def database(name: str, default_file: Path) -> dict[str, object]:
    """Return Django's settings for one database.

    The address is SQLite in a file, or postgresql://user:password@host:port/name. Both are configured so that a
    committed row survives a power cut: WAL with synchronous=FULL and IMMEDIATE transactions on SQLite (DEFERRED ones
    fail under concurrent writers), synchronous_commit=on on PostgreSQL.
    """
    value = secret(name) or f"sqlite:///{default_file}"
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is not an address: {error}") from error
    if parts.scheme == "sqlite":
        path = unquote(parts.path)
        if len(path) < 2 or parts.netloc:
            raise ImproperlyConfigured(
                f"{name}: SQLite needs a file, as in sqlite:////var/lib/toolhub/toolhub.sqlite3."
            )
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": path[1:] if path.startswith("//") else path,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA busy_timeout=20000;",
            },
        }
    if parts.scheme in {"postgres", "postgresql"}:
        database_name = unquote(parts.path.lstrip("/"))
        if not database_name:
            raise ImproperlyConfigured(f"{name} names no database: postgresql://user:password@host:5432/NAME.")
        options: Mapping[str, object] = dict(parse_qsl(parts.query))
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": database_name,
            "USER": unquote(parts.username or ""),
            "PASSWORD": unquote(parts.password or ""),
            "HOST": unquote(parts.hostname or ""),
            "PORT": str(port or ""),
            "CONN_HEALTH_CHECKS": True,
            "CONN_MAX_AGE": 60,
            "OPTIONS": {"connect_timeout": 3, "options": "-c synchronous_commit=on", **options},
        }
    raise ImproperlyConfigured(
        f"{name} must start with sqlite:/// or postgresql://, not {parts.scheme or 'nothing'}://."
    )


def named_databases(name: str, value: str) -> dict[str, str]:
    """Return {name: address} from pairs of a name and a database address.

    A pair is name=sqlite:////path or name=postgresql://..., one a line or separated by whitespace.
    """
    found: dict[str, str] = {}
    for pair in value.split():
        key, equals, address = pair.partition("=")
        if not equals or not re.fullmatch(r"[a-z0-9_]{1,64}", key) or key in found:
            raise ImproperlyConfigured(
                f"{name}: each entry is a name of its own (a-z, 0-9, _), = and an address: sales=sqlite:////srv/s.db."
            )
        scheme = address.partition("://")[0]
        if scheme not in {"sqlite", "postgres", "postgresql"}:
            raise ImproperlyConfigured(
                f"{name}: {key} must be sqlite:////path or postgresql://user:password@host/name."
            )
        found[key] = address
    return found


def redis(name: str) -> str:
    value = secret(name)
    if value and urlsplit(value).scheme not in {"redis", "rediss", "unix"}:
        raise ImproperlyConfigured(f"{name} must start with redis://, rediss:// or unix://.")
    return value


def text_key() -> str:
    return secrets.token_urlsafe(50)


def fernet_key() -> str:
    """Generate 32 random bytes in the encoding that cryptography's Fernet expects."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode("ascii")


def generated_secret(path: Path, make: Callable[[], str] = text_key) -> str:
    """Return the random key stored in `path`: the first process creates it, all others read it.

    The complete key is written to a separate file, which is then linked to its name. No process ever reads a partial
    key, and two processes that start together use the same one.
    """
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ImproperlyConfigured(f"cannot read the key in {path}: {error}") from error
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(make())
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"cannot keep a generated key in {path}: {error}") from error
