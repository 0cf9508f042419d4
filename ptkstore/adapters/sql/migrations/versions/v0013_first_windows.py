"""A PTK that is new knows which windows were surely never read for it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "13"
down_revision = "12"


def upgrade() -> None:
    """Add which window comes first; nobody knows it of PTKs of older programs."""
    op.add_column("ptk", sa.Column("first_window", sa.BigInteger(), nullable=False, server_default="0"))
