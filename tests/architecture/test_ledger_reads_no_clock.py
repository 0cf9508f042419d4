"""Clocks may jump: what a block may lose, has reserved and has spent depends on no clock."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

LEDGER = (
    "application/ledger/charging.py",
    "application/ledger/group_commit.py",
    "adapters/sql/ledger/ledger.py",
    "adapters/sql/ledger/projections.py",
    "domain/accounting/accountants.py",
    "domain/ledger/filters.py",
    "domain/ledger/journal.py",
    "domain/ledger/rules.py",
    "domain/accounting/losses.py",
    "domain/accounting/sharing.py",
)
CLOCKS = {"time", "datetime", "Clock"}


def clocks_in(source: str) -> set[str]:
    """The clocks that a module imports, by module or by name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module).partition(".")[0], *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Attribute):
            found |= {"now"} if node.attr in ("now", "current_timestamp") else set()
    return found & {*CLOCKS, "now"}


@pytest.mark.parametrize("module", LEDGER)
def test_the_ledgers_path_reads_no_clock(repository: Path, module: str) -> None:
    assert clocks_in((repository / "ptkstore" / module).read_text()) == set()


@pytest.mark.parametrize(
    "source", ["import time", "from datetime import UTC", "from x import Clock", "y = clock.now()"]
)
def test_a_clock_is_seen(source: str) -> None:
    assert clocks_in(source)
