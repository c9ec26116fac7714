"""The search of the admin: everything that one person may open, by name or by id."""
