"""Policy: access and limits, as pure rules on an immutable snapshot of the catalogue."""
