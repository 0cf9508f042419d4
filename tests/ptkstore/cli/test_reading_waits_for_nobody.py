"""Commands that only read wait for no writer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cases import case
from tests.support.command_line import CREATE, Line


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Line]:
    """A store whose catalog somebody else is writing to."""
    line = Line(tmp_path / "home")
    line.run(*CREATE)
    writer = sqlite3.connect(tmp_path / "home/catalog.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    yield line
    writer.execute("ROLLBACK")
    writer.close()


@pytest.mark.timeout(50)
def test_it_answers_while_somebody_writes(locked: Line) -> None:
    for command in [
        ("list",),
        ("stream", "list"),
        ("stream", "show", "taxi"),
        ("stream", "recommend", "taxi"),
        ("budget", "taxi"),
        ("budget", "taxi", "--by", "team"),
        ("ledger", "verify"),
        ("notices",),
        ("subscriptions",),
        ("token", "list"),
        ("team", "list"),
        ("audit-log",),
    ]:
        with case(str(command)):
            assert locked.run(*command).exit_code == 0
