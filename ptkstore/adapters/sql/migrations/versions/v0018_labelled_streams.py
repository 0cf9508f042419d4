"""Models that devices train may be validated on another stream, which has labelled rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "18"
down_revision = "17"


def upgrade() -> None:
    """Add the name of that stream."""
    op.add_column("ptk", sa.Column("labelled_stream", sa.String(), nullable=True))
    op.create_index("ptk_labelled_stream", "ptk", ["labelled_stream"])
