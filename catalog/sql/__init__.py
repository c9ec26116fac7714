"""Reading databases that the settings name: one fixed statement at a time, bounded, and nothing but reading."""
