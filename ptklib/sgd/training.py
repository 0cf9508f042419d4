"""Noisy gradient descent on Poisson samples."""

from dataclasses import dataclass

import numpy as np

from ptklib.arrays import Floats, Ints
from ptklib.mechanisms import additive
from ptklib.mechanisms.coins import sampled, tossed
from ptklib.mechanisms.stream import KeyStream
from ptklib.sgd.encoding import Encoding
from ptklib.sgd.heads import Head
from ptklib.sgd.network import ROWS_AT_ONCE, UNIT, Network, Shape, quantised
from ptklib.sgd.plan import FitPlan
from ptklib.sgd.start import Descent


@dataclass(frozen=True, eq=False)
class Examples:
    """Quantised rows of features, their labels, and where the rows of each privacy unit begin: **private**."""

    rows: Ints
    """Shape (n_rows, width)."""
    labels: Ints
    starts: Ints | None
    """Where each unit's rows begin, None where each row has a coin of its own."""

    def __len__(self) -> int:
        return len(self.labels)

    def sample(self, rate: float, stream: KeyStream) -> Ints:
        """Return the places of a fresh Poisson sample, by coins from the stream of a training."""
        if self.starts is None:
            return sampled(len(self), rate, stream)
        lengths = np.diff(self.starts, append=len(self))
        return np.flatnonzero(np.repeat(tossed(len(self.starts), rate, stream), lengths))


@dataclass(frozen=True, eq=False)
class Trained:
    """Released weights, and the noisy number of rows."""

    weights: list[Floats]
    n_rows: float


def train(
    examples: Examples,
    encoding: Encoding,
    shape: Shape,
    head: Head,
    plan: FitPlan,
    descent: Descent,
    start: list[Floats],
) -> Trained:
    """Return the mean of the weights of the second half of the steps.

    Parameters
    ----------
    start : list of ndarray
        Public or released weights to start from.

    Notes
    -----
    A step adds the noisy mean gradient of a Poisson sample, divided by the expected size of the sample, whose number of
    rows is noisy too. Everything after the noise is arithmetic on what was given out.
    """
    sampling = plan.sampling
    counted = additive.gaussian(np.array([len(examples)]), scale=plan.count_scale)
    n_rows = float(counted[0])
    worth = descent.clip_norm / (UNIT * max(n_rows * sampling.rate, 1.0))
    step_size = descent.step_size(plan.step_scale * worth, shape.n_weights, sampling.n_steps)
    weights = np.concatenate([layer.ravel() for layer in start])
    noised = additive.gaussian_steps(scale=plan.step_scale, size=shape.n_weights)
    layers, stream = shape.split(weights), KeyStream()
    speed, mean, averaged = np.zeros_like(weights), np.zeros_like(weights), 0
    for step in range(sampling.n_steps):
        network = Network(shape, quantised(layers), head)
        places = examples.sample(sampling.rate, stream)
        exact = _gradient(examples, places, encoding, network, descent.clip_norm)
        speed = descent.momentum * speed + (1 - descent.momentum) * (noised(exact) * worth)
        weights -= step_size * speed
        if 2 * step + 1 >= sampling.n_steps:
            averaged += 1
            mean += (weights - mean) / averaged
    return Trained(quantised(shape.split(mean)), n_rows)


def _gradient(
    examples: Examples, places: Ints, encoding: Encoding, network: Network, clip_norm: float
) -> Ints:
    """Return the exact sum of the clipped gradients of some rows."""
    total: Ints | None = None
    for start in range(0, max(len(places), 1), ROWS_AT_ONCE):
        some = places[start : start + ROWS_AT_ONCE]
        part = network.clipped_gradient(
            encoding.inputs(examples.rows.take(some, axis=0)), examples.labels.take(some), clip_norm
        ).astype(np.int64)
        total = part if total is None else total + part
    assert total is not None
    return total
