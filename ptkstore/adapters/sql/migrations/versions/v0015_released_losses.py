"""Streams keep the noisy losses that they released."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "15"
down_revision = "14"


def upgrade() -> None:
    """Add a table; no stream of an older program releases losses."""
    op.create_table(
        "released_loss",
        sa.Column("job_id", sa.String(), primary_key=True),
        sa.Column("ptk_id", sa.String(), nullable=False),
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("window_index", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("noisy", sa.Double(), nullable=True),
    )
    op.create_index("released_loss_stream", "released_loss", ["stream", "window_index"])
