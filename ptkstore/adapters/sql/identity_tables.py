"""Tables of teams, tokens, grants, the audit trail and stored answers."""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Table,
    Text,
    event,
)

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

for _operation in ("UPDATE", "DELETE"):  # the trail only grows, whoever writes SQL
    event.listen(
        audit,
        "after_create",
        DDL(  # type: ignore[no-untyped-call]
            f"CREATE TRIGGER audit_no_{_operation.lower()} BEFORE {_operation} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END"
        ).execute_if(dialect="sqlite"),
    )
event.listen(
    audit,
    "after_create",
    # INSERT OR REPLACE deletes what is in its way and tells no DELETE trigger
    DDL(  # type: ignore[no-untyped-call]
        "CREATE TRIGGER audit_no_replace BEFORE INSERT ON audit "
        "WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number) "
        "BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END"
    ).execute_if(dialect="sqlite"),
)
event.listen(
    audit,
    "after_create",
    DDL(  # type: ignore[no-untyped-call]
        "CREATE FUNCTION audit_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit trail is append-only'; END $$; "
        "CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_append_only()"
    ).execute_if(dialect="postgresql"),
)
