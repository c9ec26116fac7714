"""Python functions of the installation, in the server process or in a child process."""
