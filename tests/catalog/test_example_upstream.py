"""The example upstream that quickstart adds: switched on only where its program may be started, and never started."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.examples import catalogue
from catalog.models import Tool, Upstream
from catalog.processes import allowlist, launch


@pytest.mark.django_db
@pytest.mark.parametrize(("listed", "there"), [(False, True), (True, False), (True, True)])
def test_it_is_on_only_where_npx_is_listed_and_there(
    listed: bool, there: bool, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.COMMANDS = ["npx"] if listed else []
    monkeypatch.setattr(allowlist, "programs", lambda: {"npx": "/usr/bin/npx"} if listed and there else {})
    catalogue.load()
    made = Upstream.objects.get(name="everything")
    assert made.enabled is (listed and there)
    assert not Tool.objects.filter(origin=made.origin).exists() and launch.count_running() == 0
    standing = catalogue.upstream_state()
    assert standing is not None and standing[0] == made.pk
    assert (standing[1] == "") is made.enabled and ("comes with Node" in standing[1]) is not made.enabled
    made.enabled, made.prefix = False, "mine"
    made.save()
    catalogue.load()  # a later run changes nothing that a person decided
    assert Upstream.objects.values_list("enabled", "prefix").get(name="everything") == (False, "mine")
    standing = catalogue.upstream_state()
    assert standing is not None and (standing[1] == "It is switched off.") is (listed and there)
    made.delete()
    assert catalogue.upstream_state() is None
