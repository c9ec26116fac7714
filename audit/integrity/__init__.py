"""The hash chain verified: links, entries, checkpoints, and the proof of one call."""
