"""Who may use what, and how often: pure rules on an immutable snapshot of the catalogue."""
