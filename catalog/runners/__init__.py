"""How a tool executes: one folder for each tool type. No module here knows the ORM."""
