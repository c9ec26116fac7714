"""Access pages of the admin: the matrix, bulk changes, and the access of one tool."""
