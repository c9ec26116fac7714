"""axe-core in a page: what would keep somebody from reading or using it."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.clients.installed import npm_packages

VERSION = "4.14.1"
SEVERE = ["serious", "critical"]
RUN = """async ([rules, exclude]) => {
  const options = {resultTypes: ["violations"], elementRef: false};
  if (rules) options.runOnly = {type: "rule", values: rules};
  const found = await axe.run({exclude: exclude.map(selector => [selector])}, options);
  return found.violations.filter(one => ["serious", "critical"].includes(one.impact)).map(one => [
    one.id, one.help, one.nodes.map(node => node.target.join(" ") + "  " + node.html.slice(0, 200)
      + "  " + (node.any[0] ? node.any[0].message : ""))]);
}"""

THEIRS: tuple[str, ...] = ()
"""Selectors of the theme's own parts that cannot be mended from outside, each with its reason."""


@cache
def source() -> str:
    """The script; skips the test where npm cannot bring it."""
    folder = npm_packages(f"axe-core@{VERSION}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def find_violations(page: Any, rules: list[str] | None = None) -> list[str]:
    """Serious and critical ones, with the elements that they are about; only of these rules when some are given."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(source())
    where = page.url.split("/", 3)[3]
    return [
        f"/{where}: {rule} ({help}): {node}"
        for rule, help, nodes in page.evaluate(RUN, [rules, list(THEIRS)])
        for node in nodes
    ]
