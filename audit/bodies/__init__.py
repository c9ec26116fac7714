"""Whole results that are longer than the part in their calls: kept beside the log, and believed by their digest."""
