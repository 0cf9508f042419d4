"""A program that charges a ledger at random until it is killed, and logs what it was told.

`python -m tests.faults.ledger_writer URL LOG NAME SEED`. A line of the log is written once the answer is there, in one
piece: kill -9 loses no line, and a line tells what the ledger must never forget.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from dataclasses import replace

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.application.charging import release_unopened, reserve_all, spend
from ptkstore.application.group_commit import GroupCommit
from ptkstore.domain.accountants import Accountant, Charge
from ptkstore.domain.blocks import BlockRange
from ptkstore.domain.journal import BudgetRequest
from ptkstore.domain.ledger import Granted
from ptkstore.domain.losses import Loss
from ptkstore.errors import LateWriter
from tests.contracts.builders import PTK, STREAM, stream_named

ACCOUNTANT = Accountant.RENYI
CAPACITY = Loss.capacity(1, 1e-6)
CHARGES = tuple(Charge.pure(ACCOUNTANT, Loss.charge(e, d)) for e, d in ((2e-3, 0), (1e-2, 1e-9), (5e-2, 0)))
POLICY = replace(stream_named().policy, accountant=ACCOUNTANT)
RECENT = 8  # blocks that requests are about
AT_ONCE = 8


class Writer:
    """One process; everything it does may be cut off anywhere."""

    def __init__(self, url: str, log: str, name: str, seed: int) -> None:
        self.catalog = SqlCatalog(url)
        self.queue = GroupCommit(self.catalog.begin)
        self.draw = random.Random(seed)
        self.name = name
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self.asked: list[BudgetRequest] = []
        self.open: dict[str, BudgetRequest] = {}
        self.released: set[str] = set()
        self.ever: set[str] = set()
        self.blocks = 0

    def run(self) -> None:
        """Go on for ever."""
        steps: list[tuple[Callable[[], None], int]] = [
            (self.reserve, 60),
            (self.spend, 20),
            (self.release, 10),
            (self.give_up, 9),
            (self.grow, 1),
        ]
        kinds, weights = zip(*steps, strict=True)
        self.grow()
        while True:
            self.draw.choices(kinds, weights)[0]()

    def reserve(self) -> None:
        """New requests, requests made before, in any order."""
        wishes = [self._wish() for _ in range(AT_ONCE)]
        answers = self.queue.reserve_all(STREAM, [(wish, {"n": 1}) for wish in wishes])
        for wish, answer in zip(wishes, answers, strict=True):
            granted = isinstance(answer, Granted)
            if wish.key in self.ever and granted == (wish.key in self.released):
                self._tell("X", wish.key)  # a redelivered grant was refused, or a released one granted
            if granted and wish.key not in self.ever:
                self.open[wish.key] = wish
                self.ever.add(wish.key)
            self._tell("G" if granted else "D", wish.key)

    def spend(self) -> None:
        """Spend a reservation, twice now and then."""
        if self.open:
            key = self.draw.choice(list(self.open))
            self._end(key, "S")
            if self.draw.random() < 0.1:
                self._end(key, self.draw.choice("SR"))
            del self.open[key]

    def release(self) -> None:
        """Release a reservation."""
        if self.open:
            key = self.draw.choice(list(self.open))
            self._end(key, "R")
            del self.open[key]
            self.released.add(key)

    def give_up(self) -> None:
        """Do something and never commit it."""
        with self.catalog.begin() as uow:
            uow.streams.lock(STREAM)
            reserve_all(uow, STREAM, [(self._wish(), {"n": 1}) for _ in range(3)])

    def grow(self) -> None:
        """Add blocks behind the last one."""
        with self.catalog.begin() as uow:
            uow.streams.lock(STREAM)
            known = uow.ledger.blocks(STREAM)
            self.blocks = known[-1].number + 1 if known else 0
            if not known or self.draw.random() < 0.2:
                uow.ledger.add_blocks(STREAM, BlockRange(self.blocks, self.blocks + 4), CAPACITY, ACCOUNTANT)
                uow.commit()
                self.blocks += 4

    def _end(self, key: str, kind: str) -> None:
        try:
            with self.catalog.begin() as uow:
                uow.streams.lock(STREAM)
                held = uow.ledger.history(key)
                if kind == "S":
                    spend(uow, held[0], {"n": 1}, POLICY)
                else:
                    release_unopened(uow, key)
                uow.commit()
        except LateWriter:
            return  # it had ended before
        if len(held) == 1:
            self._tell(kind, key)

    def _wish(self) -> BudgetRequest:
        if self.asked and self.draw.random() < 0.3:
            return self.draw.choice(self.asked[-200:])
        lo = max(0, self.blocks - self.draw.randint(1, RECENT))
        hi = self.draw.randint(lo + 1, self.blocks)
        key = f"{self.name}.{len(self.asked)}"
        wish = BudgetRequest(STREAM, key, PTK, BlockRange(lo, hi), Loss(1), self.draw.choice(CHARGES))
        self.asked.append(wish)
        return wish

    def _tell(self, kind: str, key: str) -> None:
        os.write(self.log, f"{kind} {key}\n".encode())


if __name__ == "__main__":
    Writer(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])).run()
