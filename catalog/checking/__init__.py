"""The rules that stored definitions must keep, one topic a module; refusals name the field."""

from __future__ import annotations
