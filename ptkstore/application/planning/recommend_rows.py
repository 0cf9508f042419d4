"""Recommend the rows and the window length that a stream's PTKs need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial

from ptkstore.application.planning.formula_plans import with_facts
from ptkstore.application.planning.window_plans import (
    Offer,
    Room,
    as_released,
    by_budget,
    offers_of,
    plan_budget,
    room_of,
)
from ptkstore.domain.accounting.accountants import caps_of
from ptkstore.domain.accounting.losses import NO_LOSS
from ptkstore.domain.allocation.advice import Need, Recommendation, recommend, scaled
from ptkstore.domain.allocation.model import Infeasible, Reason
from ptkstore.domain.allocation.plans import allocate_partitions, first_feasible
from ptkstore.domain.ptks.ptks import PtkSpec
from ptkstore.domain.streams.blocks import groups_where
from ptkstore.domain.streams.policies import Policy
from ptkstore.errors import InvalidRequest
from ptkstore.ports.catalog import Read

MOST_PARTITIONS = 64
BOUND_ROUNDS = 20
COORDINATES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class StreamAdvice:
    """A recommendation for each budget: a line of it, on blocks that its PTKs share.

    They open the same rows of a window, so that the stream needs as many as the one that needs most.
    """

    stream: str
    policy: Policy
    lines: dict[str, Recommendation]

    @property
    def n_rows(self) -> int | None:
        """N, or None where some line has no plan."""
        rows = [line.n_rows for line in self.lines.values()]
        known_rows = [n for n in rows if n is not None]
        return max(known_rows, default=0) if len(known_rows) == len(rows) else None

    @property
    def window(self) -> timedelta | None:
        """T, or None where some line has no plan."""
        windows = [line.window for line in self.lines.values() if line.window is not None]
        return max(windows) if windows and self.n_rows is not None else None


def check_partitions(partitions: int | None) -> None:
    """Raise `InvalidRequest` unless so many train partitions can be planned with."""
    if partitions is not None and not 1 <= partitions <= MOST_PARTITIONS:
        raise InvalidRequest(f"partitions must be a whole number between 1 and {MOST_PARTITIONS}")


def recommend_rows(stream: str, *, partitions: int | None = None, begin: Read) -> StreamAdvice:
    """Recommend what the PTKs of a stream need, planned as its windows are: by accountant, line and blocks.

    Only the policy and what PTKs declare, or profiles and versions have released, go in: all of it public.

    Parameters
    ----------
    partitions : int
        The most train partitions to plan with; the policy's number by default.
    """
    check_partitions(partitions)
    with begin() as uow:
        owner = uow.streams.get(stream)
        owner.check_rows_in_store("no rows are planned")
        policy = owner.policy
        specs = [as_released(spec, policy) for spec in with_facts(uow, uow.ptks.find(stream=stream), policy)]
    budgets = by_budget(sorted(specs, key=lambda spec: spec.ptk_id), policy)
    several = Counter(line for line, _ in budgets)
    advised: dict[str, Recommendation] = {}
    for line, members in budgets:
        budget = _Budget(policy, line, members, partitions or policy.train_partitions)
        advised[f"{line}, {_values(members, policy)}" if several[line] > 1 else line] = recommend(
            budget.needs,
            len(members),
            policy.lines[line],
            rows_per_window=policy.rows_per_window,
            window=policy.window,
            train_share=Decimal(1) - policy.profile_share - policy.test_share,
        )
    return StreamAdvice(stream, policy, advised)


def _values(members: Sequence[PtkSpec], policy: Policy) -> str:
    """The values of the stream's attribute whose blocks these PTKs are trained on."""
    places = {group for spec in members for group in groups_where(policy, spec.config.get("where"))}
    return " ".join(str(policy.attribute_values[place]) for place in sorted(places))


class _Budget:
    """PTKs that pay from one budget, and what they need of it."""

    def __init__(self, policy: Policy, line: str, members: Sequence[PtkSpec], partitions: int) -> None:
        self._n_max = policy.n_max
        self._menus = {spec.ptk_id: offers_of(spec, policy) for spec in members}
        most = max([policy.n_max, *(offer.n_rows for menu in self._menus.values() for offer in menu)])
        room = room_of(policy, line)
        self._room = replace(room, n_max=64 * most, partitions=partitions, partition_rows=None)

    def needs(self, n_ptks: int, share: Fraction) -> Need | Infeasible:
        """The rows of so many PTKs of this mix with so large a share of the capacity."""
        if silent := tuple(ptk_id for ptk_id, menu in self._menus.items() if not menu):
            return Infeasible(NO_LOSS, self._room.capacity, Reason.ROWS, silent, n_max=self._n_max)
        room = replace(self._room, capacity=scaled(self._room.capacity, share))
        offers = self._mix(n_ptks)
        if n_ptks > len(self._menus) or share != 1:
            room = replace(room, coordinates=_promising(room, offers))
        best = plan_budget(offers, room, partial(allocate_partitions, bound_rounds=BOUND_ROUNDS))
        if isinstance(best, Infeasible):
            return best
        first = plan_budget(offers, room, first_feasible)
        rows = None if isinstance(first, Infeasible) else first.n_rows
        return Need(best.n_rows, len(best.caps), min(best.bound, best.n_rows), rows)

    def _mix(self, count: int) -> list[tuple[Offer, ...]]:
        """Menus of so many PTKs of the present kinds, in their turn; those that repeat are pinned nowhere."""
        menus, size = list(self._menus.values()), len(self._menus)
        again = [
            tuple(replace(o, ptk_id=f"{o.ptk_id}#{i // size}", partition=None) for o in menus[i % size])
            for i in range(size, count)
        ]
        return menus[:count] + again


def _promising(room: Room, offers: Sequence[Sequence[Offer]]) -> frozenset[int]:
    """The few coordinates at which the cheapest offers take least of the caps: a picture need not try them all."""
    caps = caps_of(room.accountant, room.capacity).amounts
    loads = {
        place: Fraction(sum(min(offer.charge.amounts[place] for offer in menu) for menu in offers), cap)
        for place, cap in enumerate(caps)
        if cap > 0
    }
    return frozenset(sorted(loads, key=loads.__getitem__)[:COORDINATES_SHOWN])
