"""A PTK waits for an accepted version, and may be given up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "9"
down_revision = "8"


def upgrade() -> None:
    """Add columns; PTKs of older programs have no timeout."""
    op.add_column("ptk", sa.Column("waits_since", sa.BigInteger()))
    op.add_column("ptk", sa.Column("given_up", sa.String()))
