"""Looking for the last refused average of a PTK reads refused ones alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "17"
down_revision = "16"

_REFUSED = sa.text("kind = 'average' AND outcome = 'refused'")


def upgrade() -> None:
    """Add an index of them."""
    op.create_index(
        "job_refused_average",
        "job",
        ["ptk_id", "kind", "outcome", "window_index"],
        sqlite_where=_REFUSED,
        postgresql_where=_REFUSED,
    )
