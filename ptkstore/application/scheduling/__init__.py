"""Schedulers: who waits on a stream, and what its strategy proposes."""
