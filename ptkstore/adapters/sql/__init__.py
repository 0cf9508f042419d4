"""The catalog on SQLite or PostgreSQL."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptkstore.adapters.sql.catalog import SqlCatalog

__all__ = ["SqlCatalog"]


def __getattr__(name: str) -> Any:
    """Load the catalog where it is asked for: a shell that completes names needs none of it."""
    if name == "SqlCatalog":
        from ptkstore.adapters.sql.catalog import SqlCatalog

        return SqlCatalog
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
