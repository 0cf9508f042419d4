"""Tables of teams, tokens, grants, the audit trail and stored answers."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Table,
    Text,
)

from ptkstore.adapters.sql.append_only import append_only
from ptkstore.adapters.sql.tables import Instant, metadata

teams = Table(
    "team",
    metadata,
    Column("name", String, primary_key=True),
    Column("at", Instant, nullable=False),
)

tokens = Table(
    "token",
    metadata,
    Column("id", String, primary_key=True),
    Column("team", String, nullable=False),
    Column("label", String, nullable=False),
    Column("scopes", String, nullable=False),  # role,role,... in the order of the roles
    Column("digest", String, nullable=False, unique=True),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Column("revoked_at", Instant),
    ForeignKeyConstraint(["team"], ["team.name"]),
)

grants = Table(
    "grant_",
    metadata,
    Column("team", String, primary_key=True),
    Column("stream", String, primary_key=True),
    Column("role", String, primary_key=True),
)

audit = Table(
    "audit",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("at", Instant, nullable=False),
    Column("request_id", String, nullable=False),
    Column("team", String, nullable=False),
    Column("token_id", String, nullable=False),
    Column("action", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("outcome", String, nullable=False),
    Index("audit_request", "request_id"),
    Index("audit_subject", "subject", "action", "number"),
    sqlite_autoincrement=True,
)

answers = Table(
    "answer",
    metadata,
    Column("team", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("asked", String, nullable=False),
    Column("at", Instant, nullable=False),
    Column("status", Integer, nullable=False),
    Column("content", Text, nullable=False),
    Index("answer_age", "at"),
)

append_only(audit, "the audit trail", takes_the_place="number = NEW.number")
