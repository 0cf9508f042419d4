"""Reads versions: lookups of the service, and what a consumer needs for their own."""
