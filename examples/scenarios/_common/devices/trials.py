"""One model trained by simulated devices, judged on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

import numpy as np

from _common.devices.tasks import DeviceTask
from ptklib.arrays import Floats
from ptklib.draw_discard import Simulation, start_instances
from ptklib.draw_discard.simulation import Scheme

LN = {n: log(n) for n in (3, 8, 16, 32)}
"""The paper's epsilons."""


@dataclass(frozen=True)
class Trial:
    """How devices learn.

    Parameters
    ----------
    epsilon : float or None
        Of a report: of the whole model where `clip` is "l1" or "l2", of each weight where it is "coordinate". None
        leaves the noise out.
    start : float
        Without noise: the epsilon whose noise says how far apart instances begin; 1 as in the paper.
    simulated : mapping
        Further parameters of a `Simulation`.
    """

    k: int = 20
    epsilon: float | None = None
    start: float = 1.0
    clip: str = "coordinate"
    learning_rate: float = 0.001
    scheme: Scheme = "discard"
    batch: int = 1
    max_norm: float = 1.0
    simulated: Mapping[str, Any] = field(default_factory=dict)


def judged(task: DeviceTask, trial: Trial, reports: Sequence[int], seed: int) -> Floats:
    """Return log loss and accuracy after so many reports, (n_checkpoints, 2).

    Devices report in a random order, which the seed decides, again and again. Noise has no seed.
    """
    return np.array([task.judge.loss_and_accuracy(weights) for weights in _path(task, trial, reports, seed)])


def trained(task: DeviceTask, trial: Trial, reports: int, seed: int) -> Floats:
    """Return the weights after so many reports, (n_weights,)."""
    (weights,) = _path(task, trial, [reports], seed)
    return weights


def _path(task: DeviceTask, trial: Trial, reports: Sequence[int], seed: int) -> Iterator[Floats]:
    specification = task.specification(
        k=trial.k,
        epsilon=trial.epsilon or trial.start,
        clip=trial.clip,
        learning_rate=trial.learning_rate,
        max_norm=trial.max_norm,
    )
    instances = start_instances(specification)
    if trial.k == 1 or trial.scheme in ("accept", "batch"):  # those of a single instance begin at 0
        instances[:] = 0
    simulation = Simulation(
        replace(task.devices, specification=specification),
        instances=instances,
        noise=trial.epsilon is not None,
        scheme=trial.scheme,
        batch=trial.batch,
        **trial.simulated,
    )
    draws, waiting, done = np.random.default_rng(seed), np.empty(0, dtype=np.int64), 0
    for upto in reports:
        while len(waiting) < upto - done:
            waiting = np.concatenate((waiting, draws.permutation(task.n_devices)))
        simulation.run(waiting[: upto - done])
        waiting, done = waiting[upto - done :], upto
        yield simulation.instances.mean(axis=0, dtype=np.float64) / 2.0**specification.grid_bits
