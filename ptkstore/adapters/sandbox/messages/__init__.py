"""Messages between parent, child and team code."""
