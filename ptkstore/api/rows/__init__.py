"""Rows in request bodies: Arrow, Parquet and NDJSON, within bounds."""
