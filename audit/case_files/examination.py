"""Verification of a case file without a database: signatures, files, and every entry down to a signed checkpoint.

A case file may come from anybody: names, sizes and lines are bounded, nothing is unpacked to the disk, and nothing in
it is believed but what a trusted key signed.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any
from uuid import UUID

from audit.case_files import archive
from audit.format import chain, timestamps
from audit.format.checkpoint import Heads, SignedCheckpoint, read_heads
from audit.format.keys import TrustedKeys
from audit.integrity.links import BODIES, PRUNE_KIND, PRUNE_VERB
from audit.integrity.messages import Problem, problem

MAX_PROBLEMS = 20
MAX_DIRECTORY_BYTES = 20_000
"""Maximum bytes of the list of files in the archive, of which a case file has a dozen."""
MAX_MANIFEST_BYTES = 1_000_000
MAX_LINE_BYTES = 20_000_000
"""A call has at most 64 Ki characters of arguments and of its result; one change may be of a large definition."""
_SIZES = ((b"PK\x05\x06", 12, 4), (b"PK\x06\x06", 40, 8))
"""The records at the end of a ZIP: their mark, and offset and width of the size of the list of files."""
_MAX_END_BYTES = 65_535 + 22 + 20 + 56
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
"""Raised by `zipfile` for damaged, encrypted and unsupported archives."""


@dataclass(slots=True)
class CaseReport:
    """Result of the verification of a case file."""

    problems: list[Problem] = field(default_factory=list)
    manifest: dict[str, Any] = field(default_factory=dict)
    """Empty until its signature was verified."""
    key: str = ""
    """Name of the key that signed the manifest."""
    is_earlier_key: bool = False
    """Whether a newer key is trusted, too: whoever holds an earlier one may have made the file at any time."""
    calls: int = 0
    changes: int = 0

    @property
    def ok(self) -> bool:
        return not self.problems


class _Full(Exception):
    """Signal that the report has enough problems."""


@dataclass(slots=True)
class _Entry:
    """What a call or change says about one of its links."""

    kind: str
    """`call` or `action`."""
    name: str
    kinds: tuple[str, ...]
    """Kinds of the link that fit."""
    content: str
    code: str
    """Code of the problem when the content differs."""


def examine(path: Path, trusted: TrustedKeys) -> CaseReport:
    """Verify a case file against trusted public keys. Raise OSError when the file cannot be read."""
    report = CaseReport()
    with suppress(_Full), path.open("rb") as file:
        try:
            _check_directory(file)
            with zipfile.ZipFile(file) as bundle:
                _examine(bundle, file, trusted, report)
        except (*_UNREADABLE, ValueError, OSError) as error:
            _add(report, [problem("file", path.name, "file_unreadable", error=str(error)[:200])])
    return report


def _examine(bundle: zipfile.ZipFile, file: IO[bytes], trusted: TrustedKeys, report: CaseReport) -> None:
    names = [info.filename for info in bundle.infolist()]
    methods = {info.compress_type for info in bundle.infolist()}
    if len(set(names)) != len(names) or not methods <= {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        _add(report, [problem("file", archive.MANIFEST, "file_names")])
        return
    manifest = _read_manifest(bundle, trusted, report)
    if manifest is None:
        return
    report.manifest = manifest
    _add(report, _check_files(bundle, names, manifest))
    checks = _Checks(bundle, manifest, trusted, report)
    checks.run()
    if not report.problems:
        _add(report, _check_archive(file, bundle.comment, trusted))


def _check_directory(file: IO[bytes]) -> None:
    """Raise BadZipFile when the list of files is long: `zipfile` would read it to its end before it can be counted."""
    length = file.seek(0, 2)
    file.seek(max(0, length - _MAX_END_BYTES))
    end = file.read()
    sizes = [end[at + offset : at + offset + width] for mark, offset, width in _SIZES if (at := end.rfind(mark)) >= 0]
    if any(MAX_DIRECTORY_BYTES < int.from_bytes(size, "little") < (1 << 8 * len(size)) - 1 for size in sizes):
        raise zipfile.BadZipFile("the archive has too many files")


def _add(report: CaseReport, problems: Iterable[Problem]) -> None:
    for one in problems:
        report.problems.append(one)
        if len(report.problems) >= MAX_PROBLEMS:
            raise _Full


def _read_manifest(bundle: zipfile.ZipFile, trusted: TrustedKeys, report: CaseReport) -> dict[str, Any] | None:
    """Return the manifest; None when no trusted key signed it."""
    try:
        data, signature = (_read(bundle, name, MAX_MANIFEST_BYTES) for name in (archive.MANIFEST, archive.SIGNATURE))
    except KeyError as error:
        _add(report, [problem("file", str(error.args[0]), "file_missing")])
        return None
    except (*_UNREADABLE, ValueError):
        _add(report, [problem("file", archive.MANIFEST, "file_changed")])
        return None
    signer = _find_signer(signature, archive.manifest_text(sha256(data).hexdigest()), trusted)
    if isinstance(signer, Problem):
        _add(report, [signer])
        return None
    manifest: dict[str, Any] = json.loads(data)
    report.key = signer
    report.is_earlier_key = report.key != trusted.names[0]
    return manifest


def _read(bundle: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Return a small file. Raise KeyError when there is none, ValueError when it is too large."""
    try:
        info = bundle.getinfo(name)
    except KeyError:
        raise KeyError(name) from None
    with bundle.open(info) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{name} is too large")
    return data


def _find_signer(data: bytes, text: str, trusted: TrustedKeys) -> str | Problem:
    """Return the name of the trusted key that signed the text; a problem when none did."""
    try:
        signed = json.loads(data)
        key, signature = str(signed["key"]), bytes.fromhex(signed["signature"]).hex()
    except (ValueError, KeyError, TypeError, RecursionError):
        return problem("file", archive.SIGNATURE, "file_changed")
    if data != archive.encode_signature(key, signature):  # no byte can be another one, whatever it means
        return problem("file", archive.SIGNATURE, "file_changed")
    if trusted.find_rank(key) is None:
        return problem("file", archive.MANIFEST, "checkpoint_key", key=key[:64], trusted=", ".join(trusted.names))
    if not trusted.verify(key, text, signature):
        return problem("file", archive.MANIFEST, "file_signature")
    return key


def _check_archive(file: IO[bytes], comment: bytes, trusted: TrustedKeys) -> Iterator[Problem]:
    """Yield a problem when the bytes between the files, which no digest in the manifest covers, were changed."""
    left = file.seek(0, 2) - len(comment)
    file.seek(0)
    digest = sha256()
    while left > 0 and (chunk := file.read(min(left, archive.CHUNK_BYTES))):
        digest.update(chunk)
        left -= len(chunk)
    if isinstance(_find_signer(comment, archive.archive_text(digest.hexdigest()), trusted), Problem):
        yield problem("file", archive.MANIFEST, "archive_changed")


def _check_files(bundle: zipfile.ZipFile, names: list[str], manifest: dict[str, Any]) -> Iterator[Problem]:
    listed = {one["name"]: one for one in manifest["files"]}
    for name in names:
        if name not in listed and name not in {archive.MANIFEST, archive.SIGNATURE}:
            yield problem("file", name[:200], "file_added")
    for name, one in listed.items():
        if name not in names:
            yield problem("file", name, "file_missing")
        elif not _has_digest(bundle, name, one["bytes"], one["sha256"]):
            yield problem("file", name, "file_changed")


def _has_digest(bundle: zipfile.ZipFile, name: str, size: int, expected: str) -> bool:
    digest = sha256()
    try:
        with bundle.open(name) as file:
            while size >= 0 and (chunk := file.read(archive.CHUNK_BYTES)):
                size -= len(chunk)
                digest.update(chunk)
    except _UNREADABLE:
        return False
    return size == 0 and digest.hexdigest() == expected


class _Checks:
    """Verification of the entries of a case file."""

    def __init__(
        self, bundle: zipfile.ZipFile, manifest: dict[str, Any], trusted: TrustedKeys, report: CaseReport
    ) -> None:
        self._bundle, self._trusted, self._report = bundle, trusted, report
        self._has_bodies = bool(manifest["bodies"])
        self._sizes = {one["name"]: int(one["bytes"]) for one in manifest["files"]}
        self._heads: dict[int, Heads] = {}
        """Number of a checkpoint -> its heads."""
        self._entries: dict[int, _Entry] = {}
        """Id of a link -> what its call or change says."""
        self._pruned: list[UUID] = []
        """Calls whose bodies retention removed; compared with the limits of logged removals at the end."""
        self._limits: list[tuple[int, str]] = []
        """(id of the link, limit) of logged removals of bodies."""
        self._proven: set[int] = set()

    def run(self) -> None:
        for name, check in (
            (archive.CHECKPOINTS, self._read_checkpoint),
            (archive.ACTIVITY, self._read_action),
            (archive.CALLS, self._read_call),
        ):
            for number, line in self._read_lines(name):
                try:
                    _add(self._report, check(line))
                except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
                    _add(self._report, [problem("file", name, "line_unreadable", line=str(number))])
        self._read_links()
        missing = [entry for link_id, entry in sorted(self._entries.items()) if link_id not in self._proven]
        for entry in missing:
            code = "call_added" if entry.kind == "call" else "change_added"
            _add(self._report, [problem(entry.kind, entry.name, code)])
        furthest = max((limit for link_id, limit in self._limits if link_id in self._proven), default="")
        _add(self._report, (problem("call", id, "bodies_removed") for id in self._pruned if id.hex >= furthest))

    def _read_lines(self, name: str) -> Iterator[tuple[int, Any]]:
        """Yield (number, value) of each line that can be read. A file that cannot be read was reported before."""
        number, left = 0, self._sizes.get(name, 0)
        try:
            with self._bundle.open(name) as file:
                # Of a file that was replaced, no more is read than the manifest lists.
                while text := file.readline(min(MAX_LINE_BYTES, left)):
                    number, left = number + 1, left - len(text)
                    try:
                        value = json.loads(text)
                    except (ValueError, RecursionError):
                        _add(self._report, [problem("file", name, "line_unreadable", line=str(number))])
                        continue
                    yield number, value
        except (*_UNREADABLE, KeyError):
            return

    def _read_checkpoint(self, line: Any) -> Iterator[Problem]:
        signed = SignedCheckpoint.parse(json.dumps(line))
        if not signed.is_signed_by(self._trusted):
            yield problem("checkpoint", signed.number, "checkpoint_signature")
            return
        self._heads[signed.number] = read_heads(signed.heads)

    def _read_action(self, line: Any) -> Iterator[Problem]:
        self._report.changes += 1
        id = UUID(line["id"])
        texts = [line[name] for name in ("actor", "verb", "kind", "target", "before", "after")]
        content = chain.content([id.hex, _to_ms(line["at"]), *texts])
        yield from self._expect(line["link"], _Entry("action", str(id), (chain.ACTION,), content, "edited"))
        if (line["verb"], line["kind"]) == (PRUNE_VERB, PRUNE_KIND):
            after = json.loads(line["after"])
            if after.get("what") == BODIES:
                self._limits.append((int(line["link"]), str(after["before"])))

    def _read_call(self, line: Any) -> Iterator[Problem]:
        self._report.calls += 1
        id = UUID(line["id"])
        values = [line[name] for name in (*chain.BEGIN_COLUMNS, *chain.END_COLUMNS)]
        values[0] = id.hex
        values[chain.STARTED_INDEX] = _to_ms(line["started_at"])
        values[chain.END_OFFSET + chain.ENDED_INDEX] = None if line["ended_at"] is None else _to_ms(line["ended_at"])
        is_pruned = line["body_state"] == "pruned"
        for at in (chain.ARGUMENTS_INDEX, chain.END_OFFSET + chain.RESULT_INDEX):
            values[at] = self._digest(values[at], is_pruned)
        if is_pruned:
            self._pruned.append(id)
        begin, end = line["link"], line["end_link"]
        if line["writer"] != chain.split_link_id(begin)[0]:
            yield problem("call", id, "writer_changed")
        if begin == end:
            content = chain.call_content(chain.REFUSED, values)
            yield from self._expect(begin, _Entry("call", str(id), (chain.REFUSED,), content, "edited"))
            return
        content = chain.call_content(chain.BEGIN, values)
        yield from self._expect(begin, _Entry("call", str(id), (chain.BEGIN,), content, "start_edited"))
        if end is not None:
            content = chain.call_content(chain.FINISH, values)
            kinds = (chain.FINISH, chain.CLOSED)
            yield from self._expect(end, _Entry("call", str(id), kinds, content, "end_edited"))
        elif line["outcome"] != "running":
            yield problem("call", id, "end_not_logged")

    def _digest(self, body: str, is_pruned: bool) -> str:
        if is_pruned and body.startswith(chain.PRUNED_PREFIX):
            return body[len(chain.PRUNED_PREFIX) :]
        if not self._has_bodies and body.startswith(archive.OMITTED_PREFIX):
            return body[len(archive.OMITTED_PREFIX) :]
        return chain.body_digest(body)

    def _expect(self, link_id: Any, entry: _Entry) -> Iterator[Problem]:
        if not isinstance(link_id, int) or self._entries.setdefault(link_id, entry) is not entry:
            yield problem(entry.kind, entry.name, "link_changed")

    def _read_links(self) -> None:
        """Walk each part of a hash chain, and compare its end with the checkpoint that it leads to."""
        part: _Part | None = None
        for number, line in self._read_lines(archive.LINKS):
            try:
                if isinstance(line, dict):
                    self._finish(part)
                    part = _Part.parse(line)
                elif part is None:
                    raise ValueError("a link outside of a part")
                else:
                    kind, subject, content = line
                    link_id = part.add(str(kind), str(subject), str(content))
                    if link_id in self._entries:
                        self._compare(self._entries[link_id], str(kind), str(subject), str(content))
                        part.entries.append(link_id)
            except (KeyError, TypeError, ValueError, OverflowError):
                _add(self._report, [problem("file", archive.LINKS, "line_unreadable", line=str(number))])
        self._finish(part)

    def _compare(self, entry: _Entry, kind: str, subject: str, content: str) -> None:
        if subject != UUID(entry.name).hex or kind not in entry.kinds:
            _add(self._report, [problem(entry.kind, entry.name, "link_changed")])
        elif content != entry.content:
            _add(self._report, [problem(entry.kind, entry.name, entry.code)])

    def _finish(self, part: _Part | None) -> None:
        """Note the entries of a part as proven when it leads to its checkpoint."""
        if part is None:
            return
        if part.checkpoint is None:
            # The installation signs a checkpoint of all that it logged before it writes this file.
            entries = (self._entries[link_id] for link_id in part.entries)
            _add(self._report, (problem(entry.kind, entry.name, "not_covered") for entry in entries))
        elif self._heads.get(part.checkpoint, {}).get(part.writer) != (part.sequence, part.hash):
            name = f"{part.writer}:{part.sequence}"
            _add(self._report, [problem("link", name, "part_differs", checkpoint=str(part.checkpoint))])
            for link_id in part.entries:
                del self._entries[link_id]  # reported with the part
            return
        self._proven.update(part.entries)


class _Part:
    """A part of one hash chain, and its end so far."""

    def __init__(self, writer: int, sequence: int, previous: str, checkpoint: int | None) -> None:
        self.writer, self.sequence, self.checkpoint = writer, sequence, checkpoint
        self.hash = previous
        self.entries: list[int] = []

    @classmethod
    def parse(cls, line: dict[str, Any]) -> _Part:
        """Return the part that a line begins. Raise KeyError, ValueError, TypeError or OverflowError for others."""
        checkpoint = line["checkpoint"]
        number = None if checkpoint is None else int(checkpoint)
        return cls(int(line["writer"]), int(line["first"]) - 1, str(line["previous"] or ""), number)

    def add(self, kind: str, subject: str, content: str) -> int:
        """Append a link and return its id."""
        self.sequence += 1
        self.hash = chain.link_hash(self.writer, self.sequence, self.hash, kind, subject, content)
        return chain.link_id(self.writer, self.sequence)


def _to_ms(text: str) -> int:
    return timestamps.to_ms(datetime.fromisoformat(text))
