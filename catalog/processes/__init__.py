"""Child processes of tools: with limits, a supervisor process, and an end that includes all their descendants."""
