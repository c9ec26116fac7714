"""Replay: what logged calls would be answered under a change of rules, beside what they would be answered without it.

    catalog.replay.walk.replay(before, after, change, days, viewer, *, pause, is_cancelled)

The report comes last; a replay that is cancelled ends without one.
"""
