"""One suite per port, run on every vendor behind it."""
