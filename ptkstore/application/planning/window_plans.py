"""Plan a window: which loss, how many rows and which partition each PTK gets, under the stream's accountant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ptkstore.application.ledger.charging import Event, charge_of
from ptkstore.application.planning.estimators import event_of
from ptkstore.application.planning.formula_plans import formula_menu, grid_of
from ptkstore.domain.accounting.accountants import Accountant, Charge, caps_of
from ptkstore.domain.accounting.losses import NO_LOSS, Loss
from ptkstore.domain.allocation.model import Allotment, Choice, Demand, Infeasible, Limits, Reason, WindowPlan
from ptkstore.domain.allocation.plans import allocate_partitions
from ptkstore.domain.ptks.ptks import PtkSpec, by_formula, epsilons_of, pin_of
from ptkstore.domain.streams.blocks import FIRST_TRAIN, groups_where, share_of
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import PtkRejected

Solve = Callable[[Sequence[Demand], Limits], WindowPlan | Infeasible]
"""A way to solve the allocator's problem at one coordinate."""

Menu = Callable[[PtkSpec, Policy], "tuple[Offer, ...]"]
"""The offers of a PTK: `offers_of`, or what a caller who plans again and again remembers of it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One way to train a PTK, with what it costs under the stream's accountant.

    `groups` are those whose blocks it charges. `facts_of` is the version whose facts the rows follow from; 0 where they
    follow from none. `partition` is the one that the PTK is pinned to.
    """

    ptk_id: str
    loss: Loss
    charge: Charge
    event: Event
    n_rows: int
    groups: range
    facts_of: int = 0
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedTraining:
    """The part of a window that one PTK gets."""

    offer: Offer
    partition: int = 0


@dataclass(frozen=True, slots=True)
class Room:
    """The resources of one budget: a capacity in each of at most `partitions` parts, and rows for all of them.

    `coordinates` are those of the accountant that are planned at; all that have a cap by default.
    """

    accountant: Accountant
    capacity: Loss
    n_max: int
    partitions: int
    partition_rows: int | None = None
    coordinates: frozenset[int] | None = None

    def limits(self, delta_atto: int, amount: int) -> Limits:
        """Return the allocator's limits at one coordinate, which has a cap of `amount`."""
        return Limits(
            Loss(self.capacity.epsilon_nano, delta_atto),
            self.n_max,
            self.partitions,
            amount=amount,
            partition_rows=self.partition_rows,
        )


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """The allotments of the PTKs of one budget. No plan at the same coordinate opens fewer rows than `bound`."""

    planned: tuple[PlannedTraining, ...]
    bound: int

    @property
    def caps(self) -> dict[int, int]:
        """The rows that each partition opens: the most that one of its PTKs gets."""
        caps: dict[int, int] = {}
        for one in self.planned:
            caps[one.partition] = max(caps.get(one.partition, 0), one.offer.n_rows)
        return caps

    @property
    def n_rows(self) -> int:
        """The rows that all partitions open."""
        return sum(self.caps.values())


def plan_window(
    specs: Sequence[PtkSpec], policy: Policy, menu_of: Menu | None = None
) -> tuple[PlannedTraining, ...] | Infeasible:
    """Plan with the fewest rows that fit every budget of the policy, or say why there is no plan.

    At one coordinate of the accountant a plan is the allocator's own problem. So it is solved at each of them that has
    a cap, and the best answer is taken. The order of `specs` changes nothing: a plan that was found when the last PTK
    was registered is found again for each window.
    """
    plans: list[PlannedTraining] = []
    lines = policy.lines
    for line, members in by_budget(sorted(specs, key=lambda spec: spec.ptk_id), policy):
        if line not in lines:
            raise PtkRejected(f"{members[0].ptk_id}: the whole budget of its line is reserved for other PTKs")
        offers = [(menu_of or offers_of)(spec, policy) for spec in members]
        if silent := [spec for spec, menu in zip(members, offers, strict=True) if not menu]:
            return Infeasible(
                NO_LOSS,
                policy.capacity,
                Reason.ROWS,
                tuple(spec.ptk_id for spec in silent),
                n_max=policy.n_max,
            )
        best = plan_budget(offers, room_of(policy, line))
        if isinstance(best, Infeasible):
            return best
        plans += best.planned
    return tuple(plans)


def plan_with(
    asking: Sequence[PtkSpec], others: Sequence[PtkSpec], policy: Policy
) -> tuple[PlannedTraining, ...] | Infeasible:
    """Plan with PTKs that ask for room beside others, all as they are promised it; see `as_promised`.

    A PTK that asks may have facts of an older version of its own: they tell whether its target can be reached.
    """
    newcomers = (as_newcomer(spec, policy) for spec in asking)
    return plan_window((*(as_promised(other, policy) for other in others), *newcomers), policy)


def plan_budget(
    offers: Sequence[Sequence[Offer]], room: Room, solve: Solve = allocate_partitions
) -> BudgetPlan | Infeasible:
    """Plan with the fewest rows for PTKs that pay from one budget of `room`, each with a menu of `offers`."""
    best = _best(offers, room, {}, solve)
    return _group_by_group(offers, room, solve) if isinstance(best, Infeasible) else best


def cheapest(menu: Sequence[Offer]) -> Offer:
    """Return the offer with the least epsilon."""
    return min(menu, key=lambda offer: offer.loss.epsilon_nano)


def room_of(policy: Policy, line: str) -> Room:
    """Return what a line of the policy's budget has in a window."""
    capacity = policy.lines[line]
    return Room(policy.accountant, capacity, policy.n_max, policy.train_partitions, partition_rows(policy))


def first_offers(specs: Sequence[PtkSpec], policy: Policy) -> tuple[PlannedTraining, ...]:
    """Return the first offer of each PTK that has one, whether they fit together or not."""
    menus = (offers_of(spec, policy) for spec in specs)
    return tuple(PlannedTraining(menu[0], menu[0].partition or 0) for menu in menus if menu)


def offers_of(spec: PtkSpec, policy: Policy) -> tuple[Offer, ...]:
    """Return the ways in which a PTK can be trained; none when its target needs more rows than a partition has.

    A PTK that names a range of epsilons is profiled by its family's formula. The profile is the rows that are expected
    to reach its target, at each epsilon of a grid, as far as its facts tell. If the family has no formula, the PTK is
    profiled by samples. It may have what was found or, as any other PTK, the loss that it declares, on every row of a
    train partition. That is also what a PTK begins with whose formula tells nothing before its first version. One that
    is pinned to a number of rows has no others.
    """
    facts_of = spec.facts.version if spec.facts is not None else 0
    partition = pin_of(spec.config, policy).partition
    groups = groups_where(policy, spec.config.get("where"))
    offers = []
    for loss, n in ways_of(spec, policy):
        event = event_of(spec.estimator, loss)
        charge = charge_of(event, policy.accountant, loss)
        offers.append(Offer(spec.ptk_id, loss, charge, event, n, groups, facts_of, partition))
    return tuple(offers)


def ways_of(spec: PtkSpec, policy: Policy) -> list[tuple[Loss, int]]:
    """Loss and rows of each offer. Reading them loads an estimator only where they follow from a formula."""
    kept = pin_of(spec.config, policy).n_rows
    rows = partition_rows(policy) if kept is None else kept
    most, declared = min(rows, policy.n_max), (spec.loss, rows)
    if spec.profile is not None or spec.menu:
        wanted = [(epsilon, n * policy.max_rows_per_unit if n else rows) for epsilon, n in spec.menu]
        ways = [(epsilon, n if kept is None else rows) for epsilon, n in wanted if n <= most]
        return [*_charged(spec, ways), declared]
    if (span := epsilons_of(spec.config)) is not None:
        menu = formula_menu(spec, span, most)
        if menu is None:
            return [declared]
        return _charged(spec, [(epsilon, n if kept is None else rows) for epsilon, n in menu])
    return [declared]


def _charged(spec: PtkSpec, menu: Sequence[tuple[float, int]]) -> list[tuple[Loss, int]]:
    return [(Loss.charge(epsilon, spec.loss.delta), n) for epsilon, n in menu]


def as_released(spec: PtkSpec, policy: Policy) -> PtkSpec:
    """Return the PTK with its facts, as long as they leave it a way to its target."""
    return spec if spec.facts is not None and ways_of(spec, policy) else as_promised(spec, policy)


def as_promised(spec: PtkSpec, policy: Policy) -> PtkSpec:
    """Return the PTK as it counts when another one asks for room: without what its versions have told.

    Facts come from noisy releases and change with each. A PTK that was admitted while there was room without them fits
    whatever they say. One that needs them to reach its target at all has its epsilons, on all rows.
    """
    if not by_formula(spec):
        return spec
    bare = replace(spec, facts=None)
    return bare if ways_of(bare, policy) else on_all_rows(bare)


def as_newcomer(spec: PtkSpec, policy: Policy) -> PtkSpec:
    """Return a PTK that asks for room as it counts: as it is promised it, if it has a way to its target at all."""
    return as_promised(spec, policy) if ways_of(spec, policy) else spec


def on_all_rows(spec: PtkSpec) -> PtkSpec:
    """Return the PTK as it can be trained whatever its profile says: with any epsilon of its grid, on all rows.

    A profile that is renewed, drifts or comes to nothing may leave a PTK with larger epsilons than it was registered
    with. Those it was registered with stay within its range, so that nobody who fits is put out by another's profile.
    """
    if by_formula(spec):
        epsilons = grid_of(epsilons_of(spec.config) or (0.0, 0.0))
        return replace(spec, facts=None, menu=tuple((epsilon, 0) for epsilon in epsilons))
    if spec.profile is None:
        return spec
    rows_of = dict(spec.menu)
    return replace(spec, menu=tuple((epsilon, rows_of.get(epsilon, 0)) for epsilon in spec.profile.epsilons))


def by_budget(specs: Sequence[PtkSpec], policy: Policy) -> list[tuple[str, list[PtkSpec]]]:
    """Group PTKs by the budget they pay from: of one line, on blocks that some chain of them shares."""
    lines: dict[str, list[tuple[range, PtkSpec]]] = {}
    for spec in specs:
        groups = groups_where(policy, spec.config.get("where"))
        lines.setdefault(policy.line_of(spec.ptk_id), []).append((groups, spec))
    budgets: list[tuple[str, list[PtkSpec]]] = []
    for line, members in lines.items():
        end = -1
        for groups, spec in sorted(members, key=lambda member: (member[0].start, member[0].stop)):
            if groups.start >= end:
                budgets.append((line, []))
            budgets[-1][1].append(spec)
            end = max(end, groups.stop)
    return budgets


def _group_by_group(offers: Sequence[Sequence[Offer]], room: Room, solve: Solve) -> BudgetPlan | Infeasible:
    """A plan of the cheapest offers, where PTKs that share no block do not add up; `Infeasible` if there is none."""
    least = [cheapest(menu) for menu in offers]
    planned: dict[str, PlannedTraining] = {}
    bound = 0
    for group in sorted({group for offer in least for group in offer.groups}):
        here = [offer for offer in least if group in offer.groups]
        settled = {ptk_id: training.partition for ptk_id, training in planned.items()}
        best = _best([(offer,) for offer in here], room, settled, solve)
        if isinstance(best, Infeasible):
            return best
        planned.update({training.offer.ptk_id: training for training in best.planned})
        bound = max(bound, *(offer.n_rows for offer in here))
    return BudgetPlan(tuple(planned.values()), bound)


def _best(
    offers: Sequence[Sequence[Offer]], room: Room, settled: Mapping[str, int], solve: Solve
) -> BudgetPlan | Infeasible:
    caps = caps_of(room.accountant, room.capacity)
    best: BudgetPlan | None = None
    why = Infeasible(NO_LOSS, room.capacity)
    for place, cap in enumerate(caps.amounts):
        if cap <= 0 or (room.coordinates is not None and place not in room.coordinates):
            continue
        demands = [
            Demand(
                menu[0].ptk_id,
                tuple(_choice(offer, place) for offer in menu),
                settled.get(menu[0].ptk_id, menu[0].partition),
            )
            for menu in offers
        ]
        plan = solve(demands, room.limits(caps.delta_atto, cap))
        if isinstance(plan, Infeasible):
            why = plan  # the last coordinate is epsilon itself: the reason that people understand
        elif best is None or plan.total_rows < best.n_rows:
            allotments = zip(offers, plan.allotments, strict=True)
            planned = (PlannedTraining(_offered(menu, one), one.partition) for menu, one in allotments)
            best = BudgetPlan(tuple(planned), plan.bound)
    return why if best is None else best


def partition_rows(policy: Policy) -> int:
    """Return the rows that a train partition can expect."""
    return max(1, int(share_of(policy, FIRST_TRAIN) * policy.rows_per_window))


def _choice(offer: Offer, place: int) -> Choice:
    # The deltas that are added up are those of the charge: under curves that of a Gaussian is in its curve.
    return Choice(
        Loss(offer.loss.epsilon_nano, offer.charge.delta_atto), offer.n_rows, offer.charge.amounts[place]
    )


def _offered(menu: Sequence[Offer], allotment: Allotment) -> Offer:
    return next(
        offer
        for offer in menu
        if (offer.loss.epsilon_nano, offer.n_rows) == (allotment.loss.epsilon_nano, allotment.n_rows)
    )
