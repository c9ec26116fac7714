"""Pages of the signed-in user: tools and personal secrets."""
