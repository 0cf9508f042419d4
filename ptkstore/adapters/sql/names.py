"""Names in a catalog, of a file in milliseconds: for a shell that completes what is typed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

_PATIENCE_SECONDS: Final = 0.2
_MOST: Final = 1_000

_QUERIES: Final = {
    "stream": "SELECT name FROM stream ORDER BY name LIMIT :most",
    "ptk": "SELECT ptk_id FROM ptk WHERE active = 1 ORDER BY ptk_id LIMIT :most",
    "version": "SELECT 'v' || number FROM version WHERE ptk_id = :ptk_id ORDER BY number DESC LIMIT :most",
    "subscription": "SELECT id FROM subscription ORDER BY id LIMIT :most",
    "team": "SELECT name FROM team ORDER BY name LIMIT :most",
    "token": "SELECT id FROM token WHERE revoked_at IS NULL ORDER BY id LIMIT :most",
}


def names_in_file(file: Path, kind: str, ptk_id: str = "") -> list[str]:
    """List the names of a kind, of versions those of one PTK; `sqlite3.Error` if the file is no catalog of today."""
    uri = f"{file.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE_SECONDS)) as connection:
        rows = connection.execute(_QUERIES[kind], {"ptk_id": ptk_id, "most": _MOST})
        return [str(row[0]) for row in rows]


def names_on_server(database_url: str, kind: str, ptk_id: str = "") -> list[str]:
    """List the same of a catalog on a server; an error of the driver where it does not answer."""
    from sqlalchemy import create_engine, make_url, text  # loads slowly

    url = make_url(database_url).set(drivername="postgresql+psycopg")
    engine = create_engine(url, hide_parameters=True, connect_args={"connect_timeout": 2})
    try:
        with engine.connect() as connection:
            rows = connection.execute(text(_QUERIES[kind]), {"ptk_id": ptk_id, "most": _MOST})
            return [str(row[0]) for row in rows]
    finally:
        engine.dispose()
