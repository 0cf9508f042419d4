"""Random walks over the ledger with crashes: nothing overspent, nothing lost, nothing refused that was granted."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ptkstore.adapters.sql import SqlCatalog
from ptkstore.application.ledger.charging import release_unopened, reserve_all, spend
from ptkstore.domain.accounting.accountants import Accountant, Charge, caps_of
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.ledger.filters import Filters
from ptkstore.domain.ledger.journal import BudgetRequest, EntryKind
from ptkstore.domain.ledger.rules import Denied, Granted, verify
from ptkstore.domain.streams.blocks import BlockRange, BlockState
from tests.support.builders import PTK, STREAM, block_set, stream_named

LINES = {"common": Loss.capacity(0.7, 1e-6), "ptk taxi.speed": Loss.capacity(0.3, 1e-6)}
WHOLE = Loss.capacity(1, 2e-6)
ACCOUNTANTS = {
    Accountant.BASIC: [Charge.basic(Loss.charge(e, d)) for e, d in ((0.05, 0), (0.2, 3e-7), (0.6, 0))],
    Accountant.RENYI: [
        *(Charge.pure(Accountant.RENYI, Loss.charge(e, d)) for e, d in ((0.05, 0), (0.2, 2e-7))),
        Charge.of((*(order * 1e-3 for order in range(1, 16)), float("inf")), 0.0),
    ],
}
POLICY = stream_named().policy


class LedgerMachine(RuleBasedStateMachine):
    """Two processes on one database, and a model that adds up slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-machine-"))
        self.url = f"sqlite:///{self.folder / 'catalog.db'}"
        self.catalogs = [SqlCatalog(self.url), SqlCatalog(self.url)]
        self.granted: dict[str, BudgetRequest] = {}
        self.ended: dict[str, EntryKind] = {}
        self.denied: dict[str, BudgetRequest] = {}
        self.active: set[int] = set()
        self.blocks = self.asked = 0

    @initialize(accountant=st.sampled_from(list(ACCOUNTANTS)))
    def create(self, accountant: Accountant) -> None:
        self.accountant = accountant
        with self.catalogs[0].begin() as uow:
            uow.streams.add(stream_named())
            uow.commit()
        self.grow(0)

    # what the world does

    @rule(process=st.integers(0, 1))
    def grow(self, process: int) -> None:
        new = BlockRange(self.blocks, self.blocks + 2)
        with self.catalogs[process].begin() as uow:
            uow.streams.lock(STREAM)
            uow.ledger.add_blocks(STREAM, new, WHOLE, self.accountant, LINES)
            uow.commit()
        self.active.update(new.numbers())
        self.blocks += 2

    @rule(data=st.data(), process=st.integers(0, 1), n=st.integers(1, 4), lost=st.booleans())
    def reserve(self, data: Any, process: int, n: int, lost: bool) -> None:
        """Some new requests and some that were made before; now and then the transaction is cut off."""
        wishes = [self._wish(data) for _ in range(n)]
        with self.catalogs[process].begin() as uow:
            uow.streams.lock(STREAM)
            answers = reserve_all(uow, STREAM, [(wish, {"n": 1}) for wish in wishes])
            if lost:
                return
            uow.commit()
        for wish, answer in zip(wishes, answers, strict=True):
            self._learn(wish, answer)

    @precondition(lambda self: self._open())
    @rule(
        data=st.data(),
        process=st.integers(0, 1),
        kind=st.sampled_from(["spend", "release"]),
        lost=st.booleans(),
    )
    def end(self, data: Any, process: int, kind: str, lost: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self._open())))
        with self.catalogs[process].begin() as uow:
            uow.streams.lock(STREAM)
            (held,) = uow.ledger.history(key)
            if kind == "spend":
                spend(uow, held, {"n": 1}, replace(POLICY, accountant=self.accountant))
            else:
                release_unopened(uow, key)
            if lost:
                return
            uow.commit()
        self.ended[key] = EntryKind(kind)

    @rule(process=st.integers(0, 1))
    def crash(self, process: int) -> None:
        """A process forgets everything that is not in the database."""
        self.catalogs[process].close()
        self.catalogs[process] = SqlCatalog(self.url)

    @precondition(lambda self: self.active)
    @rule(data=st.data(), process=st.integers(0, 1), state=st.sampled_from(["retire", "erase"]))
    def close_block(self, data: Any, process: int, state: str) -> None:
        number = data.draw(st.sampled_from(sorted(self.active)))
        with self.catalogs[process].begin() as uow:
            uow.streams.lock(STREAM)
            if state == "retire":
                uow.ledger.retire(STREAM, [number])
            else:
                uow.ledger.erase(STREAM, BlockRange(number, number + 1))
            uow.commit()
        self.active.discard(number)

    # what must hold

    @invariant()
    def nothing_is_overspent_and_nothing_is_lost(self) -> None:
        for catalog in self.catalogs:
            with catalog.begin() as uow:
                journal = uow.ledger.journal(STREAM)
                records, _ = uow.ledger.created(STREAM)
                views = uow.ledger.blocks(STREAM)
            assert verify(records, journal) == ()
            assert views == Filters.of(records, journal).views()
            assert {e.key: e.request for e in journal if e.kind is EntryKind.RESERVE} == self.granted
            assert {e.key: e.kind for e in journal if e.kind is not EntryKind.RESERVE} == self.ended
            self.active = {v.number for v in views if v.state is BlockState.ACTIVE}
        for number in range(self.blocks):
            for line, capacity in LINES.items():
                assert self._room(number, line, capacity, None), f"block {number}, {line}"

    def teardown(self) -> None:
        for catalog in self.catalogs:
            catalog.close()
        shutil.rmtree(self.folder)

    def _wish(self, data: Any) -> BudgetRequest:
        known = {**self.granted, **self.denied}
        if known and data.draw(st.booleans()):
            return known[data.draw(st.sampled_from(sorted(known)))]
        numbers = data.draw(st.sets(st.integers(0, self.blocks - 1), min_size=1))
        charge = data.draw(st.sampled_from(ACCOUNTANTS[self.accountant]))
        line = data.draw(st.sampled_from(sorted(LINES)))
        self.asked += 1
        return BudgetRequest(STREAM, f"k{self.asked}", PTK, block_set(numbers), Loss(1), charge, line)

    def _learn(self, wish: BudgetRequest, answer: Granted | Denied) -> None:
        if wish.key in self.granted:
            released = self.ended.get(wish.key) is EntryKind.RELEASE
            assert answer == (Denied(wish.key, ()) if released else Granted(wish.key))
            return
        full = tuple(
            number
            for number in wish.blocks
            if number not in self.active or not self._room(number, wish.line, LINES[wish.line], wish.charge)
        )
        assert answer == (Denied(wish.key, full) if full else Granted(wish.key))
        if full:
            self.denied[wish.key] = wish
        else:
            self.denied.pop(wish.key, None)
            self.granted[wish.key] = wish

    def _room(self, number: int, line: str, capacity: Loss, more: Charge | None) -> bool:
        """Whether some coordinate and the deltas of a block's line are within their caps, `more` included."""
        charges = [
            wish.charge
            for key, wish in self.granted.items()
            if number in wish.blocks and wish.line == line and self.ended.get(key) is not EntryKind.RELEASE
        ]
        charges += [more] if more else []
        if not charges:
            return True
        caps = caps_of(self.accountant, capacity)
        sums = [sum(amounts) for amounts in zip(*(c.amounts for c in charges), strict=True)]
        within = any(total <= cap for total, cap in zip(sums, caps.amounts, strict=True))
        return within and sum(c.delta_atto for c in charges) <= caps.delta_atto

    def _open(self) -> set[str]:
        return set(self.granted) - set(self.ended)


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(
    max_examples=20,
    stateful_step_count=20,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
