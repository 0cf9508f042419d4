"""Subscriptions have a history of the attempts at their deliveries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "21"
down_revision = "20"


def upgrade() -> None:
    """Add the table of attempts, and the count that numbers them."""
    op.add_column("subscription", sa.Column("attempts", sa.BigInteger(), nullable=False, server_default="0"))
    op.create_table(
        "attempt",
        sa.Column("subscription_id", sa.String(), primary_key=True),
        sa.Column("sequence", sa.BigInteger(), primary_key=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("redelivered", sa.Integer(), nullable=False),
        sa.Column("code", sa.String()),
        sa.Column("status", sa.Integer()),
        sa.Column("milliseconds", sa.BigInteger()),
    )
    op.create_index("attempt_at", "attempt", ["at"])
