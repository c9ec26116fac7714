"""Review of changed definitions: what differs, what is dangerous about it, and decisions that can be undone.

`catalog.quarantine` keeps the state of one item; this package is what its reviewers see and do.
"""
