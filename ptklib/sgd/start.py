"""Public choices of a descent: where it starts, and how far it steps."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ptklib.arrays import Floats
from ptklib.exceptions import InvalidParameterError
from ptklib.sgd.encoding import Encoding
from ptklib.sgd.network import Shape

CLIP_MIN, CLIP_MAX = 1e-6, 1e6
RATE_MAX = 1e3
_RATE, _HIDDEN_SHARE = 4.0, 0.5
_WANDERING = 1.0
"""How far, at most, noise alone moves the weights with the default learning rate."""


@dataclass(frozen=True, slots=True)
class Descent:
    """Public numbers of the descent."""

    clip_norm: float
    learning_rate: float
    given: bool
    """Whether somebody chose the learning rate; the default shrinks where noise would lead the weights away."""
    momentum: float

    def step_size(self, noise: float, n_weights: int, n_steps: int) -> float:
        """Return the learning rate for gradients with noise of deviation `noise` in each weight: public numbers."""
        if self.given:
            return self.learning_rate
        wandering = noise * sqrt(n_weights * n_steps)
        return min(self.learning_rate, _WANDERING * sqrt(n_weights) / max(wandering, 1e-300))


def descent_of(
    encoding: Encoding, shape: Shape, clip_norm: float, learning_rate: float | None, momentum: float
) -> Descent:
    """Return the numbers of a descent, checked.

    Parameters
    ----------
    encoding : Encoding
    shape : Shape
    clip_norm, momentum : float
    learning_rate : float, optional
        None for the default.

    Notes
    -----
    The default learning rate is about one over the curvature of the loss: the mean square of the length of the inputs,
    for numbers that fill their bounds evenly.
    """
    if not CLIP_MIN <= clip_norm <= CLIP_MAX:
        raise InvalidParameterError(f"clip_norm must be in [{CLIP_MIN:g}, {CLIP_MAX:g}]")
    if not 0 <= momentum < 1:
        raise InvalidParameterError("momentum must be in [0, 1)")
    if learning_rate is not None:
        if not 0 < learning_rate <= RATE_MAX:
            raise InvalidParameterError(f"learning_rate must be in (0, {RATE_MAX:g}]")
        return Descent(clip_norm, learning_rate, True, momentum)
    numbers = 0 if encoding.block is None else len(encoding.block.names)
    usual = numbers / 3 + len(encoding.domains) + 1
    rate = _RATE / max(usual / 8, 1.0) * (_HIDDEN_SHARE if shape.hidden else 1.0)
    return Descent(clip_norm, rate, False, momentum)


def first_weights(shape: Shape, seed: int) -> list[Floats]:
    """Return zeros for a linear model; for a network, hidden layers by Glorot's rule from a public seed."""
    random = np.random.default_rng([seed, 0])
    weights = []
    for place, (n_out, n_in) in enumerate(shape.layers):
        layer = np.zeros((n_out, n_in))
        if place < len(shape.hidden):
            layer[:, :-1] = random.uniform(-1.0, 1.0, (n_out, n_in - 1)) * sqrt(6 / (n_out + n_in - 1))
        weights.append(layer)
    return weights
