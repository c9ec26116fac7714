"""The catalogue as a file: exported completely, imported without loss, compared before anything changes."""
