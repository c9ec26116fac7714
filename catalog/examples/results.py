"""Results of the examples: a sentence for the model, and the same facts as structured content for programs."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from catalog.functions.content import Structured


def with_sentence(facts: Any, sentence: str, *more: Any) -> Structured:
    """Return the facts (a dataclass) as structured content, and the sentence with further blocks as content."""
    return Structured(TypeAdapter(type(facts)).dump_python(facts, mode="json"), [sentence, *more])
