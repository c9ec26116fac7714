"""What administrators did: the actor, the differences, the entry in the hash chain."""
