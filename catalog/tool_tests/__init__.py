"""Saved test cases: a run through the call pipeline, and the judgement of its end."""
