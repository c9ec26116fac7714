"""HTTP APIs: requests made from arguments, responses made into results."""
