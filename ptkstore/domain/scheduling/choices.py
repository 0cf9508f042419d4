"""The scheduler settings in the policy of a stream."""

from __future__ import annotations

from enum import StrEnum

from ptkstore.domain.accounting.losses import Loss
from ptkstore.errors import InvalidRequest

SIGNIFICANCE_MIN, SIGNIFICANCE_MAX = 1e-6, 1e12  # per epsilon


class Scheduler(StrEnum):
    """The rule that says which PTKs are trained when.

    `allocate` plans each window alone. `adaptive` lets PTKs wait for windows, and divides budgets among them. Under
    `budgeting` PTKs wait as well, and a window serves those that it teaches enough for what it has left.
    """

    ALLOCATE = "allocate"
    ADAPTIVE = "adaptive"
    BUDGETING = "budgeting"

    @property
    def lets_wait(self) -> bool:
        """Whether PTKs wait for windows."""
        return self is not Scheduler.ALLOCATE


class Significance(StrEnum):
    """How much a window teaches a PTK.

    `recency` is declared and public. The two others are measured on rows. Under `loss` a noisy threshold says whether
    the losses of the PTK's version are large enough. Under `released-loss` their noisy sum is released, so that a
    window may grant a part of what is asked for.
    """

    RECENCY = "recency"
    LOSS = "loss"
    RELEASED_LOSS = "released-loss"

    @property
    def is_measured(self) -> bool:
        """Whether it is read off rows, and so has to be paid for."""
        return self is not Significance.RECENCY


class ServedFirst(StrEnum):
    """In which order PTKs are served that ask for windows at the same time, under `budgeting`.

    `arrival` serves who came first. `dpf` serves the smallest dominant share of a block first, and `dpack` the least
    demand for what blocks have left, so that most PTKs are served. A PTK that asks for much may then wait for ever.
    """

    ARRIVAL = "arrival"
    DPF = "dpf"
    DPACK = "dpack"


class Mode(StrEnum):
    """How much of its allowance a PTK takes.

    `conserve` begins with the least and doubles. `aggressive` takes as much as its allowance covers. `guided` begins
    with a pair of the PTK's own menu, and then doubles; a PTK without a menu begins as under `conserve`.
    """

    CONSERVE = "conserve"
    AGGRESSIVE = "aggressive"
    GUIDED = "guided"


def check_choices(
    scheduler: Scheduler,
    mode: Mode,
    served_first: ServedFirst,
    significance: Significance,
    bounds: tuple[float | None, float | None],
) -> None:
    """Raise `InvalidRequest` unless a policy says what its scheduler needs, and nothing that is for another one.

    Parameters
    ----------
    scheduler, mode, served_first, significance
        Those of the policy.
    bounds : tuple of float, optional
        L and U: public bounds on significance per epsilon.
    """
    if mode is not Mode.GUIDED and scheduler is not Scheduler.ADAPTIVE:
        raise InvalidRequest("scheduler_mode is for the scheduler 'adaptive'; leave it out")
    if scheduler is not Scheduler.BUDGETING:
        if served_first is not ServedFirst.ARRIVAL:
            raise InvalidRequest("served_first is for the scheduler 'budgeting'; leave it out")
        if significance is not Significance.RECENCY or bounds != (None, None):
            raise InvalidRequest(
                "significance, least_significance and most_significance are for the scheduler 'budgeting'; leave them "
                "out"
            )
        return
    least, most = bounds
    if least is None or most is None:
        raise InvalidRequest(
            "the scheduler 'budgeting' needs public bounds on significance per epsilon: least_significance, which a "
            "fresh window asks for, and most_significance, which it asks for when its budget is nearly used up"
        )
    if not SIGNIFICANCE_MIN <= least <= SIGNIFICANCE_MAX or not most <= SIGNIFICANCE_MAX:
        raise InvalidRequest(
            f"bounds on significance per epsilon are between {SIGNIFICANCE_MIN:g} and {SIGNIFICANCE_MAX:g}"
        )
    if most <= least:
        raise InvalidRequest(
            f"most_significance (U) must be above least_significance (L), and {most:g} is not above {least:g}: with "
            "one bound for all there is nothing to choose by"
        )


def check_comparison(
    significance: Significance,
    epsilon: float | None,
    capacity: Loss,
    attribute: str | None,
    *,
    has_contexts: bool,
) -> None:
    """Raise `InvalidRequest` unless a policy says what a comparison costs where one costs something, and not elsewhere.

    Parameters
    ----------
    epsilon : float, optional
        epsilon_0: what one noisy threshold costs, or one noisy sum that is released.
    capacity : Loss
        The capacity of a block.
    attribute : str, optional
        The column that blocks are by.
    has_contexts : bool
        Whether contexts have budgets of their own. A training's loss tells a released number, and budgets that all
        contexts read have that loss.
    """
    if not significance.is_measured:
        if epsilon is not None:
            raise InvalidRequest(
                "comparison_epsilon is for the significances 'loss' and 'released-loss'; a declared recency is "
                "compared for nothing"
            )
        return
    if epsilon is None:
        raise InvalidRequest(
            f"the significance {significance.value!r} is measured on rows, so its noise has to be paid for: "
            "comparison_epsilon"
        )
    if Loss.charge(epsilon).epsilon_nano > capacity.epsilon_nano:
        raise InvalidRequest("comparison_epsilon is more than a block may lose in all")
    if attribute is not None:
        raise InvalidRequest(
            f"the significance {significance.value!r} does not go with blocks by a column: take 'recency'"
        )
    if has_contexts and significance is Significance.RELEASED_LOSS:
        raise InvalidRequest(
            "the significance 'released-loss' does not go with contexts: the loss of a training tells what was "
            "released, and every context reads it in the budget. Take 'loss'"
        )
