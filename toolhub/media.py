"""Media types detected from the first bytes; a type that the sender names is only a claim."""

from __future__ import annotations

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"\x00\x00\x01\x00", "image/x-icon"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"MThd", "audio/midi"),
    (b"#!AMR", "audio/amr"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_FORM = {b"AIFF": "audio/aiff", b"AIFC": "audio/aiff"}
_BRANDS = {
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"mif1": "image/heif",
    b"M4A ": "audio/mp4",
    b"M4B ": "audio/mp4",
}
_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/vnd.microsoft.icon": "image/x-icon",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/mp3": "audio/mpeg",
    "audio/x-flac": "audio/flac",
    "audio/opus": "audio/ogg",
    "audio/x-m4a": "audio/mp4",
    "audio/x-aiff": "audio/aiff",
    "audio/aacp": "audio/aac",
}

DETECTABLE_TYPES = frozenset(
    {*(kind for _, kind in _SIGNATURES), *_RIFF.values(), *_FORM.values(), *_BRANDS.values(), *_ALIASES}
)
"""The types that can be detected from the bytes."""


def kind_of(data: bytes) -> str:
    """Return the MIME type of an image or of audio; "" for anything else."""
    head = bytes(data[:16])
    for start, kind in _SIGNATURES:
        if head.startswith(start):
            return kind
    if head.startswith(b"RIFF"):
        return _RIFF.get(head[8:12], "")
    if head.startswith(b"FORM"):
        return _FORM.get(head[8:12], "")
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "")
    if head.startswith(b"BM") and len(data) >= 26 and head[6:10] == b"\0\0\0\0":
        return "image/bmp"
    return _detect_mpeg(head)


def _detect_mpeg(head: bytes) -> str:
    """Return the type of MPEG audio without a leading tag: eleven set bits, then a layer and a rate that exist."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return ""
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    if layer == 0:
        return "audio/aac" if head[1] & 0xF0 == 0xF0 else ""
    valid = version != 1 and head[2] >> 4 != 15 and head[2] >> 2 & 3 != 3
    return "audio/mpeg" if valid else ""


def matches_type(data: bytes, claimed: str) -> bool:
    """Return whether the bytes have the `claimed` type, an image or audio type."""
    claimed = claimed.partition(";")[0].strip().lower()
    return kind_of(data) == _ALIASES.get(claimed, claimed)
