"""The catalogue as a file: written out whole, read back without loss, compared before anything changes."""
