"""Why a PTK does not fit beside the others, and what would make it fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ptkstore.application.ledger.charging import charge_of
from ptkstore.application.planning.estimators import event_of
from ptkstore.application.planning.formula_plans import ANY_ROWS, formula_menu, least_target
from ptkstore.application.planning.window_plans import (
    Offer,
    Room,
    as_promised,
    cheapest,
    offers_of,
    partition_rows,
    room_of,
)
from ptkstore.domain.accounting.accountants import Accountant, Charge, caps_of, fit_together
from ptkstore.domain.accounting.losses import LEAST_LOSS, MAX_EPSILON, NANO, NO_LOSS, Loss
from ptkstore.domain.accounting.sharing import COMMON
from ptkstore.domain.allocation.model import Choice, Demand, Infeasible, Reason
from ptkstore.domain.allocation.newcomers import remedies
from ptkstore.domain.allocation.plans import allocate_partitions
from ptkstore.domain.ptks.ptks import Pin, PtkSpec, epsilons_of, pin_of
from ptkstore.domain.streams.blocks import groups_where
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest

_MOST = int(MAX_EPSILON * NANO)


def why_not(spec: PtkSpec, others: Sequence[PtkSpec], policy: Policy, refusal: Infeasible) -> str:
    """Say why a PTK does not fit beside others who keep what they have, and what would make it fit."""
    members = _rivals(spec, others, policy)
    menus = [menu for one in members if (menu := offers_of(as_promised(one, policy), policy))]
    mine = offers_of(spec, policy)
    wish = f"{spec.ptk_id} asks for {spec.loss} per window"
    if (span := epsilons_of(spec.config)) is not None:
        wish = f"{spec.ptk_id} asks for an epsilon of {span[0]:g} to {span[1]:g} per window"
    pin = pin_of(spec.config, policy)
    if not mine:
        return f"{wish}; {_too_tight(spec, span or (0.0, 0.0), pin, policy)}"
    where = "" if pin.partition is None else f" in partition {pin.partition}, to which it is pinned,"
    beside = f" beside {len(members)} registered PTK{'' if len(members) == 1 else 's'}" if members else ""
    return f"{wish} and does not fit{where}{beside}. {_advice(spec, mine, menus, policy, refusal)}"


def _advice(
    spec: PtkSpec,
    mine: Sequence[Offer],
    menus: Sequence[Sequence[Offer]],
    policy: Policy,
    refusal: Infeasible,
) -> str:
    if refusal.reason is Reason.ROWS:
        return f"There are too few {str(refusal).rstrip('.')}"  # which says rows: how many
    room = room_of(policy, policy.line_of(spec.ptk_id))
    if policy.accountant is Accountant.BASIC:
        return _basic_room(mine, menus, room)
    return _curved_room(spec, mine, menus, policy, room.capacity)


def _too_tight(spec: PtkSpec, span: tuple[float, float], pin: Pin, policy: Policy) -> str:
    """The need of a target that no epsilon of its range reaches, and the tightest one that is reached."""
    rows = min(partition_rows(policy), policy.n_max)
    rows_text = f"the {rows} rows it can get"
    if pin.n_rows is not None:
        rows, rows_text = pin.n_rows, f"the {pin.n_rows} rows it is pinned to"
    needed = formula_menu(spec, span, ANY_ROWS)
    least = f": {needed[-1][1]} at the largest epsilon" if needed else ""
    reached = least_target(spec, span, rows)
    looser = "" if reached is None or reached > 0.99 else f", {_rounded_up(reached)} or more"
    later = "; versions of such a one may tell that less is enough" if spec.facts is None else ""
    return f"its target needs more than {rows_text}{least}. Take a looser target{looser}{later}"


def _rounded_up(target: float) -> str:
    """Four digits with which the target is still reached."""
    step = 10.0 ** (math.floor(math.log10(target)) - 3)
    return f"{math.ceil(target / step + 1e-6) * step:.4g}"


def _curved_room(
    spec: PtkSpec,
    mine: Sequence[Offer],
    menus: Sequence[Sequence[Offer]],
    policy: Policy,
    capacity: Loss,
) -> str:
    """The room where losses add up as curves: of the PTK's own noise, and of pure noise."""
    caps = caps_of(policy.accountant, capacity)
    taken = [cheapest(menu).charge for menu in menus]
    delta = mine[0].loss.delta_atto

    def of_its_own(epsilon_nano: int) -> bool:
        loss = Loss(epsilon_nano, delta)
        try:
            event = event_of(spec.estimator, loss)
        except InvalidRequest:  # its family has no noise for so small a loss
            return False
        return fit_together(caps, (*taken, charge_of(event, policy.accountant, loss)))

    def pure(epsilon_nano: int) -> bool:
        return fit_together(caps, (*taken, Charge.pure(policy.accountant, Loss(epsilon_nano))))

    most = capacity.epsilon_nano
    own, plain = Loss(largest(of_its_own, most), delta), Loss(largest(pure, most))
    fitting = [str(own)] if own.epsilon_nano else []
    if delta and plain.epsilon_nano:
        fitting.append(f"{plain} with pure noise")
    less = f"ask for at most {' or '.join(fitting)}" if fitting else "no noise of its kind fits"
    reason = f"Under {policy.accountant.value}, {less}"
    together = (*taken, cheapest(mine).charge)

    def with_capacity(epsilon_nano: int) -> bool:
        return fit_together(caps_of(policy.accountant, Loss(epsilon_nano, capacity.delta_atto)), together)

    enough = _least(with_capacity, capacity.epsilon_nano, _MOST)
    several = set(policy.lines) != {COMMON}  # only one of them would grow
    if enough is None or several:
        return reason
    return f"{reason}. It would fit with a capacity of {Loss(enough, capacity.delta_atto)}"


def _least(fits: Callable[[int], bool], low: int, high: int) -> int | None:
    """The least number above `low`, up to `high`, that fits; None if none does."""
    if not fits(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def largest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest nano-epsilon that fits, exact so that it may be asked for; 0 if the least loss does not."""
    least: int = LEAST_LOSS.epsilon_nano
    low, high = least - 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low if low >= least else 0


def _basic_room(mine: Sequence[Offer], menus: Sequence[Sequence[Offer]], room: Room) -> str:
    """The room where epsilons and deltas add up, and other ways."""
    limits = room.limits(room.capacity.delta_atto, room.capacity.epsilon_nano)
    *demands, new = (
        Demand(menu[0].ptk_id, tuple(Choice(o.loss, o.n_rows) for o in menu), menu[0].partition)
        for menu in (*menus, mine)
    )
    current = allocate_partitions(demands, limits)
    if isinstance(current, Infeasible):
        return "Nothing is left"
    helps = remedies(demands, current, new, limits)
    openings = (Loss(o.amount, o.delta_atto) for o in helps.openings)
    left = max(openings, default=NO_LOSS, key=lambda loss: loss.epsilon_nano)
    advice = f"Ask for at most {left}" if left.epsilon_nano else "Nothing is left"
    larger = []
    if helps.capacity is not None:
        larger.append(f"with a capacity of {Loss(helps.capacity, room.capacity.delta_atto)}")
    if helps.n_max is not None and helps.n_max > room.n_max:
        larger.append(f"with an n_max of {helps.n_max}")
    return f"{advice}. It would fit {' or '.join(larger)}" if larger else advice


def _rivals(spec: PtkSpec, others: Sequence[PtkSpec], policy: Policy) -> list[PtkSpec]:
    """The others that pay from the budget of `spec`, on the group of blocks where they ask for most."""
    line = policy.line_of(spec.ptk_id)
    most: list[PtkSpec] = []
    for group in groups_where(policy, spec.config.get("where")):
        here = [
            one
            for one in others
            if policy.line_of(one.ptk_id) == line and group in groups_where(policy, one.config.get("where"))
        ]
        if sum(one.loss.epsilon_nano for one in here) > sum(one.loss.epsilon_nano for one in most):
            most = here
    return most
