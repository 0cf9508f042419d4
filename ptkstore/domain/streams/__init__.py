"""Streams, their policies, windows and blocks."""
