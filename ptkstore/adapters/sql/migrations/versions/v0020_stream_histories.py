"""The page of a stream finds its lines of the audit trail, and the PTK that was registered last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "20"
down_revision = "19"


def upgrade() -> None:
    """Add an index on subjects, and the time of registration; nobody knows it of PTKs of older programs."""
    op.create_index("audit_subject", "audit", ["subject", "action", "number"])
    op.add_column("ptk", sa.Column("registered_at", sa.BigInteger(), nullable=True))
