"""Try it: a tool run from the admin, as oneself or as somebody else."""
