"""Random walks over allowances: they never exceed a block, and the filter admits whatever they cover."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ptkstore.domain.accounting.accountants import Accountant, Charge, caps_of, fit_together
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.scheduling.adaptive import Adaptive, Mode
from ptkstore.domain.scheduling.allowances import Allowances
from ptkstore.domain.scheduling.block_rooms import BlockRoom, whole_block
from ptkstore.domain.scheduling.model import Look, MenuEntry, Proposal, Waiting
from ptkstore.domain.scheduling.queues import Awaited

CAPACITY = Loss.capacity(1, 1e-6)
ROWS = 100
EPSILONS = [Loss.charge(epsilon, 1e-9) for epsilon in (0.01, 0.05, 0.2, 0.7, 1)]


class AllowanceMachine(RuleBasedStateMachine):
    """A stream with four groups of blocks, and a slow model of what is committed to each block."""

    @initialize(accountant=st.sampled_from(list(Accountant)), mode=st.sampled_from(list(Mode)))
    def create(self, accountant: Accountant, mode: Mode) -> None:
        self.accountant, self.strategy = accountant, Adaptive(ROWS, mode)
        self.room = Allowances()
        self.waiting: dict[str, Waiting] = {}
        self.blocks: dict[int, BlockRoom] = {}
        self.committed: dict[int, list[Charge]] = {}
        self.running: dict[str, tuple[Proposal, tuple[int, ...], Look | None]] = {}
        self.exhausted: dict[str, Waiting] = {}
        self.windows = self.names = 0
        self.a_window_closes()

    def charge_of(self, ptk_id: str, loss: Loss) -> Charge:
        return Charge.pure(self.accountant, loss)

    # what happens

    @rule()
    def a_window_closes(self) -> None:
        least = [self.charge_of(one.ptk_id, one.losses[0]) for one in self.waiting.values()]
        whole = whole_block(self.accountant, CAPACITY, least)
        for group in range(4):
            number = 4 * self.windows + group
            self.blocks[number] = replace(whole, number=number, window=self.windows, group=group)
            self.committed[number] = []
        self.room.add_blocks(self.blocks[4 * self.windows + at] for at in range(4))
        self.windows += 1
        self.room.divide()

    @rule(
        losses=st.tuples(st.sampled_from(EPSILONS), st.sampled_from(EPSILONS)),
        windows=st.tuples(st.integers(1, 3), st.integers(0, 4)),
        groups=st.sampled_from([range(4), range(1), range(2), range(2, 4), range(3, 4)]),
        menu=st.lists(st.tuples(st.sampled_from(EPSILONS), st.integers(1, 400)), max_size=2),
        once=st.booleans(),
    )
    def a_ptk_is_registered(self, losses: Any, windows: Any, groups: Any, menu: Any, once: bool) -> None:
        low, high = sorted(losses, key=lambda loss: loss.epsilon_nano)
        if once:  # one look, and it may have no more
            high, windows = low, (1, 0)
        ways = tuple(MenuEntry(loss, rows) for loss, rows in menu)
        one = Waiting(
            f"p{self.names}", self.names, (windows[0], sum(windows)), (low, high), ways, None, groups
        )
        self.names += 1
        self.waiting[one.ptk_id] = one
        self.room.join(one, self.charge_of)
        self.room.divide()

    @precondition(lambda self: self.waiting and self.blocks)
    @rule(some=st.randoms(use_true_random=False))
    def looks_are_reserved(self, some: Any) -> None:
        asking = list(self.waiting.values())
        some.shuffle(asking)
        for proposal in self.strategy.propose(asking, self.room, self.charge_of):
            one = self.waiting[proposal.ptk_id]
            assert not one.under_way
            assert one.windows[0] <= len(proposal.windows) <= one.windows[1]
            assert one.losses[0].epsilon_nano <= proposal.loss.epsilon_nano <= one.losses[1].epsilon_nano
            self.room.take(proposal)
            blocks = tuple(
                number
                for number, block in self.blocks.items()
                if block.window in proposal.windows and block.group in one.groups
            )
            assert len(blocks) == len(proposal.windows) * len(one.groups)
            for number in blocks:
                self.committed[number].append(proposal.charge)
                assert fit_together(caps_of(self.accountant, CAPACITY), self.committed[number])
            self.running[one.ptk_id] = (proposal, blocks, one.last)
            number = 1 if one.last is None else one.last.number + 1
            last = Look(number, len(proposal.windows), proposal.loss, under_way=True)
            self.waiting[one.ptk_id] = replace(one, last=last)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), accepted=st.booleans())
    def a_verdict_comes(self, data: Any, accepted: bool) -> None:
        ptk_id = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[ptk_id]
        if ptk_id not in self.waiting:
            return
        if accepted:
            self._leave(ptk_id)
        else:
            self._try_again(ptk_id)

    @precondition(lambda self: self.running)
    @rule()
    def nobody_is_accepted(self) -> None:
        for ptk_id in self.running:
            if ptk_id in self.waiting:
                self._try_again(ptk_id)
        self.running.clear()

    def _try_again(self, ptk_id: str) -> None:
        one = self.waiting[ptk_id]
        assert one.last is not None
        self.waiting[ptk_id] = replace(one, last=replace(one.last, under_way=False))
        if not self.strategy.may_have_more(self.waiting[ptk_id]):
            self.exhausted[ptk_id] = self.waiting[ptk_id]
            self._leave(ptk_id)

    @precondition(lambda self: self.exhausted)
    @rule(data=st.data(), most=st.integers(1, 8))
    def an_exhausted_ptk_is_defined_anew(self, data: Any, most: int) -> None:
        ptk_id = data.draw(st.sampled_from(sorted(self.exhausted)))
        one = replace(self.exhausted.pop(ptk_id), windows=(1, most), last=None)
        self.waiting[ptk_id] = one
        self.room.join(one, self.charge_of)
        self.room.divide()

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def a_reservation_is_released(self, data: Any) -> None:
        ptk_id = data.draw(st.sampled_from(sorted(self.running)))
        proposal, blocks, before = self.running.pop(ptk_id)
        for number in blocks:
            self.committed[number].remove(proposal.charge)
        if ptk_id in self.waiting:
            self.waiting[ptk_id] = replace(self.waiting[ptk_id], last=before)
        self.room = Allowances.of(
            map(self._with_what_is_left, self.blocks.values()),
            self.waiting.values(),
            self.room.shares(),
            self.charge_of,
        )
        self.room.divide()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def a_ptk_is_withdrawn(self, data: Any) -> None:
        self._leave(data.draw(st.sampled_from(sorted(self.waiting))))

    @precondition(lambda self: self.blocks)
    @rule(data=st.data())
    def a_block_retires(self, data: Any) -> None:
        self._drop([data.draw(st.sampled_from(sorted(self.blocks)))])

    @precondition(lambda self: self.blocks)
    @rule()
    def the_oldest_window_expires(self) -> None:
        oldest = min(block.window for block in self.blocks.values())
        self._drop([number for number, block in self.blocks.items() if block.window == oldest])

    @rule()
    def the_service_starts_anew(self) -> None:
        before = list(self.room.shares())
        blocks = [
            replace(self.blocks[number], left_nano=nano, left_atto=atto)
            for number, (nano, atto) in self.room.left().items()
        ]
        self.room = Allowances.of(blocks, self.waiting.values(), before, self.charge_of)
        assert list(self.room.shares()) == before

    # what must hold

    @invariant()
    def shares_never_exceed_what_a_block_has_left(self) -> None:
        held: dict[int, list[int]] = {number: [0, 0] for number in self.blocks}
        for share in self.room.shares():
            assert share.ptk_id in self.waiting
            assert share.nano >= 0
            assert share.delta_atto >= 0
            held[share.block][0] += share.nano
            held[share.block][1] += share.delta_atto
        assert set(self.room.left()) == set(self.blocks)
        for number, (nano, atto) in self.room.left().items():
            block = self._with_what_is_left(self.blocks[number])
            assert (nano, atto) == (block.left_nano, block.left_atto)
            assert held[number][0] <= nano
            assert held[number][1] <= atto

    @invariant()
    def whoever_is_given_shares_has_a_look_that_enough_room_would_cover(self) -> None:
        """And nobody else: with twenty whole windows, a PTK that may have no more is given no look."""
        for one in (*self.waiting.values(), *self.exhausted.values()):
            whole = whole_block(self.accountant, CAPACITY, [self.charge_of(one.ptk_id, one.losses[1])])
            room = Allowances.of(
                (replace(whole, number=n, window=n) for n in range(20)), (), (), self.charge_of
            )
            alone = replace(one, groups=range(1))
            look = self.strategy.next_look(alone, room.free(alone), self.charge_of)
            if one.under_way:
                assert look is Awaited.VERDICT
            else:
                assert isinstance(look, Proposal) == (one.ptk_id in self.waiting)

    def _with_what_is_left(self, block: BlockRoom) -> BlockRoom:
        caps, place = caps_of(self.accountant, CAPACITY), block.coordinate
        charges = self.committed[block.number]
        nano = caps.amounts[place] - sum(charge.amounts[place] for charge in charges)
        atto = caps.delta_atto - sum(charge.delta_atto for charge in charges)
        return replace(block, left_nano=nano, left_atto=atto)

    def _leave(self, ptk_id: str) -> None:
        del self.waiting[ptk_id]
        self.room.leave(ptk_id)
        self.room.divide()

    def _drop(self, numbers: list[int]) -> None:
        self.room.drop_blocks(numbers)
        for number in numbers:
            del self.blocks[number]


TestAllowanceMachine = AllowanceMachine.TestCase
TestAllowanceMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
