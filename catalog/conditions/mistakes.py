"""Mistakes in what a grant stores: codes with parameters. `catalog.conditions.words` has the sentences."""

from __future__ import annotations


class Mistake(ValueError):
    """A code with parameters, and the number of the entry that it is about; 0 for the whole list."""

    def __init__(self, code: str, number: int = 0, **params: object) -> None:
        super().__init__(code)
        self.code, self.number, self.params = code, number, params


class ConditionError(Mistake):
    """A mistake in conditions on arguments, or conditions that do not fit a definition."""


class WindowError(Mistake):
    """A mistake in time windows."""


class FlagError(Mistake):
    """A mistake in the names of flags."""
