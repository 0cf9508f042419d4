"""The ledger as anyone with a database client reads it, and the rules it must keep by itself."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Any

import psycopg

SQLITE = "sqlite:///"
COLUMNS = (
    "stream, sequence, key, kind, ptk_id, lo, hi, further, epsilon_nano, delta_atto, line, charge, event, digest, "
    "nonce"
)
JOURNAL = f"SELECT {COLUMNS} FROM journal ORDER BY stream, sequence"
POLICIES = "SELECT stream, sequence, content, digest, nonce FROM policy ORDER BY stream, sequence"
BLOCKS = "SELECT stream, number, capacity_epsilon_nano, capacity_delta_atto FROM block"


@dataclass(frozen=True)
class Line:
    """One row of the journal."""

    stream: str
    sequence: int
    key: str
    kind: str
    ptk_id: str
    lo: int
    hi: int
    further: str | None
    epsilon_nano: int
    delta_atto: int
    line: str
    charge: str
    event: str
    digest: str
    nonce: str

    @property
    def edges(self) -> tuple[int, ...]:
        """Its blocks, as lo, hi, lo, hi, ..."""
        return (self.lo, self.hi, *json.loads(self.further or "[]"))

    @property
    def blocks(self) -> Iterator[int]:
        """Their numbers."""
        return chain.from_iterable(map(range, self.edges[::2], self.edges[1::2]))

    @property
    def promise(self) -> tuple[Any, ...]:
        """What a spend or a release must repeat of its reservation."""
        return (
            self.stream,
            self.ptk_id,
            self.edges,
            self.epsilon_nano,
            self.delta_atto,
            self.line,
            self.charge,
        )


@dataclass(frozen=True)
class PolicyLine:
    """One row of the policies, which are numbered together with the journal."""

    stream: str
    sequence: int
    content: str
    digest: str
    nonce: str


@dataclass(frozen=True)
class LedgerTables:
    """All rows of the journal, policies among them, and the capacity (epsilon, delta) of each (stream, block)."""

    entries: tuple[Line | PolicyLine, ...]
    capacities: dict[tuple[str, int], tuple[int, int]]

    @property
    def charges(self) -> tuple[Line, ...]:
        """The rows that are no policy."""
        return tuple(line for line in self.entries if isinstance(line, Line))


def read_ledger(database: str) -> LedgerTables:
    """Read both tables in one transaction; `database` is an SQLAlchemy URL."""
    if database.startswith(SQLITE):
        path = database.removeprefix(SQLITE)
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as connection:
            connection.execute("BEGIN")
            return _tables(*(connection.execute(query).fetchall() for query in (JOURNAL, POLICIES, BLOCKS)))
    with psycopg.connect(database.replace("+psycopg", "")) as server:
        server.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        return _tables(*(server.execute(query).fetchall() for query in (JOURNAL, POLICIES, BLOCKS)))


def ledger_faults(ledger: LedgerTables) -> Iterator[tuple[str, str]]:
    """Codes and places: gaps, digests that do not chain, ends without a reservation, overspent blocks."""
    digests: dict[str, str] = defaultdict(lambda: "0" * 64)
    sequences: dict[str, int] = defaultdict(int)
    reserved: dict[str, Line] = {}
    ended: set[str] = set()
    taken: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
    promised: dict[str, tuple[int, int]] = {}
    for line in ledger.entries:
        where = f"{line.stream}/{line.sequence}"
        if line.sequence != sequences[line.stream] + 1:
            yield "journal-gap", where
        if _digest(digests[line.stream], line) != line.digest:
            yield "journal-digest", where
        sequences[line.stream], digests[line.stream] = line.sequence, line.digest
        if isinstance(line, PolicyLine):
            if line.stream in promised:
                yield "policy-changed", where
            promised[line.stream] = tuple(json.loads(line.content)["capacity"])
            continue
        if line.kind == "reserve":
            if line.key in reserved:
                yield "journal-order", f"{where} reserves {line.key} again"
            reserved[line.key] = line
        elif line.key in ended or line.key not in reserved or reserved[line.key].promise != line.promise:
            yield "journal-order", f"{where} ends {line.key}, which is not reserved so"
        else:
            ended.add(line.key)
        sign = {"reserve": 1, "spend": 0, "release": -1}[line.kind]
        for number in line.blocks:
            block = (line.stream, number)
            taken[block][0] += sign * line.epsilon_nano
            taken[block][1] += sign * line.delta_atto
            most = ledger.capacities.get(block, (0, 0))
            if taken[block][0] > most[0] or taken[block][1] > most[1]:
                yield "overspent", f"block {number} of {line.stream} by {where}"
    for (stream, number), capacity in ledger.capacities.items():
        if capacity != promised.get(stream, capacity):
            yield "capacity-changed", f"block {number} of {stream}"


def _tables(entries: list[Any], policies: list[Any], blocks: list[Any]) -> LedgerTables:
    lines = (*(PolicyLine(*row) for row in policies), *(Line(*row) for row in entries))
    return LedgerTables(
        tuple(sorted(lines, key=lambda line: (line.stream, line.sequence))),
        {(stream, number): (epsilon, delta) for stream, number, epsilon, delta in blocks},
    )


def _digest(previous: str, line: Line | PolicyLine) -> str:
    if isinstance(line, PolicyLine):
        text = json.dumps(
            [previous, line.stream, line.sequence, line.content, line.nonce], separators=(",", ":")
        )
        return hashlib.sha256(b"ptk-ledger-policy/1\n" + text.encode()).hexdigest()
    *amounts, charged_delta = json.loads(line.charge)
    content = [
        previous,
        line.stream,
        line.sequence,
        line.key,
        line.kind,
        line.ptk_id,
        line.lo,
        line.hi,
        line.line,
        line.epsilon_nano,
        line.delta_atto,
        amounts,
        charged_delta,
        line.event,
        line.nonce,
        *([json.loads(line.further)] if line.further else []),
    ]
    text = json.dumps(content, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
