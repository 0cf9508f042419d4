"""Sage's Figure 8: how long PTKs wait under different policies, by the benchmark's simulator."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from _common.sage_policies import Fared, fared

POLICIES = ("streaming", "query", "aggressive", "conserve", "guided", "DPack")
GIVEN_UP = 0.5


@dataclass(frozen=True)
class Waits:
    """How PTKs fared at one rate under one policy, one entry for each seed."""

    policy: str
    rate: float
    runs: list[Fared]

    @property
    def hours(self) -> list[float]:
        """Mean hours to release; a lower bound where some PTKs were never released."""
        return [run.wait for run in self.runs]

    @property
    def released(self) -> float:
        """Share of the PTKs that were released."""
        return statistics.mean(run.released for run in self.runs)


def measure(rates: Sequence[float], seeds: int, policies: Sequence[str] = POLICIES) -> list[Waits]:
    """Return the waits for each policy and rate, up to the first rate at which it releases less than half."""
    found = []
    for policy in policies:
        for rate in rates:
            waits = Waits(policy, rate, [fared(policy, rate, seed) for seed in range(seeds)])
            print(f"{policy}, {rate:g} PTKs an hour: {statistics.mean(waits.hours):.1f} h", flush=True)
            found.append(waits)
            if waits.released < GIVEN_UP:
                break
    return found
