"""A cab team with its 13 PTKs: profiled on its past, allocated, trained, and used for its own task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd

from _common import allocated, profiled, thirteen
from _common.allocated import Allocation, Window, Wish
from _common.curves import Featurizer
from _common.profiled import Profiles
from _common.thirteen import LEVELS, LOOSE, TIGHT, Ptk
from ptkstore.domain.accounting.accountants import Accountant
from ptkstore.domain.allocation.model import WindowPlan

ACCOUNTANTS = (Accountant.BASIC, Accountant.RENYI)
PARTITIONS, MANY_PARTITIONS = 4, 8
BOUND_ROUNDS = 100  # for many PTKs, at each of an accountant's coordinates


@dataclass
class Team:
    """A cab service with its past, its own task, and what its profile set told."""

    name: str
    window: Window
    found: Profiles
    ptks: Sequence[Ptk]
    errors: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, past: pd.DataFrame) -> Team:
        """Profile the PTKs on the profile set of a team's past."""
        ptks, window = thirteen.ptks(), Window(past, public_number(len(past)))
        return cls(name, window, profiled.profiles(ptks, window.split().profile_set(past.columns)), ptks)

    def wishes(self, level: str) -> list[Wish]:
        """Return the 13 with their menus."""
        return [Wish(ptk.name, ptk, self.found.menu(ptk, level)) for ptk in self.ptks]

    def allocations(self) -> dict[str, Allocation | str]:
        """Return the allocation of each level and accountant by the name of its line, or why there is none."""
        found: dict[str, Allocation | str] = {}
        for level in LEVELS:
            wishes = self.wishes(level)
            silent = ", ".join(wish.name for wish in wishes if not wish.menu)
            for accountant in ACCOUNTANTS:
                line = f"{level}, {accountant.value}"
                found[line] = (
                    f"no number of rows is known to reach the target: {silent}"
                    if silent
                    else allocated.allocation(
                        wishes, accountant, partitions=PARTITIONS, n_max=self.window.n_train
                    )
                )
        return found

    def trained(self, line: str, plan: WindowPlan) -> Featurizer:
        """Train by a plan, with a split of its own; keep how far each PTK is from the truth."""
        fitted = allocated.trained(self.ptks, plan, self.window.split())
        of_line = self.errors.setdefault(line, {ptk.name: [] for ptk in self.ptks})
        for ptk in self.ptks:
            of_line[ptk.name].append(ptk.error(fitted[ptk.name], self.window.rows))
        return allocated.featurizer(self.ptks, fitted)

    def alone(self, rows: pd.DataFrame, epsilon: float | None) -> Featurizer:
        """Train each PTK alone on all of `rows`; without noise where epsilon is None."""
        if epsilon is None:
            parts = [ptk.exact(rows) for ptk in self.ptks]
            return lambda table: pd.concat([part(table) for part in parts], axis=1)
        return allocated.featurizer(self.ptks, allocated.trained_alone(self.ptks, rows, epsilon))

    def plans(self, allocations: Mapping[str, Allocation | str]) -> dict[str, Callable[[], Featurizer]]:
        """Return how to train by each plan there is, by the name of its line."""
        return {
            line: partial(self.trained, line, found.plan)
            for line, found in allocations.items()
            if isinstance(found, Allocation) and isinstance(found.plan, WindowPlan)
        }

    def nothing(self) -> Featurizer:
        """Train each PTK alone on an empty table, at epsilon 1."""
        return self.alone(self.window.rows.head(0), 1.0)

    def resampled(self, count: int, seed: int = 0) -> list[Wish]:
        """Draw PTKs from the 13 with targets between tight and loose; a clustering has one of its two profiles."""
        draw = np.random.default_rng(seed)
        wishes = []
        for i in range(count):
            ptk = self.ptks[int(draw.integers(len(self.ptks)))]
            part = float(draw.random())
            target = ptk.targets[TIGHT] * (ptk.targets[LOOSE] / ptk.targets[TIGHT]) ** part
            menu = self.found.menu(ptk, LOOSE if part >= 0.5 else TIGHT, target)
            if menu:
                wishes.append(Wish(f"{i}: {ptk.name}", ptk, menu))
        return wishes

    def rows_by_count(self, counts: Sequence[int]) -> dict[str, list[tuple[int, Allocation]]]:
        """Return the allocation of the first so many of the drawn PTKs, for each accountant."""
        everybody = self.resampled(max(counts))
        found: dict[str, list[tuple[int, Allocation]]] = {}
        for accountant in ACCOUNTANTS:
            for count in counts:
                wishes = everybody[:count]
                plan = allocated.allocation(
                    wishes,
                    accountant,
                    partitions=MANY_PARTITIONS,
                    n_max=profiled.ALL_ROWS,
                    bound_rounds=BOUND_ROUNDS,
                )
                found.setdefault(accountant.value, []).append((len(wishes), plan))
        return found


def public_number(n_rows: int) -> int:
    """Return two digits of a number of rows: in a service the policy says how many are expected."""
    step = 10 ** max(len(str(n_rows)) - 2, 0)
    return round(n_rows / step) * step
