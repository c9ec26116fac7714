"""Conditions on arguments: what a grant expects of them, the check of a call, and the narrowed schema of a list."""
