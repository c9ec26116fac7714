"""Replay: what logged calls would be answered under a change of rules, beside what they would be answered without it.

    replay(before, after, change, days, viewer, *, pause, is_cancelled) -> Iterator[Progress | Report]

The report comes last; a replay that is cancelled ends without one.
"""
