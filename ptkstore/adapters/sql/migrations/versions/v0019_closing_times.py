"""Windows know when they closed, so that the overview can count those of the last day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "19"
down_revision = "18"


def upgrade() -> None:
    """Add the time; it is not known of windows that have closed."""
    op.add_column("window_", sa.Column("closed_at", sa.BigInteger(), nullable=True))
    op.create_index("window_closed_at", "window_", ["closed_at"])
