"""Who may use what, in the admin: the matrix, bulk changes, one tool."""
