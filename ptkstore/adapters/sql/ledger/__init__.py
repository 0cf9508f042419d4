"""Blocks and the journal in SQL."""
