"""`checktools [--json]`: list suggestions for every tool and prompt of the catalogue. They are never errors."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser, no_translations

from catalog.advice import beside
from catalog.advice.prompts import check_prompt
from catalog.advice.tools import check_tool
from catalog.models import Prompt, Tool
from toolhub.invisible import show


class Command(BaseCommand):
    help = "List suggestions for the definitions of tools and prompts, with reasons."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object on one line")

    @no_translations
    def handle(self, *args: Any, **options: Any) -> None:
        tools, prompts = list(Tool.objects.filter(enabled=True)), list(Prompt.objects.filter(enabled=True))
        found = [("tool", tool.name, suggestion) for tool in tools for suggestion in check_tool(tool)]
        found += [("prompt", prompt.name, suggestion) for prompt in prompts for suggestion in check_prompt(prompt)]
        pairs = beside.find_pairs(tools)
        if options["json"]:
            listed = [{"kind": kind, "name": name, **suggestion.as_data()} for kind, name, suggestion in found]
            alike = [{"tools": [pair.one, pair.other], **pair.suggestion.as_data()} for pair in pairs]
            self.stdout.write(json.dumps({"checked": len(tools) + len(prompts), "advice": listed, "pairs": alike}))
            return
        for _, name, suggestion in found:
            self.stdout.write(f"{name}: {show(str(suggestion))}")
        for pair in pairs:
            self.stdout.write(f"{pair.one}: {pair.suggestion}")
        count = len(found) + len(pairs)
        looked = " and ".join(
            f"{number} {word}{'' if number == 1 else 's'}"
            for number, word in ((len(tools), "tool"), (len(prompts), "prompt"))
        )
        self.stdout.write(f"{looked}: {count or 'no'} suggestion{'' if count == 1 else 's'}.")
