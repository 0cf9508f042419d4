"""A release may come from several windows: blocks in more than one range, and jobs with a first window."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "8"
down_revision = "7"


def upgrade() -> None:
    """Add the columns; what older programs wrote is of one window, and leaves them empty."""
    op.add_column("journal", sa.Column("further", sa.Text()))
    op.add_column("job", sa.Column("oldest_window", sa.BigInteger()))
