"""Admin activity: the actor, the changes, the entry in the hash chain."""
