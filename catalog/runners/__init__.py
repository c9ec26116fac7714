"""The runners: one folder for each tool type. No module here imports the ORM."""
