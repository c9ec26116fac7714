"""Results of the examples: a sentence for the model, and the same facts as structured content for programs."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, TypeAdapter

from catalog.functions.content import Structured


class Facts:
    """A base of dataclasses: the text below a field is its description in the output schema."""

    __slots__ = ()
    __pydantic_config__ = ConfigDict(use_attribute_docstrings=True)


def with_sentence(facts: Any, sentence: str, *more: Any) -> Structured:
    """Return the facts (a dataclass) as structured content, and the sentence with further blocks as content."""
    return Structured(TypeAdapter(type(facts)).dump_python(facts, mode="json"), [sentence, *more])
