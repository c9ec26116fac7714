"""Format of a case file: a ZIP whose manifest names every file with its digest and is signed with the checkpoint key.

The files are lines of JSON. A comment at the end of the ZIP holds a second signature, over every byte before it: so a
change between the files shows as well. Both signatures need only the public key to verify.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

from audit.format import keys

MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest-signature.json"
CALLS: Final = "calls.jsonl"
ACTIVITY: Final = "admin-activity.jsonl"
DEFINITIONS: Final = "definitions.jsonl"
LINKS: Final = "hash-chain.jsonl"
CHECKPOINTS: Final = "checkpoints.jsonl"
PROOF_FILES: Final = (CHECKPOINTS, ACTIVITY, CALLS, LINKS)
"""Files that a verification reads line by line, in this order."""
FORMAT: Final = "toolhub case file 1"
OMITTED_PREFIX: Final = "omitted:sha256:"
"""Instead of a body that was left out: the digest that the hash chain covers."""
CHUNK_BYTES: Final = 65_536
_EARLIEST: Final = (1980, 1, 1, 0, 0, 0)
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def manifest_text(digest: str) -> str:
    """Return the text that the signature of a manifest covers. No checkpoint's digest is such a text."""
    return f"{FORMAT} manifest {digest}"


def archive_text(digest: str) -> str:
    """Return the text that the signature in the comment covers: the digest of every byte before the comment."""
    return f"{FORMAT} archive {digest}"


def sign(text: str) -> bytes:
    """Return this installation's signature of the text."""
    return encode_signature(keys.key_name(), keys.sign(text))


def encode_signature(key: str, signature: str) -> bytes:
    return _encode({"format": FORMAT, "key": key, "signature": signature}).encode()


class _Pipe(io.RawIOBase):
    """What the ZIP was written to and nobody has taken yet, and the digest of every byte so far."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self.size = 0
        self.digest = sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        chunk = bytes(data)
        self._chunks.append(chunk)
        self.size += len(chunk)
        self.digest.update(chunk)
        return len(chunk)

    def take(self) -> bytes:
        chunks, self._chunks, self.size = self._chunks, [], 0
        return b"".join(chunks)


class Archive:
    """A ZIP that is made as it is read, in constant memory."""

    def __init__(self) -> None:
        self._pipe = _Pipe()
        self._zip = zipfile.ZipFile(self._pipe, "w", zipfile.ZIP_DEFLATED)
        self.files: list[dict[str, Any]] = []
        """Name, bytes, SHA-256 and number of lines of each file so far, for the manifest."""

    def add_lines(self, name: str, rows: Iterable[Any]) -> Iterator[bytes]:
        """Add a file with one line of JSON for each row, and yield what is ready of the ZIP."""
        size = lines = 0
        digest = sha256()
        info = zipfile.ZipInfo(name, _EARLIEST)
        info.compress_type = zipfile.ZIP_DEFLATED  # without it, what a ZipInfo describes is stored as it is
        with self._zip.open(info, "w", force_zip64=True) as file:
            for row in rows:
                line = f"{_encode(row)}\n".encode("utf-8", "backslashreplace")
                size, lines = size + len(line), lines + 1
                digest.update(line)
                file.write(line)
                if self._pipe.size >= CHUNK_BYTES:
                    yield self._pipe.take()
        self.files.append({"name": name, "bytes": size, "sha256": digest.hexdigest(), "lines": lines})
        yield self._pipe.take()

    def add_text(self, name: str, text: str) -> Iterator[bytes]:
        """Add a file with this text."""
        data = text.encode()
        self._add(name, data)
        self.files.append({"name": name, "bytes": len(data), "sha256": sha256(data).hexdigest()})
        yield self._pipe.take()

    def close(self, manifest: dict[str, Any]) -> Iterator[bytes]:
        """Add the manifest with the list of the files, sign it and the ZIP, and yield the rest."""
        data = json.dumps({"format": FORMAT, **manifest, "files": self.files}, indent=2, ensure_ascii=False).encode()
        self._add(MANIFEST, data)
        self._add(SIGNATURE, sign(manifest_text(sha256(data).hexdigest())))
        yield self._pipe.take()
        # All signatures have the same length: the end of the ZIP, which states that of its comment, is made with
        # another one first.
        self._zip.comment = sign(archive_text(""))
        digest = self._pipe.digest.copy()
        self._zip.close()
        end = self._pipe.take()[: -len(self._zip.comment)]
        digest.update(end)
        yield end + sign(archive_text(digest.hexdigest()))

    def _add(self, name: str, data: bytes) -> None:
        self._zip.writestr(zipfile.ZipInfo(name, _EARLIEST), data, zipfile.ZIP_DEFLATED)
