"""PTKs of adaptive streams wait for windows, with allowances."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "11"
down_revision = "10"


def upgrade() -> None:
    """Add two tables; no stream of an older program is adaptive."""
    op.create_table(
        "wait",
        sa.Column("ptk_id", sa.String(), primary_key=True),
        sa.Column("stream", sa.String(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("since", "after", "oldest")),
    )
    op.create_index("wait_stream", "wait", ["stream"])
    op.create_table(
        "allowance",
        sa.Column("stream", sa.String(), primary_key=True),
        sa.Column("ptk_id", sa.String(), primary_key=True),
        sa.Column("block", sa.BigInteger(), primary_key=True),
        sa.Column("nano", sa.BigInteger(), nullable=False),
        sa.Column("delta_atto", sa.BigInteger(), nullable=False),
        sa.Column("coordinate", sa.Integer(), nullable=False),
        sa.CheckConstraint("nano >= 0 AND delta_atto >= 0"),
    )
