"""Waits are kept after they ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "16"
down_revision = "15"


def upgrade() -> None:
    """Add a table, with the waits of PTKs that were given up; nothing says when that was."""
    op.create_table(
        "ended_wait",
        sa.Column("ptk_id", sa.String(), primary_key=True),
        sa.Column("since", sa.BigInteger(), primary_key=True),
        sa.Column("stream", sa.String(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("how", sa.String(), nullable=False),
    )
    op.create_index("ended_wait_stream", "ended_wait", ["stream", "since"])
    op.execute(
        "INSERT INTO ended_wait (ptk_id, since, stream, how) "
        "SELECT wait.ptk_id, wait.since, wait.stream, ptk.given_up FROM wait JOIN ptk ON ptk.ptk_id = wait.ptk_id "
        "WHERE ptk.given_up IS NOT NULL"
    )
