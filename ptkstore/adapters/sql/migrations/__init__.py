"""Revisions of the catalog's schema, one module each; Alembic finds and orders them."""
