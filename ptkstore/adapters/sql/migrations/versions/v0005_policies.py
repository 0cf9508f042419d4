"""Policies join the journal's chain: every stream gets a line that holds the policy it has."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"

_NOT_POLICY = ("name", "team", "columns", "time_column", "added")


def upgrade() -> None:
    """Add the table, and after the last line of each stream's journal the line of its policy."""
    policies = op.create_table(
        "policy",
        sa.Column("stream", sa.String(), primary_key=True),
        sa.Column("sequence", sa.BigInteger(), primary_key=True),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("nonce", sa.String(), nullable=False),
        sa.CheckConstraint("sequence > 0"),
    )
    connection = op.get_bind()
    streams = sa.table("stream", sa.column("name"), sa.column("content"))
    journal = sa.table("journal", sa.column("stream"), sa.column("sequence"), sa.column("digest"))
    for name, content in connection.execute(sa.select(streams.c.name, streams.c.content)).all():
        last = connection.execute(
            sa.select(journal.c.sequence, journal.c.digest)
            .where(journal.c.stream == name)
            .order_by(journal.c.sequence.desc())
            .limit(1)
        ).one_or_none()
        connection.execute(sa.insert(policies), _line(name, content, *(last or (0, "0" * 64))))
    if connection.dialect.name == "sqlite":
        for statement in _SQLITE:
            op.execute(statement)
    else:
        op.execute(_POSTGRESQL)


def _line(stream: str, content: str, sequence: int, previous: str) -> dict[str, Any]:
    policy = {name: value for name, value in json.loads(content).items() if name not in _NOT_POLICY}
    text = json.dumps(policy, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    nonce = secrets.token_hex(16)
    line = json.dumps([previous, stream, sequence + 1, text, nonce], separators=(",", ":"))
    digest = hashlib.sha256(b"ptk-ledger-policy/1\n" + line.encode()).hexdigest()
    return {"stream": stream, "sequence": sequence + 1, "content": text, "digest": digest, "nonce": nonce}


_SQLITE = (
    "CREATE TRIGGER policy_no_update BEFORE UPDATE ON policy "
    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END",
    "CREATE TRIGGER policy_no_delete BEFORE DELETE ON policy "
    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END",
    "CREATE TRIGGER policy_no_replace BEFORE INSERT ON policy WHEN EXISTS (SELECT 1 FROM policy WHERE "
    "stream = NEW.stream AND sequence = NEW.sequence) "
    "BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END",
)
_POSTGRESQL = (
    "CREATE FUNCTION policy_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the journal is append-only'; END $$; "
    "CREATE TRIGGER policy_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON policy "
    "FOR EACH STATEMENT EXECUTE FUNCTION policy_append_only()"
)
