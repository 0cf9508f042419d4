"""Jobs carry the trace that asked for them; endpoints have a health, dead letters a fate."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Add what this schema has and the last one had not."""
    op.add_column("job", sa.Column("trace", sa.String()))
    op.add_column("subscription", sa.Column("failures", sa.BigInteger(), nullable=False, server_default="0"))
    for name in ("failing_since", "last_success", "disabled_at"):
        op.add_column("subscription", sa.Column(name, sa.BigInteger()))
    for name in ("last_code", "disabled_code"):
        op.add_column("subscription", sa.Column(name, sa.String()))
    op.create_index("subscription_ptk", "subscription", ["ptk_id"])
    op.create_table(
        "process",
        sa.Column("role", sa.String(), primary_key=True),
        sa.Column("instance", sa.String(), primary_key=True),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
    )
    op.add_column("dead_letter", sa.Column("told", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("dead_letter", sa.Column("asked_at", sa.BigInteger()))
