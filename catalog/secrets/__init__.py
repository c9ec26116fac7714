"""Values that tools use and nobody sees again."""
