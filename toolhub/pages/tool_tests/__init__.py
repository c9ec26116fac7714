"""Test cases of tools in the admin: runs by a button and on save, in the background of the serving process."""
