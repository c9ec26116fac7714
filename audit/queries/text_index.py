"""Index over the text of calls: finds the few calls that may contain a text in a log of any size.

The index only suggests calls. A search reads each of them and applies the same condition as without the index, so that
an entry that is outdated or forged finds nothing wrong.

SQLite has a full-text index of three-character pieces (FTS5, `trigram`), PostgreSQL one of pg_trgm, both over the table
of `CallText`, never over `audit_call`: the writer of calls pays nothing. A background job adds the calls that ended.
Triggers remove the text of a call in the transaction that removes its row or its body, also for SQL from outside; what
retention leaves of the call is indexed again. From then on no question finds the removed text. FTS5 only marks its
pieces as deleted: `purge` merges the index, in small transactions, until it has neither the pieces nor the marks.

The table is no part of the hash chain: whoever can write SQL can hide calls from the index. So only pages of lists use
it. Exports and case files read the calls.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import DatabaseError, OperationalError, connection, transaction
from django.db.models.functions import Length
from django.db.utils import NotSupportedError
from psycopg.errors import QueryCanceled

from audit.background import Pacer
from audit.models import Call, CallText, TextProgress
from audit.queries import progress

logger = logging.getLogger(__name__)

FIELDS = ("arguments", "result", "name", "username", "client_name", "credential", "rule", "detail")
"""Columns of a call whose text is searched."""
JSON_FIELDS = 2
"""The first so many of them hold JSON."""
SLICE_CALLS, READ_CALLS = 200, 50
"""Calls after which the progress is stored, and calls with bodies that are in memory at a time."""
MAX_BATCH_CHARACTERS = 200_000
"""Approximate characters that one transaction adds or removes, for which the writer of calls waits: about 30 ms."""
MIN_GAP_SECONDS = 0.02
"""Minimum seconds between two transactions of the job, in which the writers of other processes get their turn."""
BUSY_SHARE = 0.02
"""Share of the time that the job works while its process serves calls."""
JOB_SECONDS = 50.0
LAG_MS = 600_000
"""Minimum age of a call when it is indexed. Another machine's clock may be as late as verification allows for entries
without a checkpoint (`integrity.links.LATE_MS`); newer calls are searched themselves."""
MAX_QUERY_SECONDS = 0.5
"""Maximum seconds of a question to the index; then the calls themselves are searched."""
MIN_TERM_CHARACTERS = 3
MAX_PIECES = 8
"""Maximum three-character pieces of a text that SQLite looks up, from all of it; the calls decide about the rest."""
_STEPS_BETWEEN_CHECKS = 2_000
"""Instructions of SQLite after which the time of a question is checked."""
_MERGE_PAGES = 16
"""Pages of the index that one transaction merges, for which the writer of calls waits: about 30 ms."""
DUE, RUNNING = "due", "run "
"""Values of TextProgress.removal; after RUNNING stands the number of the part into which the index is rewritten."""
TABLE, INDEX = CallText._meta.db_table, "audit_calltext_trigrams"
_WIDE = "\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WIDE_RUN = re.compile(f"[{_WIDE}]{{2,}}")
_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\(.)", re.DOTALL)
_CHARACTERS = re.compile(r"(?<!\\)(?:\\u[0-9a-fA-F]{4})+()")
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}

_SQLITE = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS {index} USING fts5(text, content='{table}', content_rowid='id',"
    " tokenize='trigram', detail='none', columnsize=0)",
    # Merge in many small steps, and never much at once, which would take the write lock for seconds.
    "INSERT INTO {index} ({index}, rank) VALUES ('automerge', 16), ('crisismerge', 1000)",
    "CREATE TRIGGER IF NOT EXISTS audit_text_added AFTER INSERT ON {table}"
    " BEGIN INSERT INTO {index} (rowid, text) VALUES (NEW.id, NEW.text); END",
    "CREATE TRIGGER IF NOT EXISTS audit_text_removed AFTER DELETE ON {table}"
    " BEGIN INSERT INTO {index} ({index}, rowid, text) VALUES ('delete', OLD.id, OLD.text); END",
    "CREATE TRIGGER IF NOT EXISTS audit_text_changed AFTER UPDATE ON {table}"
    " BEGIN INSERT INTO {index} ({index}, rowid, text) VALUES ('delete', OLD.id, OLD.text);"
    " INSERT INTO {index} (rowid, text) VALUES (NEW.id, NEW.text); END",
    "CREATE TRIGGER IF NOT EXISTS audit_call_text_gone AFTER DELETE ON audit_call"
    " BEGIN DELETE FROM {table} WHERE call_id = OLD.id; END",
    "CREATE TRIGGER IF NOT EXISTS audit_call_text_pruned AFTER UPDATE OF body_state ON audit_call"
    " BEGIN DELETE FROM {table} WHERE call_id = OLD.id; END",
)
_SQLITE_TRIGGERS = (
    "audit_text_added",
    "audit_text_removed",
    "audit_text_changed",
    "audit_call_text_gone",
    "audit_call_text_pruned",
)
_POSTGRESQL = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX IF NOT EXISTS {index} ON {table} USING gin (text gin_trgm_ops)",
    "CREATE OR REPLACE FUNCTION audit_remove_text() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN DELETE FROM {table} WHERE call_id = OLD.id; RETURN NULL; END $$",
    "CREATE TRIGGER audit_call_text_gone AFTER DELETE OR UPDATE OF body_state ON audit_call"
    " FOR EACH ROW EXECUTE FUNCTION audit_remove_text()",
)
"""`body_state` changes only when a body is removed: neither engine fires these triggers when a call ends."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The part of the audit log that the index answers for."""

    through: UUID
    """Calls with smaller ids are indexed, except `open`."""
    open: list[UUID]


# --- the objects in the database -----------------------------------------------------------------------------------


def after_migrate(**options: Any) -> None:
    """Create the index and its triggers where they are missing; log a warning when the database refuses."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
    if not {TABLE, "audit_call"} <= set(tables) or exists():
        return
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            for statement in _SQLITE if connection.vendor == "sqlite" else _POSTGRESQL:
                cursor.execute(statement.format(table=TABLE, index=INDEX))
    except (DatabaseError, NotSupportedError) as error:
        logger.warning("no text index: %s", str(error).strip().partition("\n")[0])


def exists() -> bool:
    """Return whether this database has the index."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            wanted = [INDEX, *_SQLITE_TRIGGERS]
            places = ", ".join(["%s"] * len(wanted))
            cursor.execute(f"SELECT count(*) FROM sqlite_master WHERE name IN ({places})", wanted)  # noqa: S608
            return bool(cursor.fetchone()[0] == len(wanted))
        cursor.execute(
            "SELECT 1 FROM pg_trigger WHERE tgname = 'audit_call_text_gone' AND tgrelid = to_regclass('audit_call')"
        )
        return cursor.fetchone() is not None


def advice() -> str:
    """Return how an operator adds the index that the database refused, in English."""
    if connection.vendor == "sqlite":
        return (
            "SQLite of this Python has no FTS5 with the trigram tokenizer. Use SQLite 3.34 or newer, then run migrate."
        )
    return "Let the database's owner run CREATE EXTENSION pg_trgm, then run manage.py migrate."


# --- what is indexed -----------------------------------------------------------------------------------------------


def make_text(values: Sequence[str]) -> str:
    """Return the searchable text of the columns FIELDS of a call, in which a text is found by `normalize`."""
    bodies, names = values[:JSON_FIELDS], values[JSON_FIELDS:]
    whole = "\n".join([*map(_unescape, bodies), *names]).casefold()
    # Two Chinese characters are a word but no three-character piece: with spaces around them, they are.
    pairs = {run[at : at + 2] for run in _WIDE_RUN.findall(whole) for at in range(len(run) - 1)}
    return f"{whole}\n {' '.join(sorted(pairs))} " if pairs else whole


def normalize(term: str) -> str:
    """Return the spelling of a searched text in the index; empty when the index cannot answer for it."""
    folded = term.casefold()
    if "\\" in term:  # spelled as in JSON, which the index does not keep
        return ""
    if term.upper().casefold() != folded:  # databases compare such letters in another way: the dotless i of Turkish
        return ""
    if len(folded) == 2 and _WIDE_RUN.fullmatch(folded):
        return f" {folded} "
    return folded if len(folded) >= MIN_TERM_CHARACTERS else ""


def decode_characters(text: str) -> str:
    """Return a part of JSON with its characters as they are read, and its other escapes as they are."""
    return _CHARACTERS.sub(_decode, text)


def _unescape(text: str) -> str:
    """Decode the escapes of JSON in a text, and once more those of JSON within a string of JSON."""
    if "\\" not in text:
        return text
    once = _ESCAPES.sub(_decode, text)
    return f"{once}\n{_ESCAPES.sub(_decode, once)}" if "\\" in once else once


def _decode(match: re.Match[str]) -> str:
    if match[1]:
        return _CONTROLS.get(match[1], match[1])
    units = b"".join(int(unit, 16).to_bytes(2, "big") for unit in match[0].split("\\u")[1:])
    # No database stores NUL or half a character.
    return units.decode("utf-16-be", "ignore").replace("\0", "")


# --- the background job --------------------------------------------------------------------------------------------


def update() -> None:
    """Add the calls that ended since the last run, with pauses while this process serves calls."""
    if exists():
        pause = Pacer(share=BUSY_SHARE).pause
        purge(JOB_SECONDS, pause)
        catch_up(JOB_SECONDS, pause)


def catch_up(seconds: float, pause: Callable[[], None] = lambda: None) -> bool:
    """Index the calls that ended, for about `seconds` at most. Return True when all are indexed."""
    deadline = time.monotonic() + seconds
    state = TextProgress.objects.filter(pk=1).first() or _create_progress()
    first, below = True, progress.limit(LAG_MS)
    _forget_statistics()
    while state.through < below:
        began = time.monotonic()
        following = _index_slice(state, below, recheck=first)
        if following is None:
            return False  # another process indexes
        state, first = following, False
        time.sleep(max(MIN_GAP_SECONDS, time.monotonic() - began))
        pause()
        if time.monotonic() > deadline:
            return False
    return True


def _forget_statistics() -> None:
    """Remove what ANALYZE stored about the tables behind the index of SQLite.

    With statistics of a small index, SQLite reads all of a large one for each of its pages.
    """
    if connection.vendor != "sqlite":
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'")
        if cursor.fetchone() is None:
            return
        cursor.execute("DELETE FROM sqlite_stat1 WHERE tbl LIKE %s", [f"{INDEX}%"])
        if cursor.rowcount:
            cursor.execute("ANALYZE sqlite_master")  # every connection reads the statistics again


def _create_progress() -> TextProgress:
    return TextProgress.objects.get_or_create(pk=1, defaults={"through": UUID(int=0), "open": "[]"})[0]


def _index_slice(state: TextProgress, below: UUID, *, recheck: bool) -> TextProgress | None:
    part = progress.read_slice(state, below, SLICE_CALLS, recheck=recheck)
    if part is None:
        return None
    batch: list[tuple[CallText, str]] = []
    characters = 0
    for at in range(0, len(part.ids), READ_CALLS):
        ids = part.ids[at : at + READ_CALLS]
        # Read completely: SQLite begins no transaction while an older state of the database is still being read.
        calls = list(Call.objects.filter(pk__in=ids).order_by("pk").values_list("pk", "body_state", *FIELDS))
        for pk, state_of_body, *values in calls:
            text = make_text(values)
            batch.append((CallText(call_id=pk, text=text), state_of_body))
            characters += len(text)
            if characters > MAX_BATCH_CHARACTERS:
                _add(batch)
                batch, characters = [], 0
    # Texts of a slice that was not finished are there already, and are left as they are.
    with transaction.atomic():
        _add(batch)
        if not progress.advance(state, part.following):
            return None
    return part.following


def _add(batch: list[tuple[CallText, str]]) -> None:
    with transaction.atomic():
        lock()
        # A body that was removed since it was read must not come back.
        states = dict(Call.objects.filter(pk__in=[row.call_id for row, _ in batch]).values_list("pk", "body_state"))
        kept = [row for row, state in batch if states.get(row.call_id) == state]
        CallText.objects.bulk_create(kept, ignore_conflicts=True)


def index_remains(keys: Sequence[UUID]) -> None:
    """Index what is left of calls whose bodies were removed, in that transaction."""
    if exists():
        calls = Call.objects.filter(pk__in=keys).order_by("pk").values_list("pk", *FIELDS)
        texts = [CallText(call_id=pk, text=make_text(values)) for pk, *values in calls]
        CallText.objects.bulk_create(texts, ignore_conflicts=True)


def split(keys: Sequence[UUID]) -> Iterator[list[UUID]]:
    """Yield these calls in batches whose texts one transaction can remove."""
    lengths = CallText.objects.filter(call_id__in=keys).values_list("call_id", Length("text"))
    sizes = dict(lengths)
    batch: list[UUID] = []
    characters = 0
    for key in keys:
        batch.append(key)
        characters += sizes.get(key, 0)
        if characters > MAX_BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


def lock() -> None:
    """Let no other transaction add or remove texts until this one ends. Call it before calls are changed."""
    # SQLite has one writer at a time.
    TextProgress.objects.select_for_update().filter(pk=1).first()


def mark_removal() -> None:
    """Remember, in the transaction that removes texts, that the index still has their pieces."""
    if connection.vendor == "sqlite":
        TextProgress.objects.filter(pk=1).update(removal=DUE)


def purge(seconds: float, pause: Callable[[], None] = lambda: None) -> bool:
    """Rewrite the index of SQLite without removed texts, for about `seconds`. Return True when none is left.

    Whoever removes text meanwhile makes it begin again. On PostgreSQL, autovacuum does this.
    """
    deadline = time.monotonic() + seconds
    while TextProgress.objects.filter(pk=1).exclude(removal="").exists() and exists():
        if time.monotonic() > deadline:
            return False
        began = time.monotonic()
        _merge()
        time.sleep(max(MIN_GAP_SECONDS, time.monotonic() - began))
        pause()
    return True


def _merge() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        state = TextProgress.objects.select_for_update().get(pk=1).removal
        if state == DUE:
            # A negative number takes every part of the index, also what the last merge left alone.
            _merge_pages(cursor, -_MERGE_PAGES)
            rewritten = next(iter(_find_outputs(cursor)), None)
        else:
            rewritten = int(state.removeprefix(RUNNING))
            if not _merge_pages(cursor, _MERGE_PAGES):
                # Calls were added meanwhile. SQLite saw more of their small parts than large ones, and fewer than 4.
                cursor.execute(_CONFIGURE, ["usermerge", 2])
                _merge_pages(cursor, _MERGE_PAGES)
                cursor.execute(_CONFIGURE, ["usermerge", 4])
            if rewritten not in _find_outputs(cursor):
                rewritten = None  # what SQLite merges now are parts without removed texts
        TextProgress.objects.filter(pk=1).update(removal="" if rewritten is None else f"{RUNNING}{rewritten}")


_CONFIGURE = f"INSERT INTO {INDEX} ({INDEX}, rank) VALUES (%s, %s)"  # noqa: S608 - a constant


def _merge_pages(cursor: Any, pages: int) -> bool:
    """Merge about so many pages, and return whether there was something to merge."""
    before = connection.connection.total_changes
    cursor.execute(_CONFIGURE, ["merge", pages])
    # As SQLite documents it: fewer than two changes mean that there is nothing to merge.
    return bool(connection.connection.total_changes - before >= 2)


def _find_outputs(cursor: Any) -> list[int]:
    """Return the numbers of the parts of the index into which SQLite is merging others.

    The first entry of the index has, after 4 bytes, three numbers, of which the first is that of its levels. Each level
    has how many of its parts are being merged, how many it has, and three numbers for each part: the first is its own.
    They are merged into the last part of the next level (https://sqlite.org/fts5.html#fts5_data_structures,
    fts5_index.c).
    """
    cursor.execute(f"SELECT block FROM {INDEX}_data WHERE id = 10")  # noqa: S608 - a constant
    numbers = _read_numbers(bytes(cursor.fetchone()[0])[4:])
    levels, _parts, _writes = next(numbers), next(numbers), next(numbers)
    found, is_merging = [], False
    for _ in range(levels):
        merged, count = next(numbers), next(numbers)
        parts = [(next(numbers), next(numbers), next(numbers)) for _ in range(count)]
        if is_merging and parts:
            found.append(parts[-1][0])
        is_merging = merged > 0
    return found


def _read_numbers(data: bytes) -> Iterator[int]:
    """Yield numbers of 7 bits a byte, the highest first; none of the entry is so large that it has 9 bytes."""
    value = 0
    for byte in data:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            yield value
            value = 0


# --- questions -----------------------------------------------------------------------------------------------------


def coverage() -> Coverage | None:
    """Return what the index covers; None where there is no index or it is still empty."""
    state = TextProgress.objects.filter(pk=1).first()
    if state is None or not exists():
        return None
    return Coverage(state.through, progress.open_ids(state))


def find(term: str, low: UUID | None, high: UUID, limit: int) -> list[UUID] | None:
    """Return the indexed calls with low <= id < high that may contain the text, in no order.

    Return None when they are more than `limit`, when the index cannot answer for this text, or when it takes too long.
    """
    wanted = normalize(term)
    if not wanted:
        return None
    key: Any = CallText._meta.get_field("call_id")
    bounds = [key.get_db_prep_value(low or UUID(int=0), connection), key.get_db_prep_value(high, connection)]
    ask = _ask_sqlite if connection.vendor == "sqlite" else _ask_postgresql
    found = ask(wanted, [*bounds, limit + 1])
    if found is None or len(found) > limit:
        return None
    return [value if isinstance(value, UUID) else UUID(value) for (value,) in found]


def _ask_sqlite(wanted: str, parameters: list[Any]) -> list[tuple[Any]] | None:
    pieces = list(dict.fromkeys(wanted[at : at + 3] for at in range(len(wanted) - 2)))
    pieces = pieces[:: -(-len(pieces) // MAX_PIECES)]
    match = " AND ".join('"{}"'.format(piece.replace('"', '""')) for piece in pieces)
    deadline = time.monotonic() + MAX_QUERY_SECONDS
    with connection.cursor() as cursor:
        driver = connection.connection
        driver.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_CHECKS)
        try:
            # CROSS JOIN: the index is read first, whatever the planner believes.
            cursor.execute(
                f"SELECT t.call_id FROM {INDEX} CROSS JOIN {TABLE} t ON t.id = {INDEX}.rowid"  # noqa: S608
                f" WHERE {INDEX} MATCH %s AND t.call_id >= %s AND t.call_id < %s LIMIT %s",
                [match, *parameters],
            )
            return list(cursor.fetchall())
        except OperationalError as error:
            if "interrupted" in str(error):
                return None
            raise
        finally:
            driver.set_progress_handler(None, 0)


def _ask_postgresql(wanted: str, parameters: list[Any]) -> list[tuple[Any]] | None:
    pattern = "%" + re.sub(r"([\\%_])", r"\\\1", wanted) + "%"
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL statement_timeout = {int(MAX_QUERY_SECONDS * 1000)}")
            cursor.execute(
                f"SELECT call_id FROM {TABLE} WHERE text LIKE %s AND call_id >= %s AND call_id < %s LIMIT %s",  # noqa: S608
                [pattern, *parameters],
            )
            found = list(cursor.fetchall())
            cursor.execute("SET LOCAL statement_timeout TO DEFAULT")
            return found
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            return None
        raise
