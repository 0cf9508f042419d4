"""Poisoned reports: how much worse a model becomes, with the server's tests and without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from _common.devices.measured import ACCURACY, LOSS
from _common.devices.tasks import DeviceTask
from _common.intervals import mean_and_half, shown
from _common.plots import Panel, save_panels
from ptklib.arrays import Floats
from ptklib.draw_discard import HonestRange, RecentRanges, Simulation, Specification, drift_limit
from ptklib.draw_discard.instances import Instances
from ptklib.draw_discard.specification import WEIGHT_MAX
from ptklib.draw_discard.updates import Weights, saturated

SETTINGS: Mapping[str, Any] = {
    "k": 20,
    "epsilon": log(32),
    "clip": "coordinate",
    "learning_rate": 0.02,
    "max_norm": 0.25,
}
"""Those of the best model at ln 32 of each weight."""

REFUSED_RATE = 1e-6
"""Share of honest reports that the tests may refuse, as the store has it."""

REFRESH = 100
"""Reports between two looks at the instances: those of a second."""

PUTS = 512
"""Reports that a range has to hold for; the store takes four to eight times those of the second before."""

MOVED_RATE = 0.01
"""Share of honest windows whose average may move beyond the limit, as the store has it."""

WINDOWS = 10


class Server:
    """The server's tests, and what they refused.

    Parameters
    ----------
    specification : Specification
    tests : bool
        Whether reports are tested at all.
    """

    def __init__(self, specification: Specification, tests: bool) -> None:
        self._specification, self._ranges = specification, RecentRanges(60)
        self.asked = {True: 0, False: 0}
        self.refused = {True: 0, False: 0}
        self.poisons = False
        self.tests = tests
        self.newest: HonestRange | None = None

    def look(self, instances: Instances) -> None:
        """Make the range anew."""
        self.newest = HonestRange.of(self._specification, instances, REFUSED_RATE, n_puts=PUTS)
        self._ranges.add(self.newest)

    def admits(self, instances: Instances, report: Weights) -> bool:
        """Return whether a report is taken; `poisons` says whether it is a poisoned one, for the counts."""
        if sum(self.asked.values()) % REFRESH == 0:
            self.look(instances)
        poisoned, self.poisons = self.poisons, False
        refused = self.tests and self._ranges.refusal(report) is not None
        self.asked[poisoned] += 1
        self.refused[poisoned] += refused
        return not refused


Attack = Callable[[Weights, Floats, Specification, Server], Floats]
"""Makes a report, in units of the grid, from what was drawn and from the direction that hurts."""


def crude(drawn: Weights, harm: Floats, specification: Specification, server: Server) -> Floats:
    """Weights of any size."""
    return np.asarray(np.sign(harm) * WEIGHT_MAX)


def slow(drawn: Weights, harm: Floats, specification: Specification, server: Server) -> Floats:
    """Move each weight by a deviation of the noise, which no test can tell from an honest report."""
    return np.asarray(drawn + np.sign(harm) * sqrt(specification.noise_variance))


def adaptive(drawn: Weights, harm: Floats, specification: Specification, server: Server) -> Floats:
    """Go as far as the tests let one: it knows the means, widths and norm of the server."""
    if server.newest is None:
        return np.asarray(drawn, dtype=np.float64)
    known = server.newest
    by_norm = known.norm / float(np.linalg.norm(harm))
    by_weight = float((known.widths / np.maximum(np.abs(harm), 1e-9)).min())
    return np.asarray(known.means + harm * (min(by_norm, by_weight) * (1 - 1e-6)))


ATTACKS: Mapping[str, Attack] = {"crude": crude, "slow": slow, "adaptive": adaptive}


@dataclass(frozen=True)
class Poisoned:
    """What a run with poison gives.

    Parameters
    ----------
    judged : tuple of float
        Log loss and accuracy.
    refused : mapping of bool to tuple of int
        Refused reports and all of them, honest ones under False and poisoned ones under True.
    drift : float
        How far the average moved in the worst window, over the `drift_limit` of its reports.
    """

    judged: tuple[float, float]
    refused: Mapping[bool, tuple[int, int]]
    drift: float


def poisoned(
    task: DeviceTask, truth: Floats, attack: Attack | None, share: float, tests: bool, reports: int, seed: int
) -> Poisoned:
    """Train with a share of poisoned reports, in windows; the order of devices follows from the seed."""
    specification = task.specification(**SETTINGS)
    server = Server(specification, tests)
    harm = -truth / np.linalg.norm(truth)

    def poison(drawn: Weights) -> Weights:
        assert attack is not None
        server.poisons = True
        return saturated(np.rint(attack(drawn, harm, specification, server)))

    simulation = Simulation(
        replace(task.devices, specification=specification),
        poisoned=share if attack else 0.0,
        poison=poison if attack else None,
        admits=server.admits,
    )
    draws, units = np.random.default_rng(seed), 2.0**specification.grid_bits
    order = np.concatenate([draws.permutation(task.n_devices) for _ in range(-(-reports // task.n_devices))])
    means, drifts = simulation.instances.mean(axis=0), []
    for window in np.array_split(order[:reports], WINDOWS):
        before, taken = means, simulation.taken
        simulation.run(window)
        means = simulation.instances.mean(axis=0)
        limit = drift_limit(specification, simulation.taken - taken, MOVED_RATE)
        drifts.append(float(np.linalg.norm(means - before)) / limit)
    return Poisoned(
        task.judge.loss_and_accuracy(means / units),
        {kind: (server.refused[kind], server.asked[kind]) for kind in (False, True)},
        max(drifts),
    )


def measure_spam(
    task: DeviceTask, truth: Floats, shares: Sequence[float], reports: int, seeds: int, out: Path
) -> Iterator[dict[str, Any]]:
    """Yield loss, accuracy and refusals of each attack and share, without the tests and with them; draw the loss."""

    def runs(attack: Attack | None, share: float, tests: bool) -> list[Poisoned]:
        return [poisoned(task, truth, attack, share, tests, reports, seed) for seed in range(seeds)]

    untested, tested = (runs(None, 0.0, tests) for tests in (False, True))
    clean = (0.0, *mean_and_half([one.judged[LOSS] for one in tested]))
    rows, lines = [_row("none", 0.0, untested, tested)], {}
    for name, attack in ATTACKS.items():
        of_shares = {share: (runs(attack, share, False), runs(attack, share, True)) for share in shares}
        rows += [_row(name, share, *found) for share, found in of_shares.items()]
        for place, which in enumerate(("no tests", "tests")):
            losses = {share: [one.judged[LOSS] for one in found[place]] for share, found in of_shares.items()}
            lines[f"{name}, {which}"] = [clean, *((x, *mean_and_half(y)) for x, y in losses.items())]
    yield {
        "table": "poisoned reports",
        "said": f"{task.name}, {reports:,} reports, ε = ln 32 of each weight, {seeds} seeds, 95 % intervals; "
        "with the server's tests where nothing else is said",
        "header": [
            "attack",
            "poisoned",
            "loss without tests",
            "accuracy without tests",
            "loss",
            "accuracy",
            "poisoned refused",
            "honest refused",
            "drift over its limit",
        ],
        "rows": rows,
    }
    panel = Panel("poisoned reports", "share of reports", "log loss", lines, scales=("linear", "log"))
    save_panels([panel], out / "draw_discard_spam.svg")


def _row(name: str, share: float, untested: Sequence[Poisoned], found: Sequence[Poisoned]) -> list[str]:
    def refused(kind: bool) -> str:
        some, of = (sum(counts) for counts in zip(*(one.refused[kind] for one in found), strict=True))
        return f"{some:,} of {of:,}" if of else "–"

    return [
        name,
        f"{share:.0%}",
        shown([one.judged[LOSS] for one in untested], ".3f"),
        shown([one.judged[ACCURACY] for one in untested], ".3f"),
        shown([one.judged[LOSS] for one in found], ".3f"),
        shown([one.judged[ACCURACY] for one in found], ".3f"),
        refused(True),
        refused(False),
        shown([one.drift for one in found], ".3f"),
    ]
