"""The administrators' inbox: requests for access and reported calls."""
