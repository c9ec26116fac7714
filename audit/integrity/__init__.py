"""Verification of the audit log: links, entries, checkpoints, and the proof of one call."""
