"""Tables that only grow, whoever writes SQL: triggers refuse every other change."""

from __future__ import annotations

from sqlalchemy import DDL, Table, event


def append_only(table: Table, what: str, *, takes_the_place: str) -> None:
    """Have the database refuse to change or delete rows of this table; `what` names it in the message.

    `takes_the_place` says when a row `NEW` would replace one that is there: INSERT OR REPLACE deletes that row and
    tells no DELETE trigger.
    """
    name = table.name
    message = f"{what} is append-only"
    refuse = f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
    replacing = f"WHEN EXISTS (SELECT 1 FROM {name} WHERE {takes_the_place})"  # noqa: S608 - constants
    for statement in (
        f"CREATE TRIGGER {name}_no_update BEFORE UPDATE ON {name} {refuse}",
        f"CREATE TRIGGER {name}_no_delete BEFORE DELETE ON {name} {refuse}",
        f"CREATE TRIGGER {name}_no_replace BEFORE INSERT ON {name} {replacing} {refuse}",
    ):
        _after_create(table, statement, "sqlite")
    _after_create(
        table,
        f"CREATE FUNCTION {name}_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{message}'; END $$; "
        f"CREATE TRIGGER {name}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {name} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {name}_append_only()",
        "postgresql",
    )


def _after_create(table: Table, statement: str, dialect: str) -> None:
    event.listen(table, "after_create", DDL(statement).execute_if(dialect=dialect))  # type: ignore[no-untyped-call]
