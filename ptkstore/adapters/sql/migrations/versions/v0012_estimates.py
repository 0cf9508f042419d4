"""An estimate may be made on the test sets of several windows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "12"
down_revision = "11"


def upgrade() -> None:
    """Add which windows; estimates of older programs are of one."""
    op.add_column("evaluation", sa.Column("windows", sa.Text()))
