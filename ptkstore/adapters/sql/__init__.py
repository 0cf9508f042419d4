"""The catalog on SQLite or PostgreSQL."""

from ptkstore.adapters.sql.catalog import SqlCatalog

__all__ = ["SqlCatalog"]
