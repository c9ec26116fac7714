"""Try it: run a tool from the admin, as oneself or as another user."""
