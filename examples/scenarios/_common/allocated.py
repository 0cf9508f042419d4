"""Allocations of PTKs to losses, rows and partitions, and the trainings that follow from them.

The plans are the service's (`ptkstore.domain.allocation`): under an accountant with several coordinates the problem is
solved at each of them, and the plan with the fewest rows is taken.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from _common.curves import Featurizer
from _common.profiled import Menu
from _common.thirteen import Ptk
from ptklib.canonical_json import canonical_json
from ptklib.profiling import HashedRows, HashRange
from ptklib.profiling.samples import HASHES
from ptklib.spec import estimator_from_spec
from ptkstore.adapters.keys.splitting import UNIT_ID_BYTES, split_hash
from ptkstore.application.ledger.charging import charge_of
from ptkstore.application.planning.estimators import event_of
from ptkstore.domain.accounting.accountants import Accountant, Charge, caps_of
from ptkstore.domain.accounting.losses import Loss
from ptkstore.domain.allocation.model import Allotment, Choice, Demand, Infeasible, Limits, WindowPlan
from ptkstore.domain.allocation.plans import allocate_partitions, first_feasible

CAPACITY = Loss.capacity(1.0, 1e-6)
"""What every block may lose; the PTK paper has epsilon 1 as well."""


@dataclass(frozen=True)
class Wish:
    """A PTK that wants to be trained: a name of its own, what it is, and the pairs that reach its target."""

    name: str
    ptk: Ptk
    menu: Menu


@dataclass(frozen=True)
class Allocation:
    """Our plan, the plan of the least K that has one, and rows that no plan goes below.

    `coordinate` is the accountant's at which the plan's losses are added up. The bound is over plans that add up at one
    coordinate in all partitions, as the service's do.
    """

    plan: WindowPlan | Infeasible
    first: WindowPlan | Infeasible
    bound: int
    coordinate: str

    @property
    def rows(self) -> int | None:
        """Rows that our plan opens."""
        return None if isinstance(self.plan, Infeasible) else self.plan.total_rows

    @property
    def first_rows(self) -> int | None:
        """Rows that the plan of the least K opens."""
        return None if isinstance(self.first, Infeasible) else self.first.total_rows

    def allotments(self) -> dict[str, Allotment]:
        """Return what each PTK got; nothing where there is no plan."""
        return (
            {}
            if isinstance(self.plan, Infeasible)
            else {allotment.ptk_id: allotment for allotment in self.plan.allotments}
        )


def allocation(
    wishes: Sequence[Wish], accountant: Accountant, *, partitions: int, n_max: int, bound_rounds: int = 400
) -> Allocation:
    """Plan all wishes together, in at most so many partitions and rows."""
    caps = caps_of(accountant, CAPACITY)
    ours: WindowPlan | Infeasible | None = None
    first: WindowPlan | Infeasible | None = None
    bound, coordinate = None, ""
    for place, (name, cap) in enumerate(zip(accountant.coordinates, caps.amounts, strict=True)):
        if cap <= 0:
            continue
        demands = [Demand(wish.name, _choices(wish, accountant, place)) for wish in wishes]
        limits = Limits(
            Loss(CAPACITY.epsilon_nano, caps.delta_atto), n_max, min(partitions, len(wishes)), amount=cap
        )
        found = allocate_partitions(demands, limits, bound_rounds=bound_rounds)
        first = _better(first, first_feasible(demands, limits), lambda plan: plan.partitions_used)
        if isinstance(found, WindowPlan):
            bound = found.bound if bound is None else min(bound, found.bound)
        better = _better(ours, found, lambda plan: 0)
        if better is found:
            ours, coordinate = found, name
    if ours is None or first is None:
        raise ValueError("an accountant has a coordinate that is of use")
    return Allocation(ours, first, bound or 0, coordinate)


def _better(
    known: WindowPlan | Infeasible | None,
    found: WindowPlan | Infeasible,
    before_rows: Callable[[WindowPlan], int],
) -> WindowPlan | Infeasible:
    """Return the better plan; of two refusals the later one, which is that of epsilons themselves."""
    if not isinstance(known, WindowPlan):
        return found
    if isinstance(found, Infeasible):
        return known
    return min(known, found, key=lambda plan: (before_rows(plan), plan.total_rows))


def _choices(wish: Wish, accountant: Accountant, place: int) -> tuple[Choice, ...]:
    spec = canonical_json(wish.ptk.estimator.to_spec())
    found = []
    for epsilon, n in wish.menu:
        loss, charge = _charged(spec, epsilon, accountant)
        found.append(Choice(Loss(loss.epsilon_nano, charge.delta_atto), n, charge.amounts[place]))
    return tuple(found)


@lru_cache(maxsize=8192)
def _charged(spec: str, epsilon: float, accountant: Accountant) -> tuple[Loss, Charge]:
    declared = estimator_from_spec(json.loads(spec)).set_params(epsilon=epsilon).declared_loss()
    loss = Loss.charge(epsilon, declared.delta)
    return loss, charge_of(event_of(json.loads(spec), loss), accountant, loss)


@dataclass(frozen=True)
class Window:
    """The rows that PTKs are made from, and what is public about them.

    `n_public` is the policy's estimate of their number, `profile_share` of which the profile set holds.
    """

    rows: pd.DataFrame
    n_public: int
    profile_share: float = 0.3

    @property
    def n_train(self) -> int:
        """Rows that are expected outside the profile set."""
        return int(self.n_public * (1 - self.profile_share))

    def split(self) -> Split:
        """Assign rows to parts by a hash whose key nobody knows."""
        ids = np.zeros((len(self.rows), 2), dtype="<u8")
        ids[:, 0] = np.arange(len(self.rows))
        names = ids.view(np.dtype((np.void, UNIT_ID_BYTES))).ravel()
        return Split(self, split_hash(secrets.token_bytes(32), names))


class Split:
    """A window whose rows have hashes: the profile set comes first, then one partition after the other."""

    def __init__(self, window: Window, hashes: npt.NDArray[np.uint64]) -> None:
        self.window = window
        self._profile_end = int(window.profile_share * HASHES)
        self._hashes = hashes
        self._rows = HashedRows(window.rows, hashes, population=window.n_public)

    def profile_set(self, columns: Sequence[str]) -> HashedRows:
        """Return the rows that profiles may read."""
        population = int(self.window.n_public * self.window.profile_share)
        within = (0, self._profile_end)
        return HashedRows(self.window.rows[list(columns)], self._hashes, population=population, within=within)

    def granted(self, allotment: Allotment, caps: Sequence[int]) -> pd.DataFrame:
        """Return the rows of a grant: a Bernoulli sample of its partition, as large as expected of its rate."""
        before = sum(caps[: allotment.partition])
        low, high = (
            self._profile_end + HASHES * n // self.window.n_public
            for n in (before, before + allotment.n_rows)
        )
        found: pd.DataFrame = self._rows.sample(HashRange(low, min(high, HASHES)))[0]
        return found


def trained(ptks: Sequence[Ptk], plan: WindowPlan, split: Split) -> dict[str, Any]:
    """Train each PTK with its granted loss on its granted rows."""
    allotments = {allotment.ptk_id: allotment for allotment in plan.allotments}
    return {
        ptk.name: ptk.trained(
            split.granted(allotments[ptk.name], plan.caps), allotments[ptk.name].loss.spendable_epsilon
        )
        for ptk in ptks
    }


def trained_alone(ptks: Sequence[Ptk], rows: pd.DataFrame, epsilon: float) -> dict[str, Any]:
    """Train each PTK as if it were the only one, with the whole epsilon on all rows."""
    return {ptk.name: ptk.trained(rows, epsilon) for ptk in ptks}


def featurizer(ptks: Sequence[Ptk], fitted: Mapping[str, Any]) -> Featurizer:
    """Put the features of all PTKs side by side."""
    parts = [ptk.featurizer(fitted[ptk.name]) for ptk in ptks]
    return lambda rows: pd.concat([part(rows) for part in parts], axis=1)
