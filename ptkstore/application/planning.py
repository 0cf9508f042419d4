"""Plan a window: which loss, how many rows and which partition each PTK gets, under the stream's accountant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ptklib.exceptions import PtklibError
from ptklib.spec import estimator_from_spec
from ptkstore.application.charging import Event, charge_of
from ptkstore.application.estimators import event_of
from ptkstore.domain.accountants import Accountant, Charge, admits, caps_of
from ptkstore.domain.allocation import (
    Choice,
    Demand,
    Grant,
    Infeasible,
    Limits,
    Plan,
    Reason,
    allocate_partitions,
    remedies,
)
from ptkstore.domain.blocks import FIRST_TRAIN, groups_where, share_of
from ptkstore.domain.losses import LEAST_LOSS, NO_LOSS, Loss, checked_epsilon
from ptkstore.domain.ptks import PtkSpec
from ptkstore.domain.snapshots import canonical_json
from ptkstore.domain.streams import Policy
from ptkstore.errors import InvalidRequest, PtkRejected

GRID_POINTS = 16


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to train a PTK, with what it costs under the stream's accountant."""

    ptk_id: str
    loss: Loss
    charge: Charge
    event: Event
    n_rows: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What one PTK gets of a window."""

    offer: Offer
    line: str
    partition: int = 0


def plan_window(specs: Sequence[PtkSpec], policy: Policy) -> tuple[Planned, ...] | Infeasible:
    """The plan with the fewest rows that fits every budget of the policy, or why there is none.

    At one coordinate of the accountant a plan is the allocator's own problem, so it is solved at each of them that
    has a cap, and the best answer is taken.
    """
    plans: list[Planned] = []
    lines = policy.sharing.lines(policy.capacity)
    for line, members in by_budget(specs, policy):
        if line not in lines:
            raise PtkRejected(f"{members[0].ptk_id}: the whole budget of its line is reserved for other PTKs")
        offers = [offers_of(spec, policy) for spec in members]
        if silent := [spec for spec, menu in zip(members, offers, strict=True) if not menu]:
            return Infeasible(
                NO_LOSS,
                policy.capacity,
                Reason.ROWS,
                tuple(spec.ptk_id for spec in silent),
                n_max=policy.n_max,
            )
        best = _best(line, offers, policy, {})
        if isinstance(best, Infeasible):
            best = _group_by_group(line, members, offers, policy)
        if isinstance(best, Infeasible):
            return best
        plans += best
    return tuple(plans)


def first_offers(specs: Sequence[PtkSpec], policy: Policy) -> tuple[Planned, ...]:
    """The first offer of each PTK that has one, whether they fit together or not."""
    menus = ((offers_of(spec, policy), policy.sharing.line_of(spec.ptk_id)) for spec in specs)
    return tuple(Planned(menu[0], line) for menu, line in menus if menu)


def offers_of(spec: PtkSpec, policy: Policy) -> tuple[Offer, ...]:
    """The ways in which a PTK can be trained; none when its target needs more rows than a partition can expect.

    A PTK that names a range of epsilons is profiled by its family's formula: rows that are expected to reach its
    target, at each epsilon of a grid. Another one asks for the loss it declares, on every row of a train partition.
    """
    rows = _partition_rows(policy)
    choices: Iterable[tuple[Loss, int]] = [(spec.loss, rows)]
    if (span := epsilons_of(spec.config)) is not None:
        text = canonical_json(spec.estimator)
        pairs = _formula_menu(text, spec.target, span, min(rows, policy.n_max))
        choices = [(Loss.charge(epsilon, spec.loss.delta), n) for epsilon, n in pairs]
    offers = []
    for loss, n in choices:
        event = event_of(spec.estimator, loss)
        offers.append(Offer(spec.ptk_id, loss, charge_of(event, policy.accountant, loss), event, n))
    return tuple(offers)


def epsilons_of(config: Mapping[str, Any]) -> tuple[float, float] | None:
    """The least and the greatest epsilon that a PTK may be given; None for one that asks for what it declares.

    Raises
    ------
    InvalidRequest
        `epsilons` is no pair of rising numbers in [1e-6, 10].
    """
    given = config.get("epsilons")
    if given is None:
        return None
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise InvalidRequest("epsilons of a PTK is the least and the greatest it may be given")
    low, high = (float(checked_epsilon(number, "each of epsilons")) for number in given)
    if low > high:
        raise InvalidRequest("epsilons of a PTK rise: the least first")
    return low, high


@lru_cache(maxsize=1024)
def _formula_menu(
    estimator_json: str, target: float, span: tuple[float, float], rows: int
) -> tuple[tuple[float, int], ...]:
    from ptklib.profiling import formula_profile  # loads every family that has a formula

    low, high = span
    grid = np.unique(np.geomspace(low, high, GRID_POINTS).clip(low, high))
    try:
        estimator = estimator_from_spec(json.loads(estimator_json))
        profile = formula_profile(estimator, target=target, epsilons=tuple(grid.tolist()), rows=rows)
    except PtklibError as error:
        raise InvalidRequest(f"epsilons need a family that can be profiled by a formula: {error}") from error
    menu: tuple[tuple[float, int], ...] = profile.menu()
    return menu


def demands_of(specs: Iterable[PtkSpec], policy: Policy) -> tuple[Demand, ...]:
    """The PTKs' menus in epsilon and delta, as they declare them."""
    menus = (offers_of(spec, policy) for spec in specs)
    return tuple(
        Demand(menu[0].ptk_id, tuple(Choice(offer.loss, offer.n_rows) for offer in menu)) for menu in menus
    )


def why_not(spec: PtkSpec, others: Sequence[PtkSpec], policy: Policy, refusal: Infeasible) -> str:
    """Why a PTK does not fit beside others who keep what they have, and what would make it fit."""
    members = _rivals(spec, others, policy)
    menus = [menu for menu in (offers_of(one, policy) for one in members) if menu]
    mine = offers_of(spec, policy)
    asked = f"{spec.ptk_id} asks for {spec.loss} per window"
    if (span := epsilons_of(spec.config)) is not None:
        asked = f"{spec.ptk_id} asks for an epsilon of {span[0]:g} to {span[1]:g} per window"
    if not mine:
        rows = min(_partition_rows(policy), policy.n_max)
        return f"{asked}; its target needs more than the {rows} rows it can get. Take a looser target"
    beside = f"{asked}; beside {len(members)} registered PTKs"
    if refusal.reason is Reason.ROWS:
        return f"{beside} there are too few rows: {str(refusal).rstrip('.')}"
    capacity = policy.sharing.lines(policy.capacity)[policy.sharing.line_of(spec.ptk_id)]
    if policy.accountant is Accountant.BASIC:
        return f"{beside} {_basic_room(mine, menus, policy, capacity)}"
    pure = _pure_left(menus, policy.accountant, capacity)
    room = f"a pure {pure} fits" if pure.epsilon_nano else "no pure loss fits"
    return (
        f"{beside} {room} under the accountant {policy.accountant.value!r}; other noise depends on its curve"
    )


def _basic_room(
    mine: Sequence[Offer], menus: Sequence[Sequence[Offer]], policy: Policy, capacity: Loss
) -> str:
    """What is left where epsilons and deltas add up, and other ways."""
    limits = _limits(policy, capacity, capacity.delta_atto, capacity.epsilon_nano)
    demands = [Demand(m[0].ptk_id, tuple(Choice(o.loss, o.n_rows) for o in m)) for m in menus]
    current = allocate_partitions(demands, limits)
    if not isinstance(current, Plan):
        return "nothing is left"
    new = Demand(mine[0].ptk_id, tuple(Choice(offer.loss, offer.n_rows) for offer in mine))
    helps = remedies(demands, current, new, limits)
    left = max((Loss(o.amount, o.delta_atto) for o in helps.openings), default=NO_LOSS, key=_by_epsilon)
    ways = [
        f"the policy has {left} left. " + ("A PTK within these fits" if left.epsilon_nano else "Nothing fits")
    ]
    if helps.capacity is not None:
        ways.append(f"with a capacity of {Loss(helps.capacity, capacity.delta_atto)} it would fit")
    if helps.n_max is not None and helps.n_max > policy.n_max:
        ways.append(f"with an n_max of {helps.n_max} all would fit")
    return "; ".join(ways)


def _by_epsilon(loss: Loss) -> int:
    return loss.epsilon_nano


def _pure_left(menus: Sequence[Sequence[Offer]], accountant: Accountant, capacity: Loss) -> Loss:
    """A pure epsilon that surely fits one partition beside the cheapest offers; none when nothing does."""
    caps = caps_of(accountant, capacity)
    taken = [min(menu, key=lambda offer: offer.loss.epsilon_nano).charge for menu in menus]

    def fits(epsilon_nano: int) -> bool:
        charges = [*taken, Charge.pure(accountant, Loss(epsilon_nano))]
        sums = [sum(amounts) for amounts in zip(*(charge.amounts for charge in charges), strict=True)]
        return admits(caps, sums, sum(charge.delta_atto for charge in charges))

    low, high = LEAST_LOSS.epsilon_nano - 1, capacity.epsilon_nano
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return Loss(low) if low >= LEAST_LOSS.epsilon_nano else NO_LOSS


def by_budget(specs: Sequence[PtkSpec], policy: Policy) -> list[tuple[str, list[PtkSpec]]]:
    """The PTKs that pay from one and the same budget: of one line, on blocks that some chain of them shares."""
    lines: dict[str, list[tuple[range, PtkSpec]]] = {}
    for spec in specs:
        groups = groups_where(policy, spec.config.get("where"))
        lines.setdefault(policy.sharing.line_of(spec.ptk_id), []).append((groups, spec))
    found: list[tuple[str, list[PtkSpec]]] = []
    for line, members in lines.items():
        end = -1
        for groups, spec in sorted(members, key=lambda member: (member[0].start, member[0].stop)):
            if groups.start >= end:
                found.append((line, []))
            found[-1][1].append(spec)
            end = max(end, groups.stop)
    return found


def _rivals(spec: PtkSpec, others: Sequence[PtkSpec], policy: Policy) -> list[PtkSpec]:
    """The others that pay from the budget of `spec`, on the group of blocks where they ask for most."""
    line = policy.sharing.line_of(spec.ptk_id)
    most: list[PtkSpec] = []
    for group in groups_where(policy, spec.config.get("where")):
        here = [
            one
            for one in others
            if policy.sharing.line_of(one.ptk_id) == line
            and group in groups_where(policy, one.config.get("where"))
        ]
        if sum(one.loss.epsilon_nano for one in here) > sum(one.loss.epsilon_nano for one in most):
            most = here
    return most


def _group_by_group(
    line: str, members: Sequence[PtkSpec], offers: Sequence[Sequence[Offer]], policy: Policy
) -> list[Planned] | Infeasible:
    """A plan of the cheapest offers, where PTKs that share no block do not add up; `Infeasible` if there is none."""
    cheapest = [(min(menu, key=lambda offer: offer.loss.epsilon_nano),) for menu in offers]
    where = [groups_where(policy, spec.config.get("where")) for spec in members]
    planned: dict[str, Planned] = {}
    for group in sorted({group for groups in where for group in groups}):
        here = [menu for menu, groups in zip(cheapest, where, strict=True) if group in groups]
        found = _best(line, here, policy, {ptk_id: one.partition for ptk_id, one in planned.items()})
        if isinstance(found, Infeasible):
            return found
        planned.update({one.offer.ptk_id: one for one in found})
    return list(planned.values())


def _best(
    line: str, offers: Sequence[Sequence[Offer]], policy: Policy, settled: Mapping[str, int]
) -> list[Planned] | Infeasible:
    capacity = policy.sharing.lines(policy.capacity)[line]
    caps = caps_of(policy.accountant, capacity)
    best: Plan | None = None
    chosen: list[Planned] = []
    why = Infeasible(NO_LOSS, capacity)
    for place, cap in enumerate(caps.amounts):
        if cap <= 0:
            continue
        menus = [tuple(_choice(offer, place) for offer in menu) for menu in offers]
        plan = allocate_partitions(
            [
                Demand(menu[0].ptk_id, choices, settled.get(menu[0].ptk_id))
                for menu, choices in zip(offers, menus, strict=True)
            ],
            _limits(policy, capacity, caps.delta_atto, cap),
        )
        if isinstance(plan, Infeasible):
            why = plan  # the last coordinate is epsilon itself: the reason that people understand
        elif best is None or plan.total_rows < best.total_rows:
            best = plan
            chosen = [
                Planned(_offered(menu, grant), line, grant.partition)
                for menu, grant in zip(offers, plan.grants, strict=True)
            ]
    return why if best is None else chosen


def _limits(policy: Policy, capacity: Loss, delta_atto: int, amount: int) -> Limits:
    return Limits(
        Loss(capacity.epsilon_nano, delta_atto),
        policy.n_max,
        policy.train_partitions,
        amount=amount,
        partition_rows=_partition_rows(policy),
    )


def _partition_rows(policy: Policy) -> int:
    """The rows that a train partition can expect."""
    return max(1, int(share_of(policy, FIRST_TRAIN) * policy.rows_per_window))


def _choice(offer: Offer, place: int) -> Choice:
    # The deltas that are added up are those of the charge: under curves that of a Gaussian is in its curve.
    return Choice(
        Loss(offer.loss.epsilon_nano, offer.charge.delta_atto), offer.n_rows, offer.charge.amounts[place]
    )


def _offered(menu: Sequence[Offer], grant: Grant) -> Offer:
    return next(
        offer
        for offer in menu
        if (offer.loss.epsilon_nano, offer.n_rows) == (grant.loss.epsilon_nano, grant.n_rows)
    )
