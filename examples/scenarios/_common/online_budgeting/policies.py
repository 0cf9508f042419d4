"""Simulation only: Algorithms 2 and 3 with their noise, and the policies that they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from _common.online_budgeting.replay import Asking, Grant
from ptkstore.domain.accounting.losses import NANO
from ptkstore.domain.budgeting.blocks import BudgetedBlock
from ptkstore.domain.budgeting.online import (
    Declined,
    Taken,
    ToCompare,
    answered,
    next_step,
    next_step_if_public,
)
from ptkstore.domain.budgeting.partial import granted, next_release
from ptkstore.domain.budgeting.rule import ThresholdRule

if TYPE_CHECKING:
    from ptklib.mechanisms.threshold import DrawnThreshold
    from ptklib.significance import LossSignificance

_TOGETHER = 256
"""Comparisons whose noise is drawn at once."""


@dataclass(slots=True)
class Thresholds:
    """Algorithm 2: a query is compared with the threshold of each block."""

    blocks: dict[int, BudgetedBlock]
    rule: ThresholdRule
    kept: dict[int, DrawnThreshold] = field(default_factory=dict)
    decisions: int = 0

    def ask(self, asking: Asking, candidates: Sequence[int], most: int) -> tuple[list[Grant], int]:
        """Ask blocks in turn; comparisons that follow each other have their noise drawn together."""
        grants: list[Grant] = []
        waiting: list[tuple[int, ToCompare]] = []
        asked = 0
        for number in candidates:
            step = self._step(asking, number)
            if isinstance(step, ToCompare):
                self.blocks[number] = step.block
                waiting.append((number, step))
                if len(waiting) < (32 if most == 1 else _TOGETHER):
                    continue
            if waiting:
                asked += self._compare(asking, waiting, grants, most)
                waiting = []
            if len(grants) >= most:
                return grants, asked
            if not isinstance(step, ToCompare):
                asked += 1
                self._keep(number, step, grants)
                if len(grants) >= most:
                    return grants, asked
        if waiting:
            asked += self._compare(asking, waiting, grants, most)
        return grants, asked

    def _step(self, asking: Asking, number: int) -> Declined | Taken | ToCompare:
        self.decisions += 1
        block = self.blocks[number]
        if block.retired:
            self.kept.pop(number, None)
        if asking.is_public:
            return next_step_if_public(block, asking.query, self.rule, float(asking.significance[number]))
        return next_step(block, asking.query, self.rule)

    def _compare(
        self, asking: Asking, waiting: list[tuple[int, ToCompare]], grants: list[Grant], most: int
    ) -> int:
        """Draw the thresholds that were paid for, and compare in turn."""
        from ptklib.mechanisms.threshold import DrawnThreshold, first_above
        from ptklib.profiling.estimates import UNITS
        from ptklib.significance import line_units

        comparison = _significance(self.rule).comparison
        for number, step in waiting:
            if step.draws:
                self.kept[number] = DrawnThreshold.draw(comparison, pay=lambda loss: None)
        ahead = [
            round(float(asking.significance[number]) * UNITS) - line_units(step.line)
            for number, step in waiting
        ]
        answers = first_above([self.kept[number] for number, _ in waiting], ahead, most=most - len(grants))
        for (number, step), above in zip(waiting, answers, strict=False):
            self._keep(number, answered(step, asking.query, above), grants)
            if above:
                del self.kept[number]
        return len(answers)

    def _keep(self, number: int, step: Declined | Taken | ToCompare, grants: list[Grant]) -> None:
        if isinstance(step, Taken):
            self.blocks[number] = step.block
            grants.append(Grant(number, step.nano))


@dataclass(slots=True)
class Partial:
    """Algorithm 3: a block grants what a noisy significance is worth."""

    blocks: dict[int, BudgetedBlock]
    rule: ThresholdRule
    least_part: float = 0.5

    def ask(self, asking: Asking, candidates: Sequence[int], most: int) -> tuple[list[Grant], int]:
        """Ask blocks in turn; each release is paid for."""
        grants: list[Grant] = []
        for asked, number in enumerate(candidates, start=1):
            step = next_release(self.blocks[number], asking.query, self.rule, self.least_part)
            if isinstance(step, Declined):
                continue
            self.blocks[number] = step.block
            noisy = self._noisy(asking, number)
            taken = granted(step, asking.query, self.rule, self.least_part, noisy)
            if isinstance(taken, Taken):
                self.blocks[number] = taken.block
                grants.append(Grant(number, taken.nano))
                if len(grants) >= most:
                    return grants, asked
        return grants, len(candidates)

    def _noisy(self, asking: Asking, number: int) -> float:
        import numpy as np

        from ptklib.mechanisms import laplace
        from ptklib.profiling.estimates import UNITS

        exact = float(asking.significance[number])
        if asking.is_public:
            return exact
        units = np.array([round(exact * UNITS)], dtype=np.int64)
        epsilon = Fraction(self.rule.comparison_nano, NANO)
        return float(laplace(units, l1_sensitivity=UNITS, epsilon=epsilon)[0]) / UNITS


@dataclass(slots=True)
class WithoutNoise:
    """Algorithm 2 with exact comparisons that cost nothing: what the bound 1 + ln(U / L) is about."""

    blocks: dict[int, BudgetedBlock]
    rule: ThresholdRule

    def ask(self, asking: Asking, candidates: Sequence[int], most: int) -> tuple[list[Grant], int]:
        """Ask blocks in turn, with the exact significance."""
        exact = Asking(asking.query, asking.significance, is_public=True)
        return Thresholds(self.blocks, self.rule).ask(exact, candidates, most)


@dataclass(slots=True)
class Reused:
    """Sage's blocks: any query may use a block until its budget is gone."""

    blocks: dict[int, BudgetedBlock]

    def ask(self, asking: Asking, candidates: Sequence[int], most: int) -> tuple[list[Grant], int]:
        """Take the first blocks that can pay."""
        grants: list[Grant] = []
        for asked, number in enumerate(candidates, start=1):
            block = self.blocks[number]
            if not block.retired and block.left_nano >= asking.query.cost_nano:
                self.blocks[number] = block.less(asking.query.cost_nano)
                grants.append(Grant(number, asking.query.cost_nano))
                if len(grants) >= most:
                    return grants, asked
        return grants, len(candidates)


@dataclass(slots=True)
class UsedOnce:
    """Streaming: a block serves one query and is gone. If `whole`, the query gets all that the block has left."""

    blocks: dict[int, BudgetedBlock]
    whole: bool = False

    def ask(self, asking: Asking, candidates: Sequence[int], most: int) -> tuple[list[Grant], int]:
        """Take the first blocks that no query has used."""
        grants: list[Grant] = []
        for asked, number in enumerate(candidates, start=1):
            block = self.blocks[number]
            if not block.retired and block.left_nano >= asking.query.cost_nano:
                grants.append(Grant(number, block.left_nano if self.whole else asking.query.cost_nano))
                self.blocks[number] = block.less(block.left_nano).retired_below(1)
                if len(grants) >= most:
                    return grants, asked
        return grants, len(candidates)


def _significance(rule: ThresholdRule) -> LossSignificance:
    from ptklib.significance import LossSignificance

    return LossSignificance(Fraction(rule.comparison_nano, NANO))
