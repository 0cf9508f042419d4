"""Catalogs of older schemas, as the programs of that time wrote them, with rows in every table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text

from ptkstore.adapters.sql.catalog import open_engine

SCHEMA_3 = Path(__file__).with_name(
    "schema3"
)  # of the last program that had no migrations; two days of its work
NUMBERED = {"audit": "number", "batch": "number", "notice": "number"}  # numbers that PostgreSQL draws


def write_schema_3(url: str) -> None:
    """Fill an empty database."""
    engine = open_engine(url)
    with engine.connect() as connection:
        kind = connection.dialect.name
        script = (SCHEMA_3 / f"{kind}.sql").read_text() + (SCHEMA_3 / "rows.sql").read_text()
        if kind == "sqlite":
            connection.commit()
            connection.connection.cursor().executescript(script)
        else:
            connection.connection.cursor().execute(script)
            for table, column in NUMBERED.items():
                highest = f"(SELECT max({column}) FROM {table})"
                connection.execute(
                    text(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {highest})")
                )
            connection.commit()
    engine.dispose()


def rows_of(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, in a fixed order."""
    return {
        table: sorted(
            (dict(row._mapping) for row in connection.execute(text(f'SELECT * FROM "{table}"'))), key=repr
        )
        for table in inspect(connection).get_table_names()
    }


def shape_of(connection: Connection) -> dict[str, Any]:
    """Tables, columns, keys, checks, indexes, triggers and functions, without the order of columns."""
    seen = inspect(connection)
    shape: dict[str, Any] = {}
    for table in seen.get_table_names():
        shape[table] = {
            "columns": sorted(
                (c["name"], str(c["type"]), c["nullable"], c["default"]) for c in seen.get_columns(table)
            ),
            "key": seen.get_pk_constraint(table)["constrained_columns"],
            "foreign": sorted(map(repr, (_unnamed(k) for k in seen.get_foreign_keys(table)))),
            "unique": sorted(tuple(u["column_names"]) for u in seen.get_unique_constraints(table)),
            "checks": sorted(c["sqltext"] for c in seen.get_check_constraints(table)),
            "indexes": sorted(map(_index, seen.get_indexes(table))),
        }
    if connection.dialect.name == "sqlite":
        guards = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    else:
        guards = (
            "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal "
            "UNION ALL SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        )
    shape["guards"] = sorted(tuple(row) for row in connection.execute(text(guards)))
    return shape


def _index(index: Any) -> str:
    options = {name: str(value) for name, value in index.get("dialect_options", {}).items()}
    return repr({**index, "dialect_options": options})


def _unnamed(key: Any) -> dict[str, Any]:
    return {name: value for name, value in key.items() if name != "name"}
