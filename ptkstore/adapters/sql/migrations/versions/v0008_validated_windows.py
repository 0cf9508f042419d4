"""A release may come from several windows, and a trained state may wait for a verdict."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "8"
down_revision = "7"


def upgrade() -> None:
    """Add columns and a table; what older programs wrote is of one window and waits for nothing."""
    op.add_column("journal", sa.Column("further", sa.Text()))
    op.add_column("job", sa.Column("oldest_window", sa.BigInteger()))
    op.add_column("job", sa.Column("draft_id", sa.String()))
    op.create_table(
        "validation",
        sa.Column("job_id", sa.String(), primary_key=True),
        *(
            sa.Column(name, kind, nullable=False)
            for name, kind in (
                ("ptk_id", sa.String()),
                ("look", sa.BigInteger()),
                ("window_index", sa.BigInteger()),
                ("epsilon", sa.String()),
                ("lost", sa.BigInteger()),
                ("kept", sa.BigInteger()),
                ("verdict", sa.Text()),
                ("at", sa.BigInteger()),
                ("number", sa.BigInteger()),
            )
        ),
        sa.CheckConstraint("look > 0 AND number >= 0"),
    )
    op.create_index("validation_ptk", "validation", ["ptk_id", "window_index"])
