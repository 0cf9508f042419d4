"""A PTK may be trained on the same newest window again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "10"
down_revision = "9"


def upgrade() -> None:
    """Add which try a run is, and a notice is about; what older programs wrote is of the first."""
    for table in ("job", "notice"):
        op.add_column(table, sa.Column("look", sa.BigInteger(), nullable=False, server_default="1"))
