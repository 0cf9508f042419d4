"""The side that asks for runs: it starts a process for each, and reads no row."""
