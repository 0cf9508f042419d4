"""Streams keep noisy thresholds, encrypted, and what they answered."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "14"
down_revision = "13"


def upgrade() -> None:
    """Add two tables; no stream of an older program measures significance."""
    op.create_table(
        "threshold",
        sa.Column("stream", sa.String(), primary_key=True),
        sa.Column("window_index", sa.BigInteger(), primary_key=True),
        sa.Column("line", sa.String(), primary_key=True),
        sa.Column("reservation", sa.String(), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
    )
    op.create_table(
        "comparison",
        sa.Column("job_id", sa.String(), primary_key=True),
        sa.Column("ptk_id", sa.String(), nullable=False),
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("window_index", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("above", sa.Integer(), nullable=False),
    )
    op.create_index("comparison_stream", "comparison", ["stream", "window_index"])
