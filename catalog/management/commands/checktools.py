"""`checktools [--json]`: list suggestions for every tool and prompt of the catalogue. They are never errors."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser, no_translations

from catalog import lint
from catalog.models import Prompt, Tool
from toolhub.invisible import show


class Command(BaseCommand):
    help = "List suggestions for the definitions of tools and prompts, with reasons."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object on one line")

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        tools, prompts = list(Tool.objects.filter(enabled=True)), list(Prompt.objects.filter(enabled=True))
        advice = [("tool", tool.name, sentence) for tool in tools for sentence in lint.check_tool(tool)]
        advice += [("prompt", prompt.name, sentence) for prompt in prompts for sentence in lint.check_prompt(prompt)]
        twins = lint.find_similar_pairs((tool.name, tool.description) for tool in tools)
        if options["json"]:
            listed = [{"kind": kind, "name": name, "advice": sentence} for kind, name, sentence in advice]
            alike = [{"tools": [one, other], "advice": why} for one, other, why in twins]
            self.stdout.write(json.dumps({"checked": len(tools) + len(prompts), "advice": listed, "twins": alike}))
            return
        for _, name, sentence in advice:
            self.stdout.write(f"{name}: {show(sentence)}")
        for one, other, why in twins:
            self.stdout.write(f"{one} and {other}: {why}. Say when to use which.")
        count = len(advice) + len(twins)
        looked = " and ".join(
            f"{number} {word}{'' if number == 1 else 's'}"
            for number, word in ((len(tools), "tool"), (len(prompts), "prompt"))
        )
        self.stdout.write(f"{looked}: {count or 'no'} suggestion{'' if count == 1 else 's'}.")
