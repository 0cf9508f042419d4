"""Algorithm 3: a block may serve a part of what a large query asks for, depending on one noisy significance."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ptkstore.domain.accounting.losses import NANO
from ptkstore.domain.budgeting.blocks import BudgetedBlock, Query
from ptkstore.domain.budgeting.online import Declined, Taken
from ptkstore.domain.budgeting.rule import ThresholdRule
from ptkstore.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class ToRelease:
    """The significance has to be released with noise. `block` has paid epsilon_0 for that."""

    block: BudgetedBlock


def next_release(
    block: BudgetedBlock,
    query: Query,
    rule: ThresholdRule,
    least_part: float,
    *,
    paid_elsewhere: bool = False,
) -> Declined | ToRelease:
    """Return what happens when a query asks a block, before anything private is read.

    Parameters
    ----------
    least_part : float
        eta: the least part of its cost with which a query is served.
    paid_elsewhere : bool
        Whether another block pays epsilon_0, because its rows are read.

    Notes
    -----
    The block must be able to pay for the release and for the least part (`differences.md` B4, B5).
    """
    least, due = _least_nano(query, least_part), 0 if paid_elsewhere else rule.comparison_nano
    if block.retired:
        return Declined.RETIRED
    if due + least > block.left_nano:
        return Declined.UNAFFORDABLE
    return ToRelease(block.less(due))


def worth(rule: ThresholdRule, noisy: float) -> int:
    """Return eps*, in nano-epsilon: what a noisy significance that was released is worth; it may be negative."""
    return math.floor(min(max(noisy / rule.constant * NANO - rule.comparison_nano, -(2.0**62)), 2.0**62))


def granted(
    step: ToRelease, query: Query, rule: ThresholdRule, least_part: float, noisy: float
) -> Declined | Taken:
    """Return what a query gets for its noisy significance, computed from that and public numbers alone.

    Parameters
    ----------
    least_part : float
        As for `next_release`.
    noisy : float
        The significance that was released.

    Notes
    -----
    The paper grants ``min(eps*, eps_j, left - eps_0)`` from the exact significance, which the grant then publishes.
    Here eps* comes from a release that was paid for (`differences.md` B3).
    """
    enough = worth(rule, noisy)
    if enough < _least_nano(query, least_part):
        return Declined.NOT_SIGNIFICANT
    nano = min(query.cost_nano, step.block.left_nano, enough)
    return Taken(step.block.less(nano), nano)


def _least_nano(query: Query, least_part: float) -> int:
    if not 0 <= least_part <= 1:
        raise InvalidRequest("the least part of a cost is between 0 and 1")
    return max(1, math.ceil(least_part * query.cost_nano))
