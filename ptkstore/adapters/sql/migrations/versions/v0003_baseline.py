"""The schema of the first catalogs that can be upgraded."""

from __future__ import annotations

revision = "3"
down_revision = None


def upgrade() -> None:
    """Do nothing: catalogs of this schema exist."""
