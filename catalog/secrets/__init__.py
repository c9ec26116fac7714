"""Secrets: values that tools use and no page shows again."""
