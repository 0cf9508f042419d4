"""A process that charges a ledger at random until it is killed, and logs what it was told.

A line of the log is written once the answer is there, in one piece: kill -9 loses no line, and a line tells what the
ledger must never forget. Its clock jumps by up to a year at every look.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.application.ledger.charging import release_unopened, reserve_all, spend
from ptkstore.application.ledger.group_commit import GroupCommit
from ptkstore.domain.accounting.accountants import Accountant, Charge
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.jobs import Job, JobKind, JobState, Outcome, job_id
from ptkstore.domain.ledger.journal import BudgetRequest
from ptkstore.domain.ledger.rules import Granted
from ptkstore.domain.streams.blocks import BlockRange, BlockSet
from ptkstore.errors import LateWriter, LeaseLost, NameTaken
from tests.support.builders import LEASE, NOW, PTK, STREAM, stream_named

ACCOUNTANT = Accountant.RENYI
CAPACITY = Loss.capacity(1, 1e-6)
CHARGES = tuple(Charge.pure(ACCOUNTANT, Loss.charge(e, d)) for e, d in ((2e-3, 0), (1e-2, 1e-9), (5e-2, 0)))
POLICY = replace(stream_named().policy, accountant=ACCOUNTANT)
RECENT = 8  # blocks that requests are about
AT_ONCE = 8
LONGEST = 2_000  # entries of a journal, then a new stream begins: who starts anew reads the whole of it
YEAR_SECONDS = 365 * 86_400


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
        self.held: list[Job] = []
        self.turn = self.numbered = 0
        self.stream = STREAM
        self.blocks = 0

    def run(self) -> None:
        """Go on for ever."""
        steps: list[tuple[Callable[[], None], int]] = [
            (self.reserve, 60),
            (self.spend, 20),
            (self.release, 10),
            (self.give_up, 9),
            (self.queue_up, 6),
            (self.claim, 6),
            (self.work, 6),
            (self.grow, 1),
        ]
        kinds, weights = zip(*steps, strict=True)
        with self.catalog.begin() as uow:
            self._turn_to(len(uow.streams.all()) - 1)
        self.grow()
        while True:
            self.draw.choices(kinds, weights)[0]()

    def reserve(self) -> None:
        """New requests, requests made before, in any order."""
        wishes = [self._wish() for _ in range(AT_ONCE)]
        requests = [(wish, {"n": 1}) for wish in wishes]
        answers = self.queue.reserve(self.stream, lambda _: (requests, list))
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
            uow.streams.lock(self.stream)
            reserve_all(uow, self.stream, [(self._wish(), {"n": 1}) for _ in range(3)])

    def queue_up(self) -> None:
        """Leave a reservation to a training, for whoever claims it."""
        if not self.open:
            return
        key = self.draw.choice(list(self.open))
        wish = self.open.pop(key)
        name = f"taxi.{key.replace('.', '_')}"  # one training of a PTK waits for the other
        training = Job(
            job_id(JobKind.TRAIN, name, 0), JobKind.TRAIN, wish.stream, JobState.READY, NOW, window_index=0,
            ptk_id=name, reservation=key,
        )  # fmt: skip
        with self.catalog.begin() as uow:
            uow.jobs.add(training)
            uow.commit()

    def claim(self) -> None:
        """Claim a training that is due by this moment's clock, whether or not somebody still works on it."""
        with self.catalog.begin() as uow:
            now = self._clock()
            due = uow.jobs.due(now, 20)
            job = uow.jobs.claim(self.draw.choice(due), now, LEASE) if due else None
            uow.commit()
        if job is not None:
            self.held.append(job)

    def work(self) -> None:
        """Spend for a training that was claimed some time ago; another one may have claimed it since."""
        if not self.held:
            return
        job = self.held.pop(self.draw.randrange(len(self.held)))
        key = str(job.reservation)
        try:
            with self.catalog.begin() as uow:
                uow.streams.lock(job.stream)
                held = uow.jobs.held(job)
                spend(uow, uow.ledger.history(key)[0], {"n": 1}, POLICY)
                uow.jobs.save(held.ended(Outcome.DONE))
                uow.commit()
        except LeaseLost:
            return
        except LateWriter:  # under a fence that holds nobody else can have spent it
            self._tell("X", key)
            return
        self._tell("S", key)
        self._tell("W", key)

    def grow(self) -> None:
        """Add blocks behind the last one; once the journal is long, go on in the next stream."""
        with self.catalog.begin() as uow:
            uow.streams.lock(self.stream)
            long = uow.ledger.filters(self.stream).sequence >= LONGEST
        if long:
            self._turn_to(self.turn + 1)
            self._begin_stream()
        with self.catalog.begin() as uow:
            uow.streams.lock(self.stream)
            known = uow.ledger.blocks(self.stream)
            self.blocks = known[-1].number + 1 if known else 0
            if not known or self.draw.random() < 0.2:
                new = BlockRange(self.blocks, self.blocks + 4)
                uow.ledger.add_blocks(self.stream, new, CAPACITY, ACCOUNTANT)
                uow.commit()
                self.blocks += 4

    def _turn_to(self, turn: int) -> None:
        self.turn = turn
        self.stream = f"{STREAM}{turn}" if turn else STREAM
        self.asked, self.blocks = [], 0

    def _begin_stream(self) -> None:
        try:
            with self.catalog.begin() as uow:
                uow.streams.add(stream_named(self.stream))
                uow.commit()
        except NameTaken:
            pass  # another writer was as quick

    def _clock(self) -> datetime:
        return NOW + timedelta(seconds=self.draw.uniform(-YEAR_SECONDS, YEAR_SECONDS))

    def _end(self, key: str, kind: str) -> None:
        try:
            with self.catalog.begin() as uow:
                uow.streams.lock(self.open[key].stream)
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
        middle = self.draw.randint(lo + 1, self.blocks)
        further = (middle + 1, middle + 2) if middle + 2 <= self.blocks and self.draw.random() < 0.5 else ()
        self.numbered += 1
        key = f"{self.name}.{self.numbered}"
        blocks, charge = BlockSet((lo, middle, *further)), self.draw.choice(CHARGES)
        wish = BudgetRequest(self.stream, key, PTK, blocks, Loss(1), charge)
        self.asked.append(wish)
        return wish

    def _tell(self, kind: str, key: str) -> None:
        os.write(self.log, f"{kind} {key}\n".encode())


def write(url: str, log: str, name: str, seed: int) -> None:
    """What a process runs."""
    Writer(url, log, name, seed).run()
