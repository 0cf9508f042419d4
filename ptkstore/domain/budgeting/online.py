"""Algorithm 2: whether a block serves a query, as steps between which a use case pays and compares.

    step = next_step(block, query, rule)
    Declined    nothing happens
    Taken       charge `step.nano`; the block is `step.block`
    ToCompare   if `step.draws`: charge epsilon_0, then draw a noisy threshold. The block is `step.block`.
                Compare the significance with `step.line`. The block is `answered(step, query, above)`.

No step reads a significance that was measured. A query that may not be paid for is declined before anything private is
read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from ptkstore.domain.accounting.losses import NANO
from ptkstore.domain.budgeting.blocks import BudgetedBlock, Query
from ptkstore.domain.budgeting.rule import ThresholdRule


class Declined(StrEnum):
    """Why a block does not serve a query; public facts alone."""

    RETIRED = "retired"
    UNAFFORDABLE = "unaffordable"
    NOT_SIGNIFICANT = "not significant"


@dataclass(frozen=True, slots=True)
class Taken:
    """The block serves the query: `nano` is charged, and `block` is its state afterwards."""

    block: BudgetedBlock
    nano: int


@dataclass(frozen=True, slots=True)
class ToCompare:
    """The significance has to be compared with a line.

    `line` is in the unit of the significance. If `draws`, epsilon_0 is charged and a noisy threshold is drawn first;
    `block` has paid for that. Otherwise the one that was kept is used.
    """

    block: BudgetedBlock
    draws: bool
    line: float


def next_step(block: BudgetedBlock, query: Query, rule: ThresholdRule) -> Declined | Taken | ToCompare:
    """Return what happens when a query asks a block, before anything private is read.

    The filter comes first, also while any query is taken (`differences.md` B4). A retired block answers nothing (B5).
    A noisy threshold is charged when it is drawn, and kept while it answers "below" (B1).
    """
    draws = not block.threshold_paid
    free = block.consumed < rule.free_share
    due = query.cost_nano + (rule.comparison_nano if draws and not free else 0)
    if declined := _not_payable(block, due):
        return declined
    if free:
        return Taken(block.less(query.cost_nano), query.cost_nano)
    line = rule.at(block.consumed) * (query.loss_nano + rule.comparison_nano) / NANO
    paid = replace(block.less(rule.comparison_nano), threshold_paid=True) if draws else block
    return ToCompare(paid, draws, line)


def answered(step: ToCompare, query: Query, above: bool) -> Taken | Declined:
    """Return what follows from the answer of a noisy threshold. "Above" uses the threshold up."""
    if not above:
        return Declined.NOT_SIGNIFICANT
    after = replace(step.block.less(query.cost_nano), threshold_paid=False)
    return Taken(after, query.cost_nano)


def next_step_if_public(
    block: BudgetedBlock, query: Query, rule: ThresholdRule, significance: float
) -> Declined | Taken:
    """Return whether a block serves a query whose significance is public, such as a declared recency.

    Nothing private is read, so nothing is paid for the comparison, and it is exact. Below z_0 the line is L, which the
    paper takes for granted.
    """
    if declined := _not_payable(block, query.cost_nano):
        return declined
    if significance < rule.at(block.consumed) * query.loss_nano / NANO:
        return Declined.NOT_SIGNIFICANT
    return Taken(block.less(query.cost_nano), query.cost_nano)


def _not_payable(block: BudgetedBlock, due_nano: int) -> Declined | None:
    if block.retired:
        return Declined.RETIRED
    return Declined.UNAFFORDABLE if due_nano > block.left_nano else None
