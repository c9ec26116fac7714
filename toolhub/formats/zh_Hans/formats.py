"""Formats of this language: those of every language."""

from __future__ import annotations

from toolhub.formats import (
    DATE_FORMAT,
    DATE_INPUT_FORMATS,
    DATETIME_FORMAT,
    DATETIME_INPUT_FORMATS,
    MONTH_DAY_FORMAT,
    SHORT_DATE_FORMAT,
    SHORT_DATETIME_FORMAT,
    TIME_FORMAT,
    TIME_INPUT_FORMATS,
    YEAR_MONTH_FORMAT,
)

__all__ = [
    "DATETIME_FORMAT",
    "DATETIME_INPUT_FORMATS",
    "DATE_FORMAT",
    "DATE_INPUT_FORMATS",
    "MONTH_DAY_FORMAT",
    "SHORT_DATETIME_FORMAT",
    "SHORT_DATE_FORMAT",
    "TIME_FORMAT",
    "TIME_INPUT_FORMATS",
    "YEAR_MONTH_FORMAT",
]
