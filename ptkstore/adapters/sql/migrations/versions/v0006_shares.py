"""Workers are shared between teams, and looking for due work reads unfinished jobs alone."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = "5"

_UNFINISHED = sa.text("state IN ('ready', 'opened')")
_LEASED = sa.text("lease_until IS NOT NULL")


def upgrade() -> None:
    """Add what this schema has and the last one had not."""
    op.add_column("ptk", sa.Column("own_code", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("job", sa.Column("share", sa.String(), nullable=False, server_default=""))
    op.create_index("job_window", "job", ["stream", "kind", "window_index"])
    for name, first in (("job_unfinished_ptk", "ptk_id"), ("job_unfinished_window", "stream")):
        op.create_index(
            name,
            "job",
            [first, "kind", "window_index"],
            sqlite_where=_UNFINISHED,
            postgresql_where=_UNFINISHED,
        )
    op.create_index("job_leased", "job", ["lease_until"], sqlite_where=_LEASED, postgresql_where=_LEASED)
    op.create_table(
        "turn",
        sa.Column("share", sa.String(), primary_key=True),
        sa.Column("number", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "removed_job",
        sa.Column("kind", sa.String(), primary_key=True),
        sa.Column("outcome", sa.String(), primary_key=True),
        sa.Column("count", sa.BigInteger(), nullable=False),
    )
    _fill_in(op.get_bind())


def _fill_in(connection: sa.Connection) -> None:
    """Say of each PTK whether team code trains it, and of each job whose share it takes."""
    ptk = sa.table("ptk", sa.column("ptk_id"), sa.column("content"), sa.column("own_code"), sa.column("team"))
    job = sa.table("job", sa.column("ptk_id"), sa.column("stream"), sa.column("share"))
    for row in connection.execute(sa.select(ptk.c.ptk_id, ptk.c.content, ptk.c.team)).all():
        if json.loads(row.content)["estimator"].get("family") == "TeamCode":
            connection.execute(sa.update(ptk).where(ptk.c.ptk_id == row.ptk_id).values(own_code=1))
        connection.execute(sa.update(job).where(job.c.ptk_id == row.ptk_id).values(share=row.team))
    connection.execute(
        sa.update(job).where(job.c.ptk_id.is_(None)).values(share=sa.literal("stream ") + job.c.stream)
    )
    connection.execute(
        sa.insert(sa.table("meta", sa.column("name"), sa.column("value"))).values(name="claims", value="")
    )
