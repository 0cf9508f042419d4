"""Public tables of functions: a model reads them in place of computing exponentials of private numbers.

numpy may compute the exponential of one number differently, in the last bit, beside other numbers. A place in a table
follows from multiplication, rounding and clipping alone, which IEEE 754 defines number by number.
"""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ptklib.arrays import Floats

REACH = 16.0
"""Functions are tabulated from -16 to 16: beyond, they hardly change."""

STEPS = 2**11
"""Places in a table for each unit of its argument."""

FINE = 2.0**20
"""Units in 1, in tables of whole numbers."""

_EXPONENTIALS = 2.0**30
"""Units in 1 of tabulated exponentials: a sum of 500 is exact."""


def places(numbers: Floats) -> npt.NDArray[np.intp]:
    """Return the place of the nearest tabulated argument; overwrites `numbers`."""
    np.maximum(numbers, -REACH, out=numbers)
    np.minimum(numbers, REACH, out=numbers)
    numbers *= STEPS
    np.rint(numbers, out=numbers)
    numbers += REACH * STEPS
    return numbers.astype(np.intp)


def _arguments() -> Floats:
    return np.arange(-REACH * STEPS, REACH * STEPS + 1) / STEPS


@lru_cache(maxsize=1)
def logistic() -> Floats:
    """Return the logistic function in units of 1 / FINE."""
    return np.asarray(np.rint(FINE / (1 + np.exp(-_arguments()))))


@lru_cache(maxsize=1)
def exponential() -> Floats:
    """Return the exponential of arguments up to 0 in whole numbers."""
    return np.asarray(np.rint(_EXPONENTIALS * np.exp(np.minimum(_arguments(), 0.0))))


@lru_cache(maxsize=8)
def activation(one: int) -> Floats:
    """Return the hyperbolic tangent in units of 1 / one."""
    return np.asarray(np.rint(one * np.tanh(_arguments())))


@lru_cache(maxsize=1)
def _smooth_logistic() -> Floats:
    return np.asarray(1 / (1 + np.exp(-_arguments())))


@lru_cache(maxsize=1)
def _smooth_exponential() -> Floats:
    return np.exp(np.minimum(_arguments(), 0.0))


def logistic_between(numbers: Floats) -> Floats:
    """Return the logistic function, between tabulated arguments along the chord: 1e-8 beside it at most."""
    return _between(_smooth_logistic(), numbers)


def exponential_between(numbers: Floats) -> Floats:
    """Return the exponential of numbers from -16 to 0, a relative 1e-7 beside it at most; beyond, that of the end."""
    return _between(_smooth_exponential(), numbers)


def _between(table: Floats, numbers: Floats) -> Floats:
    at = (np.clip(numbers, -REACH, REACH) + REACH) * STEPS
    low = np.minimum(np.floor(at), 2 * REACH * STEPS - 1)
    share, place = at - low, low.astype(np.intp)
    first = table.take(place)
    return np.asarray(first + share * (table.take(place + 1) - first))
