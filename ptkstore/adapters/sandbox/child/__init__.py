"""The side that reads rows: what a process does that lives for one run."""
