"""Limits that keep the load of one caller from the others."""
