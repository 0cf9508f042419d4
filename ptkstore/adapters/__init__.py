"""Adapters: one room per vendor, each behind a port."""
