"""Logged results as a page shows them: what is kept, content by its kind, structured values as facts and tables."""
