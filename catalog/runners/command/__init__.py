"""Programs of the server's machine, without a shell."""
