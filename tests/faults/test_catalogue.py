"""The list of faults fits the code: `python -m tests.faults` plants them, which takes too long for every run."""

from __future__ import annotations

import pytest

from tests.faults.__main__ import ROOT
from tests.faults.catalogue import FAULTS, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.promise.replace(" ", "-"))
def test_every_fault_can_be_planted_in_one_place(fault: Fault) -> None:
    assert (ROOT / fault.path).read_text(encoding="utf-8").count(fault.old) == 1
    assert fault.old != fault.new
    for name in fault.tests.split(" -k ")[0].split():
        assert (ROOT / name).exists(), name
