"""Policy: access and rate limits, as pure rules on an immutable snapshot of the catalogue."""
