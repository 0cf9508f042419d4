"""The catalog on SQLite or PostgreSQL."""

from typing import TYPE_CHECKING

from ptklib.lazy import exports

if TYPE_CHECKING:
    from ptkstore.adapters.sql.catalog import SqlCatalog

__all__ = ["SqlCatalog"]

if not TYPE_CHECKING:  # a shell that completes names needs none of it
    __getattr__, __dir__ = exports(__name__, {"SqlCatalog": "catalog"})
