"""Sage's loop: train with little, validate, and on RETRY double the loss or the rows."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from ptklib.adaptive.blocks import Block, Divider, joined
from ptklib.adaptive.grants import Grant
from ptklib.base import DPEstimator
from ptklib.bounding import unit_codes
from ptklib.exceptions import InvalidParameterError
from ptklib.privacy import check_delta, check_epsilon
from ptklib.profiling.evaluation import examples_of, row_by_row
from ptklib.profiling.risks import risk_of
from ptklib.profiling.samples import Examples
from ptklib.scalars import finite_number, whole_number
from ptklib.state import ReleasedState
from ptklib.validation import Decision, LossSums, LossValidator, Verdict

Pipeline = Callable[[Any, Grant], DPEstimator]
"""Trains on an Arrow table with parts of a grant, and returns a fitted estimator."""

BLOCKS_MAX = 10_000


class Progress(StrEnum):
    """The state of the training; a function of released numbers alone."""

    WAITING = "waiting"
    """More blocks, or more budget, are needed."""
    ACCEPTED = "accepted"
    ENDED = "ended"
    """`most_blocks` together did not suffice at the largest loss."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One training and its verdict. All of it is released."""

    state: ReleasedState
    verdict: Verdict
    epsilon: float
    """What preprocessing, training and validation may have spent together, on each of the blocks."""
    n_blocks: int


class AdaptiveTraining:
    """Train an estimator with the least loss and the fewest rows that a test shows to be enough.

    Parameters
    ----------
    estimator : DPEstimator
        Unfitted, with a label column where it has a label; of a family whose rows have a loss. Its epsilon is not read.
    target : float
        Largest expected loss of a privacy unit, in (0, 1).
    epsilon, delta : float
        Budget of each block: what is spent on any of its units' rows, by all attempts together.
    first_epsilon : float
        The loss of the first attempt. An attempt costs its epsilon, and the delta of `estimator`, on each of
        its blocks.
    validation_share : float, default 0.2
        Part of an attempt's epsilon that its test costs.
    test_share : float, default 0.3
        Chance of a unit to be tested on. It is one for life: no row is ever both trained and tested on.
    confidence : float, default 0.95
        Probability that no model is accepted whose expected loss is above the target, of all looks together.
    most_blocks : int, default 64
        Blocks in one training, at most.
    pipeline : callable, optional
        ``pipeline(rows, grant)`` trains on an Arrow table and returns a fitted estimator of the family of
        `estimator`. It takes parts of the grant for preprocessing and training. Asking for more than remains
        is refused, and so is a state that cost more than the grant. By default `estimator` is trained with
        all of it.

    Notes
    -----
    :Guarantee: (epsilon, delta)-DP for all that leaves: states, verdicts and progress.
    :Unit: the rows that one unit of `estimator` has in one block.
    :Neighbours: add or remove one unit's rows of one block.

    An attempt takes its loss from all of its blocks before it reads a row. If one of them has less left, it takes none
    and reads nothing. Look i gets ``eta / (i (i + 1))`` of the chance to be wrong. After RETRY the loss is doubled
    where the newest blocks cover that. Otherwise the number of blocks is, and the loss stays. This is Sage's
    conservative way [1]_. Rows of a block that covers no further attempt are dropped.

    References
    ----------
    .. [1] Lécuyer et al., "Privacy Accounting and Quality Control in the Sage Differentially Private ML Platform",
       SOSP 2019, section 3.3.
    """

    def __init__(
        self,
        estimator: DPEstimator,
        target: object,
        *,
        epsilon: object,
        delta: object,
        first_epsilon: object,
        validation_share: object = 0.2,
        test_share: object = 0.3,
        confidence: object = 0.95,
        most_blocks: object = 64,
        pipeline: Pipeline | None = None,
    ) -> None:
        self._estimator: Any = clone(estimator)
        self._risk = risk_of(self._estimator)
        self._estimator.declared_loss().checked_central()
        if self._estimator.unit is None and self._estimator.max_rows_per_unit != 1:
            raise InvalidParameterError(
                "name the column of the privacy unit with unit=: rows are divided by it"
            )
        if self._estimator.unit is not None and self._estimator.unit in self._estimator.required_columns():
            raise InvalidParameterError("the column of the privacy unit must not be learned from")
        self._capacity = check_epsilon(epsilon), check_delta(delta)
        self._loss, self._delta = check_epsilon(first_epsilon), check_delta(self._estimator.delta)
        if not Grant(*self._capacity).covers(self._loss, self._delta):
            raise InvalidParameterError(
                "a block does not cover the first attempt: give it more epsilon or delta"
            )
        self._validation = _share(validation_share, "validation_share")
        self._validator = LossValidator(target, confidence=confidence)
        self._pipeline = self._train if pipeline is None else pipeline
        self._most = whole_number(most_blocks, "most_blocks", 1, BLOCKS_MAX)
        self._divider = Divider(self._estimator.unit, _share(test_share, "test_share"), os.urandom(32))
        self._blocks: list[Block] = []
        self._n_blocks = 1
        self.progress = Progress.WAITING
        """Where the training is."""
        self.attempts: list[Attempt] = []
        """What was released, in order."""

    def __repr__(self) -> str:
        return f"AdaptiveTraining(progress={self.progress.value!r}, attempts={len(self.attempts)})"

    @property
    def accepted(self) -> Attempt | None:
        """The attempt that was accepted."""
        return self.attempts[-1] if self.progress is Progress.ACCEPTED else None

    def add_block(self, rows: Any) -> Progress:
        """Keep the rows of a new block, and train as often as blocks and verdicts allow."""
        if self.progress is not Progress.WAITING:
            return self.progress
        self._blocks.append(self._divider.divide(rows, Grant(*self._capacity)))
        while self.progress is Progress.WAITING and (chosen := self._covered(self._n_blocks)) is not None:
            self.attempts.append(self._attempt(chosen))
            self._decide(self.attempts[-1].verdict)
        over = self.progress is not Progress.WAITING
        self._blocks = [] if over else [block for block in self._blocks if self._covers(block)]
        return self.progress

    def _covers(self, block: Block) -> bool:
        return block.budget.covers(self._loss, self._delta)

    def _covered(self, n_blocks: int) -> list[Block] | None:
        """Return the newest blocks that cover the loss; None where there are fewer."""
        able = [block for block in self._blocks if self._covers(block)]
        return able[-n_blocks:] if len(able) >= n_blocks else None

    def _decide(self, verdict: Verdict) -> None:
        if verdict.decision is Decision.ACCEPT:
            self.progress = Progress.ACCEPTED
            return
        once, self._loss, last = self._loss, 2 * self._loss, self._n_blocks == self._most
        affordable = Grant(*self._capacity).covers(self._loss, self._delta)
        if affordable and (last or self._covered(self._n_blocks) is not None):
            return
        self._loss = once
        if last:
            self.progress = Progress.ENDED
        self._n_blocks = min(2 * self._n_blocks, self._most)

    def _attempt(self, blocks: list[Block]) -> Attempt:
        for block in blocks:  # each was seen to cover it, and nobody else spends
            block.budget.part(self._loss, self._delta)
        whole = Grant(self._loss, self._delta)
        tested = whole.part(self._validation * self._loss)
        trained = Grant(whole.epsilon, whole.delta)
        fitted = self._pipeline(joined([block.train for block in blocks]), whole.rest())
        spent = fitted.privacy_spent_
        trained.part(spent.epsilon, spent.delta)  # refuses a state that cost more
        state = fitted.to_state()
        return Attempt(state, self._validated(state, blocks, tested), self._loss, len(blocks))

    def _train(self, rows: Any, grant: Grant) -> DPEstimator:
        part = grant.rest()
        estimator: DPEstimator = clone(self._estimator).set_params(epsilon=part.epsilon)
        return estimator.fit(rows)

    def _validated(self, state: ReleasedState, blocks: list[Block], grant: Grant) -> Verdict:
        rows, unit = joined([block.test for block in blocks]), self._estimator.unit
        units = np.arange(len(rows)) if unit is None else unit_codes(rows.column(unit))
        counted = Examples.of(units, examples_of(self._risk, rows))
        losses = counted.per_unit(row_by_row(partial(self._risk.losses, state), rows, 1.0))
        sums = LossSums(grant.rest().epsilon).run(losses)
        return self._validator.verdict(sums, len(self.attempts) + 1)


def _share(value: object, name: str) -> float:
    share = finite_number(value, name, InvalidParameterError)
    if not 0 < share < 1:
        raise InvalidParameterError(f"{name} must be in (0, 1)")
    return share
