"""What calls use of limits: rates, quotas, cost units, calls that run at a time, and calls that repeat."""
