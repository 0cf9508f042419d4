"""Commands of consumers."""
